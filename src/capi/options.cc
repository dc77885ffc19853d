// See options.h.
#include "capi/options.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "base/mutex.h"

namespace spillway::capi {
namespace {

// A pointer that the program may keep: there are as many strings as it finds in its environment.
const char* kept_string(const std::string& text) {
  static auto* const mutex = new Mutex;
  static auto* const strings SPILLWAY_PT_GUARDED_BY(*mutex) = new std::set<std::string>;
  const MutexLock lock(*mutex);
  return strings->insert(text).first->c_str();
}

Outcome<spillwaySpaceOptions_t> filled_in(std::size_t size) {
  const Outcome<SpaceOptions> values = default_options();
  if (!values) {
    return tl::unexpected<Failure>(values.error());
  }
  spillwaySpaceOptions_t filled{};
  filled.size = size;
  filled.deviceBytes = values->device_bytes;
  filled.hostBytes = values->host_bytes;
  filled.storagePath = values->storage_path.empty() ? nullptr : kept_string(values->storage_path);
  filled.storageBytes = values->storage_bytes;
  filled.policy = kept_string(values->policy);
  filled.prefetchDegree = values->policy_options.prefetch_degree.value_or(0);
  filled.linkBytesPerS = values->link.bytes_per_s;
  filled.faultLatencyNs = static_cast<std::uint64_t>(values->link.fault_latency_ns);
  return filled;
}

}  // namespace

Outcome<SpaceOptions> default_options() {
  Result<SpaceOptions> options =
      space_options_from_environment(host_defaults(MemoryLimits().room()));
  if (!options) {
    return fail(options.error(), spillwayErrorNotSupported);
  }
  return std::move(*options);
}

Outcome<SpaceOptions> checked_options(const spillwaySpaceOptions_t& options) {
  if (options.size != sizeof(options) || options.reserved != 0) {
    return fail(spillwayErrorInvalidValue,
                "options that spillwaySpaceOptionsInit has not filled in, or of another version of "
                "this library");
  }
  if (options.policy == nullptr) {
    return is_null("options->policy");
  }
  if (!std::isfinite(options.linkBytesPerS) || options.linkBytesPerS < 0) {
    return fail(spillwayErrorInvalidValue, "a link of {} bytes a second; 0 is as fast as it goes",
                options.linkBytesPerS);
  }
  // Beyond these, sums of them would overflow.
  constexpr Bytes kAbsurdBytes = kTiB * 1024;
  constexpr auto kAbsurdNs = static_cast<std::uint64_t>(kNsPerS);
  if (std::max({options.deviceBytes, options.hostBytes, options.storageBytes}) > kAbsurdBytes ||
      options.faultLatencyNs > kAbsurdNs) {
    return fail(spillwayErrorInvalidValue,
                "a tier of more than 1 PiB, or a fault latency of more than 1 s");
  }
  SpaceOptions checked;
  checked.device_bytes = options.deviceBytes;
  checked.host_bytes = options.hostBytes;
  checked.storage_path = options.storagePath == nullptr ? "" : options.storagePath;
  checked.storage_bytes = options.storageBytes;
  checked.policy = options.policy;
  if (options.prefetchDegree > 0) {
    checked.policy_options.prefetch_degree = options.prefetchDegree;
  }
  checked.link.bytes_per_s = options.linkBytesPerS;
  checked.link.fault_latency_ns = static_cast<TimeNs>(options.faultLatencyNs);
  return checked;
}

}  // namespace spillway::capi

extern "C" spillwayError_t spillwaySpaceOptionsInit(spillwaySpaceOptions_t* options, size_t size) {
  using spillway::capi::Failure;
  using spillway::capi::Outcome;
  return spillway::capi::guarded([&]() -> Outcome<void> {
    if (options == nullptr) {
      return spillway::capi::is_null("options");
    }
    if (size != sizeof(*options)) {
      return spillway::capi::fail(spillwayErrorInvalidValue,
                                  "options of {} bytes are of another version of this library",
                                  size);
    }
    const Outcome<spillwaySpaceOptions_t> filled = spillway::capi::filled_in(size);
    if (!filled) {
      return tl::unexpected<Failure>(filled.error());
    }
    *options = *filled;
    return {};
  });
}
