// See frame_pool.h.
#include "platform/host/pages/frame_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "platform/common/process/say.h"

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
  if (!userfault.watch(rest, frames * kBlockBytes) ||
      !userfault.admit(first, kNurseryFrames * kBlockBytes)) {
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

// The first kernels that can move pages make them writable, other than those that are swapped out.
// Who writes a frame of ours that is still protected would wait for himself.
void FramePool::unprotect(char* place, Bytes bytes) const {
  if (userfault_->unprotect(place, bytes) != 0) {
    end_run(
        "pages that have been moved stay protected; ending the program before it waits for ever");
  }
}

int FramePool::take_pages(char* place, char* block, Bytes bytes) const {
  const int error = userfault_->move(place, block, bytes);
  if (error == 0) {
    unprotect(place, bytes);
  }
  return error;
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

void FramePool::placed(void* frame) {
  const auto* const at = static_cast<char*>(frame);
  (at >= nursery_ && at < nursery_end_ ? unborn_ : empty_).push_back(frame);
}

void FramePool::empty(void* place, Bytes bytes) {
  ::madvise(place, bytes, MADV_DONTNEED);
  placed(place);
}

void FramePool::trim(Bytes most_bytes) {
  while (full_.size() * kBlockBytes + parts_bytes_ > most_bytes) {
    const Bytes over_bytes =
        round_up(full_.size() * kBlockBytes + parts_bytes_ - most_bytes, kPageBytes);
    const bool last = full_.size() == 1 && over_bytes < kBlockBytes;
    if (!parts_.empty() || (last && cut_frame())) {
      const Part part = parts_.front();
      const Bytes some = std::min(part.bytes, over_bytes);
      ::madvise(part.place + part.bytes - some, some, MADV_DONTNEED);
      shrink(0, some);
      continue;
    }
    void* const frame = full_.back();
    full_.pop_back();
    empty(frame);
  }
}

bool FramePool::cut_frame() {
  if (full_.empty()) {
    return false;
  }
  parts_.push_back({.place = static_cast<char*>(full_.back()), .bytes = kBlockBytes});
  parts_bytes_ += kBlockBytes;
  full_.pop_back();
  return true;
}

// Its last bytes are gone.
void FramePool::shrink(std::size_t part, Bytes bytes) {
  parts_bytes_ -= bytes;
  parts_[part].bytes -= bytes;
  if (parts_[part].bytes == 0) {
    placed(parts_[part].place);
    parts_.erase(parts_.begin() + static_cast<std::ptrdiff_t>(part));
  }
}

// Parts that came last are in the processor's caches.
Bytes FramePool::place_parts(char* block, Bytes bytes, bool zeroed) {
  Bytes done = 0;
  while (done < bytes && (!parts_.empty() || cut_frame())) {
    const Part part = parts_.back();
    const Bytes some = std::min(part.bytes, bytes - done);
    char* const from = part.place + part.bytes - some;
    if (zeroed) {
      std::memset(from, 0, some);
    }
    int error = 0;
    const Bytes moved_bytes = userfault_->move_on(block + done, from, some, error);
    done += moved_bytes;
    if (moved_bytes == 0) {
      break;
    }
    if (moved_bytes < some) {
      ::madvise(from, some, MADV_DONTNEED);
    }
    shrink(parts_.size() - 1, some);
    if (error != 0) {
      break;
    }
  }
  return done;
}

void FramePool::give_back_part(void* place, Bytes bytes) {
  if (parts_.size() == kMostParts) {
    const Part oldest = parts_.front();
    ::madvise(oldest.place, oldest.bytes, MADV_DONTNEED);
    shrink(0, oldest.bytes);
  }
  parts_.push_back({.place = static_cast<char*>(place), .bytes = bytes});
  parts_bytes_ += bytes;
}

void* FramePool::take_place() {
  if (empty_.empty()) {
    return nullptr;
  }
  void* const place = empty_.back();
  empty_.pop_back();
  return place;
}

bool FramePool::recover(char* block, Bytes bytes) {
  if (empty_.empty()) {
    return false;
  }
  char* const place = static_cast<char*>(empty_.back());
  int error = 0;
  if (userfault_->move_on(place, block, bytes, error) > 0 && error != 0) {
    ::madvise(place, bytes, MADV_DONTNEED);
  }
  if (error != 0) {
    return false;
  }
  unprotect(place, bytes);
  empty_.pop_back();
  if (bytes == kBlockBytes) {
    full_.push_back(place);
  } else {
    give_back_part(place, bytes);
  }
  return true;
}

}  // namespace spillway::host
