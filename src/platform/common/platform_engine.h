// What every platform for running programs says to its engine, and of it. Layer: platform, common.
// With the platform's lock held.
#pragma once

#include <optional>

#include "engine/engine.h"
#include "platform/common/process/commitment.h"
#include "platform/common/program_platform.h"
#include "platform/common/storage/storage_io.h"

namespace spillway {

// The transfer has failed with an error number. A disk that is full keeps what is there, and
// nothing more goes to it: true then.
bool report_failed(Engine& engine, TransferId transfer, Tier to, int error);

// What the engine, the commitment and the swap file have counted; the rest is the platform's.
[[nodiscard]] ProgramStats stats_of(const Engine& engine, const Commitment& commitment,
                                    const std::optional<StorageIo>& storage);

}  // namespace spillway
