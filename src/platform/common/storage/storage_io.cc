// See storage_io.h.
#include "platform/common/storage/storage_io.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "platform/common/process/clock.h"

namespace spillway {

StorageIo::StorageIo(SwapFile file, unsigned depth, const Wrap& wrap) : file_(std::move(file)) {
  io_ = make_block_io(file_, depth);
  if (wrap) {
    io_ = wrap(std::move(io_));
  }
}

void StorageIo::submit(IoRequest request) {
  const bool write = request.write;
  begins(write);
  request.done = [this, write, bytes = request.bytes, done = std::move(request.done)](int error) {
    ended(write, error == 0 ? bytes : 0);
    // A limit that the program has set for itself meanwhile (ulimit -f) is a full disk to us.
    done(write && error == EFBIG ? ENOSPC : error);
  };
  io_->submit(std::move(request));
}

int StorageIo::read_now(void* to, Bytes bytes, std::uint64_t offset) const {
  Bytes done = 0;
  while (done < bytes) {
    const ssize_t got = ::pread(file_.fd(), static_cast<char*>(to) + done, bytes - done,
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return got < 0 ? errno : EIO;
    }
    done += static_cast<Bytes>(got);
  }
  return 0;
}

std::string StorageIo::error_text(bool write, Bytes bytes, std::uint64_t offset, int error) const {
  return fmt::format("{}: cannot {} {} bytes at offset {}: {}", file_.path(),
                     write ? "write" : "read", bytes, offset, std::strerror(error));
}

std::array<StorageIo::Meter, 2> StorageIo::meters() const {
  const MutexLock lock(mutex_);
  return {running_[0].sum, running_[1].sum};
}

void StorageIo::begins(bool write) {
  const MutexLock lock(mutex_);
  Running& running = running_[write ? 1 : 0];
  if (running.requests++ == 0) {
    running.since_ns = now_ns();
  }
}

void StorageIo::ended(bool write, Bytes bytes) {
  const MutexLock lock(mutex_);
  Running& running = running_[write ? 1 : 0];
  running.sum.bytes += bytes;
  if (--running.requests == 0) {
    running.sum.busy_ns += now_ns() - running.since_ns;
  }
}

}  // namespace spillway
