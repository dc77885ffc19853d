// Reading and writing blocks of the swap file, many at once. Layer: platform, host.
// The seam at which tests put errors and delays.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/units.h"

namespace spillway::host {

struct IoRequest {
  bool write = false;
  void* memory = nullptr;  // page-aligned; whole pages
  Bytes bytes = 0;
  std::uint64_t offset = 0;
  // Called once, by a thread of the BlockIo's own, with 0 or an error number, when all bytes have
  // been moved. Must not block on the BlockIo.
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

// Where the bytes go: an unlinked file, or a block device.
class SwapFile {
 public:
  // `path` is a folder (an unnamed file is made there, O_TMPFILE or unlinked at once, mode 0600), a
  // file that does not exist yet (made and unlinked), or a block device, whose contents are
  // destroyed. Opened with O_DIRECT and tried with one write and one read. Fails with kInvalidInput
  // or kUnsupported and what to do. bytes = 0: what the device has, or the folder's file system has
  // free, less a tenth.
  static Result<SwapFile> open(const std::string& path, Bytes bytes);

  SwapFile(SwapFile&& other) noexcept;
  SwapFile& operator=(SwapFile&&) = delete;
  SwapFile(const SwapFile&) = delete;
  SwapFile& operator=(const SwapFile&) = delete;
  ~SwapFile();

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] Bytes bytes() const { return bytes_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  SwapFile(int fd, std::string path, Bytes bytes)
      : fd_(fd), path_(std::move(path)), bytes_(bytes) {}
  int fd_;
  std::string path_;
  Bytes bytes_;
};

// io_uring where it is permitted, else a pool of threads with pread and pwrite. `depth`: requests
// under way at most. The file must outlive it.
[[nodiscard]] std::unique_ptr<BlockIo> make_block_io(const SwapFile& file, unsigned depth);
// The second of the two, for machines and tests without io_uring.
[[nodiscard]] std::unique_ptr<BlockIo> make_threaded_block_io(const SwapFile& file,
                                                              unsigned threads);
// Whether this process may use io_uring; the text says why not and what to do.
[[nodiscard]] Status io_uring_support();

}  // namespace spillway::host
