// How bytes get from one side to another: straight where one of both can be addressed, and through
// one buffer of 2 MiB at a time where neither can. Layer: platform, near. Thread-safe.
#pragma once

#include <atomic>

#include "base/error.h"
#include "base/units.h"
#include "platform/common/storage/staging_pool.h"
#include "platform/near/memory/gpu_memory.h"
#include "platform/near/memory/location.h"
#include "platform/near/memory/storage.h"

namespace spillway::near {

// A location whose bytes are known to be there for as long as a copy lasts.
struct End {
  Side side = Side::kHost;
  char* memory = nullptr;      // host and near
  GpuMemory* gpu = nullptr;    // and `at` is its address
  Storage* storage = nullptr;  // and `at` is the offset in its file
  std::uint64_t at = 0;

  [[nodiscard]] End behind(Bytes bytes) const {
    End moved = *this;
    moved.memory = memory == nullptr ? nullptr : memory + bytes;
    moved.at += bytes;
    return moved;
  }
};

class Routes {
 public:
  // The ends do not overlap. What fails has moved some of the bytes, or none.
  Status copy(const End& to, const End& from, Bytes bytes);
  // What went through a buffer of the routes' own so far.
  [[nodiscard]] Bytes staged_bytes() const { return staged_bytes_; }

 private:
  static Status write(const End& to, const char* from, Bytes bytes);
  static Status read(char* to, const End& from, Bytes bytes);
  Status copy_staged(const End& to, const End& from, Bytes bytes);

  StagingPool buffers_;
  std::atomic<Bytes> staged_bytes_{0};
};

}  // namespace spillway::near
