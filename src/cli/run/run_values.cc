// See run_values.h.
#include "cli/run/run_values.h"

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <system_error>

#include "base/units.h"
#include "cli/live/run_metrics.h"
#include "machine/quantity.h"
#include "platform/cuda/cuda_platform.h"
#include "platform/host/host_platform.h"
#include "runtime/run/space_options.h"

namespace spillway {
namespace {

Status check_size(const char* option, const std::string& text, Bytes least_bytes) {
  if (text.empty()) {
    return {};
  }
  const Result<Bytes> bytes = parse_bytes(text);
  if (!bytes) {
    return make_error(ErrorCode::kInvalidInput, "{}: {}", option, bytes.error().message);
  }
  if (*bytes < least_bytes) {
    return make_error(ErrorCode::kInvalidInput, "{}: {} is too little; at least {}", option, text,
                      format_bytes(least_bytes));
  }
  return {};
}

// PATH or PATH:SIZE.
Status check_storage(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == 0) {
    return make_error(ErrorCode::kInvalidInput, "--storage: '{}' lacks its place before the colon",
                      text);
  }
  return colon == std::string::npos ? Status()
                                    : check_size("--storage", text.substr(colon + 1), kBlockBytes);
}

Status check_device(const std::string& device) {
  return device == "auto" || device == "cuda" || device == "host"
             ? Status()
             : make_error(ErrorCode::kInvalidInput, "--device: '{}' is none of auto, cuda and host",
                          device);
}

// With what it is to move data to, where a policy is named.
Status check_named_policy(const RunOptions& options) {
  if (options.policy.empty()) {
    return {};
  }
  const char* const storage = std::getenv("SPILLWAY_STORAGE");
  SpaceOptions space;
  space.policy = options.policy;
  space.storage_path = !options.storage.empty() || storage == nullptr ? options.storage : storage;
  return check_policy(space);
}

Status check_latency(const std::string& text) {
  const Result<TimeNs> latency_ns = parse_time(text);
  return text.empty() || latency_ns ? Status()
                                    : make_error(ErrorCode::kInvalidInput, "--fault-latency: {}",
                                                 latency_ns.error().message);
}

Status check_degree(const std::string& text) {
  std::uint32_t degree = 0;
  const char* const all = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), all, degree);
  return text.empty() || (error == std::errc() && end == all && degree > 0)
             ? Status()
             : make_error(ErrorCode::kInvalidInput,
                          "--prefetch-degree: '{}' is not a number of launches; write for example "
                          "64",
                          text);
}

void set(const char* name, const std::string& value) {
  if (!value.empty()) {
    ::setenv(name, value.c_str(), 1);
  }
}

}  // namespace

Status check_values(const RunOptions& options) {
  // Slower than any link, and a page would take seconds.
  constexpr Bytes kSlowest = kMiB;
  Status valid = check_device(options.device);
  if (valid)
    valid = check_size(
        "--device-memory", options.device_memory,
        options.device == "host" ? host::kSmallestBudgetBytes : cuda::kSmallestBudgetBytes);
  if (valid) valid = check_size("--host-memory", options.host_memory, 0);
  if (valid) valid = check_size("--link-bandwidth", options.link_bandwidth, kSlowest);
  if (valid) valid = check_storage(options.storage);
  if (valid) valid = check_named_policy(options);
  if (valid) valid = check_latency(options.fault_latency);
  if (valid) valid = check_size("--threshold", options.threshold, 0);
  if (valid) valid = check_degree(options.prefetch_degree);
  if (valid) valid = check_metrics(options.metrics);
  return valid;
}

void set_variables(const RunOptions& options) {
  set("SPILLWAY_DEVICE_MEMORY", options.device_memory);
  set("SPILLWAY_HOST_MEMORY", options.host_memory);
  set("SPILLWAY_STORAGE", options.storage);
  set("SPILLWAY_POLICY", options.policy);
  set("SPILLWAY_LINK_BANDWIDTH", options.link_bandwidth);
  set("SPILLWAY_THRESHOLD", options.threshold);
  set("SPILLWAY_PREFETCH_DEGREE", options.prefetch_degree);
  set("SPILLWAY_STRICT", options.strict ? "1" : "");
  if (!options.fault_latency.empty()) {
    set("SPILLWAY_FAULT_LATENCY", std::to_string(*parse_time(options.fault_latency)));
  }
}

}  // namespace spillway
