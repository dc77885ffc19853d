// See open_storage.h.
#include "runtime/run/open_storage.h"

#include <utility>

namespace spillway {

Result<std::optional<SwapFile>> open_storage(const SpaceOptions& options) {
  if (options.storage_path.empty()) {
    return std::nullopt;
  }
  Result<SwapFile> opened = SwapFile::open(options.storage_path, options.storage_bytes);
  if (!opened) {
    return tl::unexpected<Error>(opened.error());
  }
  return std::optional<SwapFile>(std::move(*opened));
}

}  // namespace spillway
