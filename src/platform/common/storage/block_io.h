// Reading and writing blocks of the swap file, many at once. Layer: platform, common.
// The seam at which tests put errors and delays.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/error.h"
#include "base/units.h"
#include "platform/common/storage/swap_file.h"

namespace spillway {

struct IoRequest {
  bool write = false;
  void* memory = nullptr;  // page-aligned; whole pages
  Bytes bytes = 0;
  std::uint64_t offset = 0;
  // Called once, with 0 or an error number, when all bytes have been moved: by a thread of the
  // BlockIo's own, or within `submit` by its caller. Must not block on the BlockIo.
  std::function<void(int error)> done;
};

class BlockIo {
 public:
  BlockIo() = default;
  BlockIo(const BlockIo&) = delete;
  BlockIo& operator=(const BlockIo&) = delete;
  // Waits for what is under way.
  virtual ~BlockIo() = default;

  // Any thread's. May wait while too much is under way.
  virtual void submit(IoRequest request) = 0;
};

// io_uring where it is permitted, else a pool of threads with pread and pwrite. `depth`: requests
// under way at most. The file must outlive it.
[[nodiscard]] std::unique_ptr<BlockIo> make_block_io(const SwapFile& file, unsigned depth);
// The second of the two, for machines and tests without io_uring.
[[nodiscard]] std::unique_ptr<BlockIo> make_threaded_block_io(const SwapFile& file,
                                                              unsigned threads);
// Whether this process may use io_uring; the text says why not and what to do.
[[nodiscard]] Status io_uring_support();

}  // namespace spillway
