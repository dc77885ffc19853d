// See run_values.h.
#include "front/run_values.h"

#include <cstdlib>

#include "base/units.h"
#include "machine/quantity.h"
#include "policy/registry.h"

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

void set(const char* name, const std::string& value) {
  if (!value.empty()) {
    ::setenv(name, value.c_str(), 1);
  }
}

}  // namespace

Status check_values(const RunOptions& options) {
  // Slower than any link, and a page would take seconds.
  constexpr Bytes kSlowest = kMiB;
  Status sizes = check_size("--device-memory", options.device_memory, 0);
  if (sizes) sizes = check_size("--host-memory", options.host_memory, 0);
  if (sizes) sizes = check_size("--link-bandwidth", options.link_bandwidth, kSlowest);
  if (sizes) sizes = check_storage(options.storage);
  if (!sizes) {
    return sizes;
  }
  if (!options.policy.empty()) {
    if (const Result<const PolicyInfo*> policy = find_policy(options.policy); !policy) {
      return tl::unexpected<Error>(policy.error());
    }
  }
  if (!options.fault_latency.empty()) {
    if (const Result<TimeNs> latency_ns = parse_time(options.fault_latency); !latency_ns) {
      return make_error(ErrorCode::kInvalidInput, "--fault-latency: {}",
                        latency_ns.error().message);
    }
  }
  if (!options.threshold.empty()) {
    if (const Result<Bytes> bytes = parse_bytes(options.threshold); !bytes) {
      return make_error(ErrorCode::kInvalidInput, "--threshold: {}", bytes.error().message);
    }
  }
  return {};
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
