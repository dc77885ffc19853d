// See present_pages.h.
#include "platform/cuda/memory/present_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <system_error>

#include "platform/common/process/memory_advice.h"
#include "platform/common/process/service_thread.h"

namespace spillway::cuda {
namespace {

// Four are as fast as eight, and leave more to copies and maps.
constexpr unsigned kMostThreads = 4;
constexpr unsigned kProcessorsEach = 4;
// A call keeps those waiting who change the process's mappings.
constexpr Bytes kCallBytes = 8 * kMiB;

}  // namespace

PresentPages::PresentPages(char* start, Bytes bytes, Bytes piece_bytes)
    : start_(start),
      bytes_(bytes),
      piece_bytes_(piece_bytes),
      done_((bytes + piece_bytes - 1) / piece_bytes) {}

void PresentPages::begin() {
  const unsigned count =
      std::clamp(std::thread::hardware_concurrency() / kProcessorsEach, 1U, kMostThreads);
  threads_.reserve(count);
  try {
    while (threads_.size() < count) {
      threads_.push_back(service_thread("spw-cuda-touch", [this] { work(); }));
    }
  } catch (const std::system_error&) {
    // A limit on threads: those that there are do it, or nobody.
  }
}

void PresentPages::want(Bytes below_bytes) {
  const std::size_t pieces = (std::min(below_bytes, bytes_) + piece_bytes_ - 1) / piece_bytes_;
  bool first = false;
  {
    const MutexLock lock(mutex_);
    if (pieces <= wanted_) {
      return;
    }
    first = wanted_ == 0;
    wanted_ = pieces;
  }
  if (first) {
    begin();
  }
  changed_.notify_all();
}

void PresentPages::wait_for(std::size_t piece) {
  if (threads_.empty()) {
    return;
  }
  MutexLock lock(mutex_);
  mutex_.wait(changed_, [&]() SPILLWAY_REQUIRES(mutex_) { return done_[piece]; });
}

void PresentPages::stop() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
  threads_.clear();
}

// Until all that there may ever be is taken.
void PresentPages::work() {
  MutexLock lock(mutex_);
  while (!stop_ && taken_ < done_.size()) {
    if (taken_ == wanted_) {
      mutex_.wait(changed_);
      continue;
    }
    make_present(taken_++);
    changed_.notify_all();
  }
}

void PresentPages::make_present(std::size_t piece) {
  const Bytes end = std::min((piece + 1) * piece_bytes_, bytes_);
  for (Bytes at = piece * piece_bytes_; at < end && !stop_; at += kCallBytes) {
    mutex_.unlock();
    // Where the system does not know this, whoever registers them waits as it would without us.
    (void)::madvise(start_ + at, std::min(kCallBytes, end - at), kPopulateWrite);
    mutex_.lock();
  }
  done_[piece] = true;
}

}  // namespace spillway::cuda
