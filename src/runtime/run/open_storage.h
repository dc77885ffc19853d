// The place to swap to that options name. Layer: runtime.
#pragma once

#include <optional>

#include "base/error.h"
#include "platform/common/storage/swap_file.h"
#include "runtime/run/space_options.h"

namespace spillway {

// nullopt if they name none. Fails as SwapFile::open does.
[[nodiscard]] Result<std::optional<SwapFile>> open_storage(const SpaceOptions& options);

}  // namespace spillway
