// See host_space.h.
#include "runtime/host/host_space.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <utility>

#include "machine/machine.h"
#include "platform/host/host_platform.h"
#include "trace/trace.h"

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

}  // namespace

Bytes available_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string field;
  Bytes kibibytes = 0;
  while (file >> field) {
    if (field == "MemAvailable:") {
      file >> kibibytes;
      break;
    }
    file.ignore(256, '\n');
  }
  return kibibytes * kKiB;
}

Status set_storage(HostSpaceOptions& options, const std::string& text) {
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

Result<HostSpaceOptions> host_space_options_from_environment() {
  HostSpaceOptions options;
  const Bytes available_bytes = available_memory_bytes();
  options.device_bytes = available_bytes / 4 * 3;
  options.host_bytes = available_bytes / 2;
  if (const char* const policy = std::getenv("SPILLWAY_POLICY")) {
    options.policy = policy;
  }
  Bytes bandwidth_bytes_per_s = 0;
  std::uint32_t degree = 0;
  Status ok = read_bytes("SPILLWAY_DEVICE_MEMORY", options.device_bytes);
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
  // An operator on a CPU is small beside a GPU's kernel with its launch: twice as many ahead.
  constexpr std::uint32_t kOperatorsAhead = 64;
  options.policy_options.prefetch_degree = degree > 0 ? degree : kOperatorsAhead;
  return options;
}

Result<std::unique_ptr<HostSpace>> HostSpace::open(const HostSpaceOptions& options) {
  const Result<const PolicyInfo*> info = find_policy(options.policy);
  if (!info) {
    return tl::unexpected<Error>(info.error());
  }
  const PolicyTraits& traits = (*info)->traits;
  if (!traits.uses_host && options.storage_path.empty()) {
    return make_error(ErrorCode::kInvalidInput,
                      "the policy '{}' moves data to storage only: name a place with --storage",
                      options.policy);
  }
  std::unique_ptr<HostSpace> space(new HostSpace(options, **info));
  if ((*info)->plan != nullptr) {
    auto profiled = std::make_unique<Profiled>((*info)->name);
    space->profiled_ = profiled.get();
    space->policy_ = std::move(profiled);
  } else {
    Result<std::unique_ptr<Policy>> policy =
        (*info)->make(Trace{}, Machine{}, options.policy_options);
    if (!policy) {
      return tl::unexpected<Error>(policy.error());
    }
    space->policy_ = std::move(*policy);
  }
  std::optional<SwapFile> storage;
  if (!options.storage_path.empty()) {
    Result<SwapFile> opened = SwapFile::open(options.storage_path, options.storage_bytes);
    if (!opened) {
      return tl::unexpected<Error>(opened.error());
    }
    storage.emplace(std::move(*opened));
  }
  host::HostOptions platform_options;
  platform_options.device_bytes = traits.unlimited_device
                                      ? std::max(options.device_bytes, available_memory_bytes())
                                      : options.device_bytes;
  platform_options.host_bytes = traits.uses_host ? options.host_bytes : 0;
  platform_options.link = options.link;
  Result<std::unique_ptr<host::HostPlatform>> platform =
      host::HostPlatform::create(platform_options, std::move(storage), *space->policy_);
  if (!platform) {
    return tl::unexpected<Error>(platform.error());
  }
  space->platform_ = std::move(*platform);
  return space;
}

// The first iteration is the program's setting up: memory is where it will stay from the second on.
bool HostSpace::iteration_ended() {
  ++iterations_;
  if (iterations_ == 1 && info_.traits.learns) {
    return watch();
  }
  if (watching_.exchange(false)) {
    if (const std::optional<RecordedIteration> iteration = platform_->end_recording()) {
      make_plan(*iteration);
      plan_watch_.begin(platform_->stats().engine.faults);
    }
    return false;
  }
  const bool follows_plan = profiled_ != nullptr && profiled_->follows_plan();
  return follows_plan && plan_watch_.outdated(platform_->stats().engine.faults) && watch();
}

bool HostSpace::watch() {
  if (profiled_ != nullptr) {
    platform_->begin_recording();
  }
  watching_ = true;
  return true;
}

void HostSpace::make_plan(const RecordedIteration& iteration) {
  HostPlan made =
      plan_on_host(info_, iteration, *platform_, options_.link, options_.policy_options);
  if (made.plan) {
    platform_->change_policy([&] {
      profiled_->follow(iteration, std::move(*made.plan),
                        info_.traits.uses_host ? Tier::kHost : Tier::kStorage);
    });
  }
  const std::scoped_lock lock(report_mutex_);
  made.report.number = report_ ? report_->number + 1 : 1;
  report_ = std::move(made.report);
}

std::optional<PlanReport> HostSpace::plan_report() const {
  const std::scoped_lock lock(report_mutex_);
  return report_;
}

}  // namespace spillway
