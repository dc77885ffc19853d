// The swap file at work: requests, how busy it is, and what goes wrong, in words. Layer: platform,
// common. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/units.h"
#include "platform/common/storage/block_io.h"
#include "platform/common/storage/swap_file.h"

namespace spillway {

class StorageIo {
 public:
  using Wrap = std::function<std::unique_ptr<BlockIo>(std::unique_ptr<BlockIo>)>;
  // What was moved in one direction, and how long at least one request was under way.
  struct Meter {
    Bytes bytes = 0;
    TimeNs busy_ns = 0;
  };

  // `wrap`: what tests put between; may be empty.
  StorageIo(SwapFile file, unsigned depth, const Wrap& wrap);

  // As BlockIo::submit. May wait while too much is under way.
  void submit(IoRequest request);
  // 0 or an error number, when the calling thread has read all of it itself.
  [[nodiscard]] int read_now(void* to, Bytes bytes, std::uint64_t offset) const;
  // One line about a request that failed.
  [[nodiscard]] std::string error_text(bool write, Bytes bytes, std::uint64_t offset,
                                       int error) const;

  // What goes to the file by other calls than these counts as well: before and behind it. `bytes`:
  // that were moved.
  void begins(bool write);
  void ended(bool write, Bytes bytes);

  [[nodiscard]] const SwapFile& file() const { return file_; }
  [[nodiscard]] Bytes bytes() const { return file_.bytes(); }
  // Reads, writes.
  [[nodiscard]] std::array<Meter, 2> meters() const;

 private:
  struct Running {
    std::uint32_t requests = 0;
    TimeNs since_ns = 0;
    Meter sum;
  };

  SwapFile file_;
  mutable Mutex mutex_;
  std::array<Running, 2> running_ SPILLWAY_GUARDED_BY(mutex_);
  std::unique_ptr<BlockIo> io_;  // goes first: its threads report to the others
};

}  // namespace spillway
