// How the engine is set up on a GPU, and what the parts share. See platform_state.h.
#include "platform/cuda/platform_state.h"

#include <algorithm>

#include "platform/common/gpu_sizes.h"
#include "platform/common/process/say.h"

namespace spillway::cuda {
namespace {

constexpr unsigned kIoDepth = 8;

EngineOptions engine_options(const CudaOptions& options, Bytes storage_bytes) {
  // Host memory grows as it is pinned. Copies out, and whatever goes through the swap file, block
  // by block: so that room is there soon, and staging is for one.
  return {.device_capacity_bytes = options.device_bytes,
          .host_capacity_bytes = 0,
          .storage_capacity_bytes = storage_bytes,
          .device_frame_bytes = kBlockBytes,
          .host_batch_bytes = copied_at_once_bytes(options.block_bytes),
          .storage_batch_bytes = 1,
          .eviction_batch_bytes = 1,
          .fault_batches_in_flight = 4,
          .room_ahead_bytes = std::min(64 * kMiB, options.device_bytes / 8),
          .reclaim_discarded_first = options.reclaim_discarded_first,
          .frames_have_sizes = true,
          .clean_copies = CleanCopies::kAll,
          .updates_are_certain = true};
}

CudaOptions completed(CudaOptions options) {
  options.host_bytes = whole_blocks(options.host_bytes);
  if (!options.warn) {
    options.warn = say;
  }
  return options;
}

}  // namespace

PlatformState::PlatformState(const Driver& the_driver, const CudaOptions& the_options,
                             std::optional<SwapFile> swap_file, Policy& policy,
                             Mechanism& mechanism)
    : driver(the_driver),
      options(completed(the_options)),
      failures(options.on_fatal),
      governor(policy),
      engine(engine_options(options, swap_file ? whole_blocks(swap_file->bytes()) : 0), mechanism,
             governor),
      stream_waits(driver),
      launches(engine, stream_waits, log, stalls),
      order(launches, engine),
      bypass({.engine = engine,
              .launches = launches,
              .order = order,
              .governor = governor,
              .backing = backing},
             {.after = options.bypass_after,
              .after_at_most = options.bypass_after_at_most,
              .on_defect =
                  [this]() SPILLWAY_REQUIRES(platform_lock) {
                    fail({ErrorCode::kDefect, "what is on the device could not be kept there"});
                  }}),
      recomputing(launches, engine),
      budget_bytes(options.device_bytes) {
  if (swap_file) {
    storage.emplace(std::move(*swap_file), kIoDepth, options.wrap_io);
  }
}

}  // namespace spillway::cuda
