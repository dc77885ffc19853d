// How the CUDA platform is made: budgets, sizes, how often it asks the device. Layer: platform,
// cuda.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/error.h"
#include "base/units.h"
#include "platform/common/process/memory_room.h"
#include "platform/common/storage/link_throttle.h"
#include "platform/common/storage/storage_io.h"
#include "platform/cuda/driver/cufile.h"
#include "platform/cuda/driver/driver.h"
#include "platform/cuda/driver/own_launches.h"

namespace spillway::cuda {

// Of device memory.
inline constexpr Bytes kSmallestBudgetBytes = 4 * kBlockBytes;

[[nodiscard]] inline Bytes whole_blocks(Bytes bytes) { return bytes / kBlockBytes * kBlockBytes; }

struct CudaOptions {
  int device = 0;                 // ordinal
  Bytes device_bytes = 0;         // the budget: the sum of all handles never exceeds it
  Bytes host_bytes = 0;           // pinned memory, registered as it is needed
  Bytes block_bytes = 64 * kMiB;  // of allocations of that size and more; a multiple of 2 MiB
  Bytes pinned_piece_bytes = 64 * kMiB;  // that host memory grows by
  unsigned waiting_streams = 7;          // at once: CUDA_DEVICE_MAX_CONNECTIONS - 1
  std::uint32_t launches_ahead = 600;    // issued and not ended, before the program is held
  std::uint32_t marker_every = 8;        // launches of a stream
  // Launches that wait may share a stream wait if they use at most this part of the budget
  // together.
  std::uint32_t shared_wait_part = 16;
  // Launches that are told of before bypass mode, where all fits: at first, and at most
  // (docs/cuda.md).
  std::uint64_t bypass_after = 64;
  std::uint64_t bypass_after_at_most = 32'768;
  // Copies between device and host memory are held back to it, so that this machine stands in for
  // one with a slower link. What launches use of host memory cannot be: nothing lies there for them
  // but what has no room on the device (docs/cuda.md, "A slower link"). Faults have no latency
  // here.
  LinkSpeed link;
  // What the system can spare of its memory, read anew. Without it host memory is had without
  // asking. Any thread's.
  std::function<MemoryRoom()> memory_room;
  bool reclaim_discarded_first = true;
  Bytes address_bytes = Bytes{1} << 46U;
  StorageIo::Wrap wrap_io;
  CuFilePlace cufile;
  OwnLaunches own_launches;  // without them nothing is made again
  std::function<void(const Error&)> on_fatal;
  std::function<void(std::string_view)> warn;
};

}  // namespace spillway::cuda
