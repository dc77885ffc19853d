// See storage.h.
#include "platform/near/memory/storage.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <utility>

#include "platform/near/memory/location.h"

namespace spillway::near {
namespace {

constexpr unsigned kRequestsAtOnce = 8;

// Requests of one call that are under way.
class Group {
 public:
  void begins() {
    const MutexLock lock(mutex_);
    ++running_;
  }
  // The first request that has failed is told of.
  void ended(const StorageIo& io, const IoRequest& request, int error) {
    const MutexLock lock(mutex_);
    if (error != 0 && outcome_) {
      outcome_ = make_error(ErrorCode::kIo, "{}; the copy has ended in the middle",
                            io.error_text(request.write, request.bytes, request.offset, error));
    }
    if (--running_ == 0) {
      ended_.notify_all();
    }
  }
  [[nodiscard]] bool failed() {
    const MutexLock lock(mutex_);
    return !outcome_;
  }
  Status wait() {
    const MutexLock lock(mutex_);
    mutex_.wait(ended_, [&]() SPILLWAY_REQUIRES(mutex_) { return running_ == 0; });
    return outcome_;
  }

 private:
  Mutex mutex_;
  std::condition_variable ended_;
  std::uint32_t running_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  Status outcome_ SPILLWAY_GUARDED_BY(mutex_);
};

void submit_in(Group& group, StorageIo& io, IoRequest request) {
  group.begins();
  // What is told of it is copied: the request itself is gone by then.
  IoRequest told;
  told.write = request.write;
  told.bytes = request.bytes;
  told.offset = request.offset;
  request.done = [&group, &io, told = std::move(told)](int error) { group.ended(io, told, error); };
  io.submit(std::move(request));
}

Status move_once(StorageIo& io, bool write, char* memory, std::uint64_t offset, Bytes bytes) {
  Group group;
  submit_in(group, io,
            {.write = write, .memory = memory, .bytes = bytes, .offset = offset, .done = {}});
  return group.wait();
}

}  // namespace

Result<std::unique_ptr<Storage>> Storage::open(const std::string& path, Bytes bytes,
                                               const StorageIo::Wrap& wrap) {
  Result<SwapFile> file = SwapFile::open(path, bytes);
  if (!file) {
    return tl::unexpected<Error>(file.error());
  }
  // Places that have not been written yet can be read.
  struct stat about {};
  if (::fstat(file->fd(), &about) == 0 && S_ISREG(about.st_mode) &&
      ::ftruncate(file->fd(), static_cast<off_t>(file->bytes())) != 0) {
    return make_error(ErrorCode::kIo, "{}: the file cannot have {}: {}; ask for less", path,
                      format_bytes(file->bytes()), std::strerror(errno));
  }
  return std::unique_ptr<Storage>(new Storage(std::move(*file), wrap));
}

Storage::Storage(SwapFile file, const StorageIo::Wrap& wrap)
    : io_(std::move(file), kRequestsAtOnce, wrap) {
  const Bytes pages = io_.bytes() / kPageBytes;
  free_pages_.give(0, pages);
  free_bytes_ = pages * kPageBytes;
}

Result<std::uint64_t> Storage::allocate(Bytes bytes) {
  const Bytes pages = bytes / kPageBytes + (bytes % kPageBytes > 0 ? 1 : 0);
  const MutexLock lock(mutex_);
  const std::optional<FreeRanges::Number> first = free_pages_.take(pages);
  if (!first) {
    return make_error(ErrorCode::kNoRoom,
                      "{}: {} asked for in one piece, {} of {} are free; free something there or "
                      "register more storage",
                      path(), format_bytes(bytes), format_bytes(free_bytes_),
                      format_bytes(io_.bytes()));
  }
  free_bytes_ -= pages * kPageBytes;
  return *first * kPageBytes;
}

void Storage::free(std::uint64_t offset, Bytes bytes) {
  const Bytes pages = round_up(bytes, kPageBytes) / kPageBytes;
  const MutexLock lock(mutex_);
  free_pages_.give(offset / kPageBytes, pages);
  free_bytes_ += pages * kPageBytes;
}

Bytes Storage::free_bytes() const {
  const MutexLock lock(mutex_);
  return free_bytes_;
}

Status Storage::read(char* to, std::uint64_t offset, Bytes bytes) {
  return move(false, to, offset, bytes);
}

Status Storage::write(const char* from, std::uint64_t offset, Bytes bytes) {
  // Nothing that is written from is written to.
  return move(true, const_cast<char*>(from), offset, bytes);  // NOLINT(*-const-cast)
}

Status Storage::move(bool write, char* memory, std::uint64_t offset, Bytes bytes) {
  const Bytes head = std::min((kPageBytes - offset % kPageBytes) % kPageBytes, bytes);
  const Bytes body = (bytes - head) / kPageBytes * kPageBytes;
  const Bytes tail = bytes - head - body;
  const bool direct = address_of(memory + head) % kPageBytes == 0;
  char* buffer = nullptr;
  if (head > 0 || tail > 0 || (body > 0 && !direct)) {
    buffer = buffers_.take();
    if (buffer == nullptr) {
      return make_error(ErrorCode::kNoRoom, "{}: no memory for a buffer of {}", path(),
                        format_bytes(kBlockBytes));
    }
  }
  Status moved = move_edge(write, memory, offset, head, buffer);
  if (moved) {
    moved = direct ? move_direct(write, memory + head, offset + head, body)
                   : move_staged(write, memory + head, offset + head, body, buffer);
  }
  if (moved) {
    moved = move_edge(write, memory + head + body, offset + head + body, tail, buffer);
  }
  if (buffer != nullptr) {
    buffers_.give_back(buffer);
  }
  return moved;
}

Status Storage::move_edge(bool write, char* memory, std::uint64_t offset, Bytes bytes,
                          char* buffer) {
  if (bytes == 0) {
    return {};
  }
  staged_bytes_ += bytes;
  const std::uint64_t page = offset / kPageBytes * kPageBytes;
  if (!write) {
    Status moved = move_once(io_, false, buffer, page, kPageBytes);
    if (moved) {
      std::memcpy(memory, buffer + (offset - page), bytes);
    }
    return moved;
  }
  // Two who write different bytes of a page would otherwise undo each other's.
  const MutexLock lock(edges_);
  Status moved = move_once(io_, false, buffer, page, kPageBytes);
  if (moved) {
    std::memcpy(buffer + (offset - page), memory, bytes);
    moved = move_once(io_, true, buffer, page, kPageBytes);
  }
  return moved;
}

Status Storage::move_staged(bool write, char* memory, std::uint64_t offset, Bytes bytes,
                            char* buffer) {
  Status moved;
  for (Bytes done = 0; done < bytes && moved; done += kBlockBytes) {
    const Bytes part = std::min(bytes - done, kBlockBytes);
    if (write) {
      std::memcpy(buffer, memory + done, part);
    }
    moved = move_once(io_, write, buffer, offset + done, part);
    if (moved && !write) {
      std::memcpy(memory + done, buffer, part);
    }
    staged_bytes_ += part;
  }
  return moved;
}

Status Storage::move_direct(bool write, char* memory, std::uint64_t offset, Bytes bytes) {
  Group group;
  for (Bytes done = 0; done < bytes && !group.failed(); done += kBlockBytes) {
    submit_in(group, io_,
              {.write = write,
               .memory = memory + done,
               .bytes = std::min(bytes - done, kBlockBytes),
               .offset = offset + done,
               .done = {}});
  }
  return group.wait();
}

}  // namespace spillway::near
