// See frame_pool.h.
#include "platform/host/frame_pool.h"

#include <sys/mman.h>

#include <utility>

namespace spillway::host {
namespace {

// Frames that are being born at the same time.
constexpr std::size_t kNurseryFrames = 64;

}  // namespace

std::unique_ptr<FramePool> FramePool::create(const Userfault& userfault, std::size_t frames) {
  if (!userfault.moves()) {
    return nullptr;
  }
  const std::size_t places = frames + kNurseryFrames;
  Result<Reservation> addresses = Reservation::make(places * kBlockBytes);
  if (!addresses) {
    return nullptr;
  }
  char* const first = addresses->start();
  std::unique_ptr<FramePool> pool(new FramePool(userfault, std::move(*addresses)));
  ::madvise(first, places * kBlockBytes, MADV_HUGEPAGE);
  // A child has no use for what is on its way.
  ::madvise(first, places * kBlockBytes, MADV_DONTFORK);
  char* const rest = first + kNurseryFrames * kBlockBytes;
  if (!userfault.watch(rest, frames * kBlockBytes)) {
    return nullptr;
  }
  pool->nursery_ = first;
  pool->nursery_end_ = rest;
  for (std::size_t i = places; i-- > 0;) {
    char* const place = first + i * kBlockBytes;
    (place < rest ? pool->unborn_ : pool->empty_).push_back(place);
  }
  return pool;
}

void* FramePool::take() {
  if (!full_.empty()) {
    void* const frame = full_.back();
    full_.pop_back();
    return frame;
  }
  if (unborn_.empty()) {
    return nullptr;
  }
  char* const frame = static_cast<char*>(unborn_.back());
  unborn_.pop_back();
  // The system fills it now, in one go if it has huge pages to give.
  for (Bytes offset = 0; offset < kBlockBytes; offset += kPageBytes) {
    *static_cast<volatile char*>(frame + offset) = 0;
  }
  return frame;
}

void FramePool::give_back(void* frame) { full_.push_back(frame); }

bool FramePool::place(void* frame, void* block) const {
  return userfault_->move(block, frame, kBlockBytes) == 0;
}

void FramePool::placed(void* frame) {
  const auto* const at = static_cast<char*>(frame);
  (at >= nursery_ && at < nursery_end_ ? unborn_ : empty_).push_back(frame);
}

void FramePool::trim(std::size_t most) {
  while (full_.size() > most) {
    void* const frame = full_.back();
    full_.pop_back();
    ::madvise(frame, kBlockBytes, MADV_DONTNEED);
    placed(frame);
  }
}

void* FramePool::take_place() {
  if (empty_.empty()) {
    return nullptr;
  }
  void* const place = empty_.back();
  empty_.pop_back();
  return place;
}

bool FramePool::recover(void* block) {
  if (empty_.empty()) {
    return false;
  }
  void* const place = empty_.back();
  if (userfault_->move(place, block, kBlockBytes) != 0) {
    return false;
  }
  empty_.pop_back();
  full_.push_back(place);
  return true;
}

}  // namespace spillway::host
