// See present_pages.h.
#include "platform/cuda/present_pages.h"

#include <sys/mman.h>

#include <algorithm>

#include "platform/common/service_thread.h"

namespace spillway::cuda {
namespace {

// Linux 5.14; older headers do not name it. Where the system does not know it, or has no memory, it
// says so, and whoever registers the pages finds them or hears why not. Writing to them instead
// would have the process killed where a limit on its memory is reached.
constexpr int kPopulateWrite = 23;

}  // namespace

PresentPages::PresentPages(char* start, Bytes bytes, Bytes piece_bytes)
    : start_(start),
      bytes_(bytes),
      piece_bytes_(piece_bytes),
      done_((bytes + piece_bytes - 1) / piece_bytes) {}

void PresentPages::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) {
      thread.join();
    }
  }
}

void PresentPages::want(Bytes below_bytes) {
  const std::size_t pieces = (std::min(below_bytes, bytes_) + piece_bytes_ - 1) / piece_bytes_;
  {
    const std::scoped_lock lock(mutex_);
    if (pieces <= wanted_) {
      return;
    }
    wanted_ = pieces;
  }
  if (!threads_[0].joinable()) {
    for (std::thread& thread : threads_) {
      thread = service_thread("spw-cuda-touch", [this] { work(); });
    }
  }
  changed_.notify_all();
}

void PresentPages::wait_for(std::size_t piece) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_[piece]; });
}

void PresentPages::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || taken_ < wanted_; });
    if (stop_) {
      return;
    }
    const std::size_t piece = taken_++;
    lock.unlock();
    const Bytes at = piece * piece_bytes_;
    (void)::madvise(start_ + at, std::min(piece_bytes_, bytes_ - at), kPopulateWrite);
    lock.lock();
    done_[piece] = true;
    changed_.notify_all();
  }
}

}  // namespace spillway::cuda
