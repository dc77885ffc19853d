// See open_host_platform.h.
#include "runtime/host/open_host_platform.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "platform/host/host_platform.h"

namespace spillway {

Result<std::unique_ptr<ProgramPlatform>> open_host_platform(const SpaceOptions& options,
                                                            const PolicyTraits& traits,
                                                            Policy& policy) {
  std::optional<SwapFile> storage;
  if (!options.storage_path.empty()) {
    Result<SwapFile> opened = SwapFile::open(options.storage_path, options.storage_bytes);
    if (!opened) {
      return tl::unexpected<Error>(opened.error());
    }
    storage.emplace(std::move(*opened));
  }
  host::HostOptions made;
  made.device_bytes = traits.unlimited_device
                          ? std::max(options.device_bytes, available_memory_bytes())
                          : options.device_bytes;
  made.host_bytes = traits.uses_host ? options.host_bytes : 0;
  made.link = options.link;
  Result<std::unique_ptr<host::HostPlatform>> platform =
      host::HostPlatform::create(made, std::move(storage), policy);
  if (!platform) {
    return tl::unexpected<Error>(platform.error());
  }
  return std::unique_ptr<ProgramPlatform>(std::move(*platform));
}

}  // namespace spillway
