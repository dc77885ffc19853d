// See space_options.h.
#include "runtime/run/space_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace spillway {
namespace {

template <typename Number>
Status read_number(const char* name, Number& value) {
  const char* const text = std::getenv(name);
  if (text == nullptr) {
    return {};
  }
  const std::string_view digits(text);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || value < 0) {
    return make_error(ErrorCode::kInvalidInput, "{}: '{}' is not a number", name, text);
  }
  return {};
}

Status read_bytes(const char* name, Bytes& value) {
  const char* const text = std::getenv(name);
  if (text == nullptr) {
    return {};
  }
  const Result<Bytes> bytes = parse_bytes(text);
  if (!bytes) {
    return make_error(ErrorCode::kInvalidInput, "{}: {}", name, bytes.error().message);
  }
  value = *bytes;
  return {};
}

// Fewer is no device to move in.
constexpr Bytes kLeastDeviceBytes = 64 * kMiB;

}  // namespace

std::string fit_into(const MemoryRoom& room, SpaceOptions& options) {
  const Bytes most_bytes = room.to_take_bytes();
  // What is left differs a little from one look to the next.
  const Bytes wanted_bytes = options.device_bytes + options.host_bytes;
  if (wanted_bytes >= options.device_bytes && wanted_bytes <= most_bytes + room.left_bytes / 64) {
    return {};
  }
  const SpaceOptions wanted = options;
  options.device_bytes = std::min(options.device_bytes, std::max(most_bytes, kLeastDeviceBytes));
  options.host_bytes =
      std::min(options.host_bytes, most_bytes - std::min(most_bytes, options.device_bytes));
  if (options.device_bytes == wanted.device_bytes && options.host_bytes == wanted.host_bytes) {
    return {};
  }
  return fmt::format(
      "the budgets are {} of device memory and {} of host memory: {}, and {} of them "
      "stay for the program itself",
      format_bytes(options.device_bytes), format_bytes(options.host_bytes), room.text(),
      format_bytes(room.left_bytes - most_bytes));
}

Status set_storage(SpaceOptions& options, const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) {
    options.storage_path = text;
    return {};
  }
  const Result<Bytes> bytes = parse_bytes(text.substr(colon + 1));
  if (!bytes) {
    return make_error(ErrorCode::kInvalidInput, "storage '{}': {}", text, bytes.error().message);
  }
  options.storage_path = text.substr(0, colon);
  options.storage_bytes = *bytes;
  return {};
}

Status check_policy(const SpaceOptions& options) {
  const Result<const PolicyInfo*> info = find_policy(options.policy);
  if (!info) {
    return tl::unexpected<Error>(info.error());
  }
  if (!(*info)->traits.uses_host && options.storage_path.empty()) {
    return make_error(ErrorCode::kInvalidInput,
                      "the policy '{}' moves data to storage only: name a place with --storage",
                      options.policy);
  }
  return {};
}

Bytes SpaceDefaults::host_bytes_beside(Bytes device) const {
  return beside_each_other
             ? std::min(host_bytes, *beside_each_other - std::min(*beside_each_other, device))
             : host_bytes;
}

SpaceDefaults host_defaults(const MemoryRoom& room) {
  SpaceDefaults defaults{.policy = "deepum",
                         .device_bytes = room.left_bytes / 4 * 3,
                         .host_bytes = room.left_bytes / 2,
                         .beside_each_other = room.to_take_bytes(),
                         .policy_options = {}};
  // An operator on a CPU is small beside a GPU's kernel with its launch: twice as many ahead.
  constexpr std::uint32_t kOperatorsAhead = 64;
  defaults.policy_options.prefetch_degree = kOperatorsAhead;
  defaults.policy_options.prefetch_brake = true;
  defaults.policy_options.results_ahead = true;
  return defaults;
}

Result<SpaceOptions> space_options_from_environment(const SpaceDefaults& defaults) {
  SpaceOptions options;
  options.policy = defaults.policy;
  options.policy_options = defaults.policy_options;
  options.device_bytes = defaults.device_bytes;
  if (const char* const named = std::getenv("SPILLWAY_POLICY");
      named != nullptr && *named != '\0') {
    options.policy = named;
  }
  Bytes bandwidth_bytes_per_s = 0;
  std::uint32_t degree = 0;
  Status ok = read_bytes("SPILLWAY_DEVICE_MEMORY", options.device_bytes);
  options.host_bytes = defaults.host_bytes_beside(options.device_bytes);
  if (ok) ok = read_bytes("SPILLWAY_HOST_MEMORY", options.host_bytes);
  if (ok) ok = read_bytes("SPILLWAY_LINK_BANDWIDTH", bandwidth_bytes_per_s);
  if (ok) ok = read_number("SPILLWAY_FAULT_LATENCY", options.link.fault_latency_ns);
  if (ok) ok = read_number("SPILLWAY_PREFETCH_DEGREE", degree);
  if (const char* const storage = std::getenv("SPILLWAY_STORAGE"); ok && storage != nullptr) {
    ok = set_storage(options, storage);
  }
  if (!ok) {
    return tl::unexpected<Error>(ok.error());
  }
  options.link.bytes_per_s = static_cast<double>(bandwidth_bytes_per_s);
  if (degree > 0) {
    options.policy_options.prefetch_degree = degree;
  }
  return options;
}

}  // namespace spillway
