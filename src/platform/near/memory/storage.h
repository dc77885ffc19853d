// Storage of the near device: files and block devices, on which places are given out, and bytes of
// any number and alignment that go to them and come back. Layer: platform, near. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/free_ranges.h"
#include "base/mutex.h"
#include "base/units.h"
#include "platform/common/storage/staging_pool.h"
#include "platform/common/storage/storage_io.h"

namespace spillway::near {

// Whole pages go straight between the file and the caller's memory if that starts on a page, and
// otherwise through one buffer of 2 MiB at a time.
class Storage {
 public:
  // As SwapFile::open. `wrap`: what tests put between; may be empty.
  static Result<std::unique_ptr<Storage>> open(const std::string& path, Bytes bytes,
                                               const StorageIo::Wrap& wrap);

  // Where in the file, in pages of its own. kNoRoom.
  Result<std::uint64_t> allocate(Bytes bytes);
  // What was allocated with the same size.
  void free(std::uint64_t offset, Bytes bytes);

  // Returns when all of it has been moved. kIo: file, offset and the system's reason; some of the
  // bytes may have been moved. Who reads or writes bytes at the same time may find any of them.
  Status read(char* to, std::uint64_t offset, Bytes bytes);
  Status write(const char* from, std::uint64_t offset, Bytes bytes);

  [[nodiscard]] const std::string& path() const { return io_.file().path(); }
  [[nodiscard]] Bytes bytes() const { return io_.bytes(); }
  [[nodiscard]] Bytes free_bytes() const;
  // What went through a buffer so far.
  [[nodiscard]] Bytes staged_bytes() const { return staged_bytes_; }

 private:
  Storage(SwapFile file, const StorageIo::Wrap& wrap);
  Status move(bool write, char* memory, std::uint64_t offset, Bytes bytes);
  // Less than a page, within one.
  Status move_edge(bool write, char* memory, std::uint64_t offset, Bytes bytes, char* buffer);
  // Whole pages from here on.
  Status move_staged(bool write, char* memory, std::uint64_t offset, Bytes bytes, char* buffer);
  Status move_direct(bool write, char* memory, std::uint64_t offset, Bytes bytes);

  StagingPool buffers_;
  Mutex edges_;  // of pages of which a part is written
  mutable Mutex mutex_;
  FreeRanges free_pages_ SPILLWAY_GUARDED_BY(mutex_);
  Bytes free_bytes_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  std::atomic<Bytes> staged_bytes_{0};
  StorageIo io_;  // goes first
};

}  // namespace spillway::near
