// See open_host_platform.h.
#include "runtime/host/open_host_platform.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "platform/host/host_platform.h"
#include "runtime/run/open_storage.h"

namespace spillway {

Result<std::unique_ptr<ProgramPlatform>> open_host_platform(const SpaceOptions& options,
                                                            const PolicyTraits& traits,
                                                            Policy& policy) {
  Result<std::optional<SwapFile>> storage = open_storage(options);
  if (!storage) {
    return tl::unexpected<Error>(storage.error());
  }
  host::HostOptions made;
  made.device_bytes = traits.unlimited_device
                          ? std::max(options.device_bytes, MemoryLimits().room().left_bytes)
                          : options.device_bytes;
  made.host_bytes = traits.uses_host ? options.host_bytes : 0;
  made.link = options.link;
  Result<std::unique_ptr<host::HostPlatform>> platform =
      host::HostPlatform::create(made, std::move(*storage), policy);
  if (!platform) {
    return tl::unexpected<Error>(platform.error());
  }
  return std::unique_ptr<ProgramPlatform>(std::move(*platform));
}

}  // namespace spillway
