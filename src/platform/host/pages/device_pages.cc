// See device_pages.h.
#include "platform/host/pages/device_pages.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "base/grown_at.h"
#include "platform/common/process/memory_advice.h"

namespace spillway::host {
namespace {

// Frames that may wait beyond what is left of the budget: so much, but no more than this part of
// it. Giving one back and taking it anew costs many times what moving one does.
constexpr Bytes kSlackBytes = 32 * kBlockBytes;
constexpr Bytes kSlackPart = 8;
constexpr std::size_t kOnTheirWay = 32;

// Nobody writes it; not const, so that it takes no room in the library's file.
alignas(kPageBytes) std::array<char, kBlockBytes> zeros;

// Who writes through /proc/PID/mem, or as a debugger, does not pin: the kernel has looked the page
// up and writes it wherever it has moved meanwhile. It keeps the address space from changing until
// then, for which this call waits: it wants to change the program's break, and then does not.
void wait_for_writes_by_the_kernel() { ::syscall(SYS_brk, 0); }

}  // namespace

DevicePages::DevicePages(const Userfault& userfault, const AddressSpace& addresses,
                         Failures& failures, Bytes capacity_bytes, bool keep_frames)
    : userfault_(&userfault),
      addresses_(&addresses),
      failures_(&failures),
      capacity_bytes_(capacity_bytes) {
  if (keep_frames) {
    frames_ = FramePool::create(userfault,
                                capacity_bytes / kBlockBytes + kOnTheirWay + FramePool::kMostParts);
  }
}

DevicePages::Pages& DevicePages::pages(BlockId block) { return grown_at(pages_, block); }

void DevicePages::renew(BlockId block, Bytes bytes, bool zeros_wanted) {
  if (there(block)) {  // touched while it belonged to nobody
    drop(block, bytes);
  }
  pages(block).wants_zeros = zeros_wanted;
}

// A frame, or parts, as the block's pages; returns how many bytes of it are there then.
Bytes DevicePages::place_frames(char* block, Bytes bytes, bool zeroed) {
  if (!frames_) {
    return 0;
  }
  char* frame = nullptr;
  {
    const MutexLock lock(frames_mutex_);
    if (bytes < kBlockBytes || frames_->parts_do()) {
      return frames_->place_parts(block, bytes, zeroed);
    }
    frame = static_cast<char*>(frames_->take());
  }
  if (frame == nullptr) {
    return 0;
  }
  if (zeroed) {
    std::memset(frame, 0, kBlockBytes);
  }
  become(frame, block, kBlockBytes, true);
  return kBlockBytes;
}

// The pages at a place of ours are the block's from now on, and those that the system does not move
// are copied: what has appeared may have been written, so nothing goes back.
// Returns how many bytes, from the beginning on, have been moved: writable, while copies are as
// asked.
Bytes DevicePages::become(char* place, char* block, Bytes bytes, bool copies_writable) {
  int error = 0;
  const Bytes moved_bytes = userfault_->move_on(block, place, bytes, error);
  if (moved_bytes < bytes) {
    fill_pages(block + moved_bytes, place + moved_bytes, bytes - moved_bytes, copies_writable);
  }
  if (moved_bytes == 0) {
    give_back_aside(place, bytes);
    return 0;
  }
  const MutexLock lock(frames_mutex_);
  moved_bytes < bytes ? frames_->empty(place, bytes) : frames_->placed(place);
  return moved_bytes;
}

// What is not there yet appears when it is mapped: only then is it known whether it may be written.
// Pages that could be written before that would take writes that nobody notices.
void DevicePages::zero(BlockId block, Bytes bytes) {
  Pages& at = pages(block);
  at.from = Source::kZeros;
  at.zeroed = true;
  if (at.populated_bytes > 0) {
    const bool writable = at.writable;
    drop(block, bytes);
    populate(block, bytes, writable);
  }
}

void DevicePages::clear(BlockId block, Bytes bytes) {
  Pages& at = pages(block);
  if (at.populated_bytes > 0) {
    drop(block, bytes);
  }
  at.wants_zeros = true;
  at.zeroed = true;
}

bool DevicePages::fill_gone(BlockId block, std::uint32_t page) {
  Pages& at = pages(block);
  const Bytes offset = page * kPageBytes;
  const int error = userfault_->copy(addresses_->address_of(block) + offset, zeros.data(),
                                     kPageBytes, at.writable);
  if (error == EEXIST) {
    return false;
  }
  failures_->must(error, "fill");
  if (offset >= at.populated_bytes) {
    set_populated(at, kBlockBytes);
  }
  return true;
}

void DevicePages::populate(BlockId block, Bytes bytes, bool writable) {
  Pages& at = pages(block);
  char* const start = addresses_->address_of(block);
  // A moved frame is writable from the start.
  const bool zeroed = std::exchange(at.zeroed, false) && at.wants_zeros;
  const Bytes placed = writable ? place_frames(start, bytes, zeroed) : 0;
  if (placed < bytes) {
    // Real pages: mapped zero pages would cost a fault and a flush of the TLB for each that is
    // written.
    fill_pages(start + placed, zeros.data(), bytes - placed, writable);
  }
  set_populated(at, bytes);
  trim_frames();
  at.writable = writable;
  at.from = Source::kZeros;
}

void DevicePages::map(BlockId block, Bytes bytes, bool writable) {
  Pages& at = pages(block);
  if (at.populated_bytes == 0) {
    populate(block, bytes, writable);  // zeroed, or to be overwritten as a whole
  }
  char* const start = addresses_->address_of(block);
  const Bytes all_bytes = std::max(bytes, at.populated_bytes);  // with what is behind its end
  if (at.aside != nullptr) {
    bring_back(block, bytes, writable);
  } else if (writable && !at.writable) {
    failures_->must(userfault_->unprotect(start, all_bytes), "unprotect");
  } else if (!writable && at.writable) {
    failures_->must(userfault_->protect(start, all_bytes), "protect");
  }
  at.writable = writable;
}

void DevicePages::unmap(BlockId block, Bytes bytes) {
  Pages& at = pages(block);
  if (at.populated_bytes > 0 && at.writable && at.aside == nullptr) {
    const Bytes all_bytes = std::max(bytes, at.populated_bytes);
    failures_->must(userfault_->protect(addresses_->address_of(block), all_bytes), "protect");
    at.writable = false;
  }
}

void DevicePages::drop(BlockId block, Bytes bytes) {
  Pages& at = pages(block);
  char* const start = addresses_->address_of(block);
  bool recovered = false;
  if (at.aside != nullptr) {
    give_back_aside(std::exchange(at.aside, nullptr), bytes);
    recovered = at.populated_bytes <= bytes;
  } else if (frames_ && at.populated_bytes > 0 && reuses_frames_) {
    const MutexLock lock(frames_mutex_);
    recovered = frames_->recover(start, at.populated_bytes);
  }
  // More may be there than the block has bytes, if somebody has touched what was nobody's.
  const Bytes dropped_bytes = std::max({bytes, at.populated_bytes, kPageBytes});
  if (!recovered && ::madvise(start, dropped_bytes, MADV_DONTNEED) != 0) {
    failures_->must(errno, "drop");
  }
  set_populated(at, 0);
  at.writable = false;
  trim_frames();
}

// --- Pages that are writable for a moment --------------------------------------------------------

// A moved page is writable at once, and who pins it before it is protected writes it later, unseen.
// Where that may be, what is to be read only is copied by the kernel, protected from the start.
void DevicePages::expect_pins() {
  pins_ = true;
  while (writable_moments_ != 0) {
    std::this_thread::yield();
  }
}

bool DevicePages::begin_writable_moment() {
  ++writable_moments_;
  if (pins_) {
    --writable_moments_;
    return false;
  }
  return true;
}

// So many bytes have just been moved there. True if somebody has written them meanwhile.
bool DevicePages::end_writable_moment(char* start, const void* contents, Bytes bytes) {
  if (bytes == 0) {
    --writable_moments_;
    return false;
  }
  failures_->must(userfault_->protect(start, bytes), "protect");
  wait_for_writes_by_the_kernel();
  --writable_moments_;
  return std::memcmp(start, contents, bytes) != 0;
}

// --- On the way out ------------------------------------------------------------------------------

// Only who has pinned a page, which the kernel does for I/O that goes past the processor, still
// reaches it once it cannot be written at its address. The kernel does not move such pages: that is
// how it tells. Nor pages that a child of a fork shares, or has shared; nobody has pinned those,
// and they can be moved once they are written.
void DevicePages::take_aside(BlockId block, TransferJob::Part& part) {
  char* const start = addresses_->address_of(block);
  if (!frames_) {
    fill_holes(start, part.bytes);
    wait_for_writes_by_the_kernel();
    return;
  }
  char* place = nullptr;
  {
    const MutexLock lock(frames_mutex_);
    place = static_cast<char*>(frames_->take_place());
  }
  part.held = place == nullptr;
  if (part.held) {
    fill_holes(start, part.bytes);
    return;
  }
  int error = shared_frames().take_pages(place, start, part.bytes);
  if (error == EBUSY || error == ENOENT) {
    error = make_exclusive(start, part.bytes);
    error = error == 0 ? shared_frames().take_pages(place, start, part.bytes) : error;
  }
  if (error == 0) {
    part.aside = place;
    wait_for_writes_by_the_kernel();
    return;
  }
  part.held = true;
  fill_holes(start, part.bytes);
  const MutexLock lock(frames_mutex_);
  frames_->placed(place);
}

// What a bare madvise has taken away holds zeros; a thread of ours that read it would wait for
// ever. What is there, though the kernel says that it is not resident, stays.
void DevicePages::fill_holes(char* start, Bytes bytes) {
  std::array<unsigned char, kBlockBytes / kPageBytes> resident{};
  const bool known = ::mincore(start, bytes, resident.data()) == 0;
  for (std::size_t page = 0; page < bytes / kPageBytes; ++page) {
    if (!known || (resident[page] & 1U) == 0) {
      const int error =
          userfault_->copy(start + page * kPageBytes, zeros.data(), kPageBytes, false);
      failures_->must(error == EEXIST ? 0 : error, "fill");
    }
  }
}

// Nobody's copy of these pages is theirs as well. The block cannot be written before and after
// this.
int DevicePages::make_exclusive(char* start, Bytes bytes) {
  fill_holes(start, bytes);
  int error = userfault_->unprotect(start, bytes);
  if (error == 0 && ::madvise(start, bytes, kPopulateWrite) != 0) {
    error = errno;
  }
  failures_->must(userfault_->protect(start, bytes), "protect");
  return error;
}

void DevicePages::put_back(BlockId block, const void* copied, TransferJob::Part& part) {
  if (part.aside == nullptr) {
    return;
  }
  char* const start = addresses_->address_of(block);
  if (!begin_writable_moment()) {
    fill_pages(start, copied, part.bytes, false);
    give_back_aside(std::exchange(part.aside, nullptr), part.bytes);
  } else {
    const Bytes moved_bytes = become(std::exchange(part.aside, nullptr), start, part.bytes, false);
    part.held = end_writable_moment(start, copied, moved_bytes);
  }
  userfault_->wake(start, kBlockBytes);
}

// Moved pages are writable at once, and who writes them then is not seen; what is to be read only
// is copied.
void DevicePages::bring_back(BlockId block, Bytes bytes, bool writable) {
  Pages& at = pages(block);
  char* const start = addresses_->address_of(block);
  char* const place = std::exchange(at.aside, nullptr);
  if (writable) {
    become(place, start, bytes, true);
    if (at.populated_bytes > bytes) {  // what is behind its end has stayed
      failures_->must(userfault_->unprotect(start + bytes, at.populated_bytes - bytes),
                      "unprotect");
    }
  } else {
    fill_pages(start, place, bytes, false);
    give_back_aside(place, bytes);
  }
  trim_frames();
}

void DevicePages::give_back_aside(char* place, Bytes bytes) {
  const MutexLock lock(frames_mutex_);
  if (reuses_frames_) {
    bytes == kBlockBytes ? frames_->give_back(place) : frames_->give_back_part(place, bytes);
    return;
  }
  frames_->empty(place, bytes);
}

// Page by page, as some may be there: of what lived there and has not gone yet.
void DevicePages::fill_dead(BlockId block) {
  char* const start = addresses_->address_of(block);
  if (char* const place = std::exchange(pages(block).aside, nullptr); place != nullptr) {
    const MutexLock lock(frames_mutex_);
    frames_->empty(place);
  }
  for (Bytes offset = 0; offset < kBlockBytes; offset += kPageBytes) {
    const int error = userfault_->zero(start + offset, kPageBytes);
    failures_->must(error == EEXIST ? 0 : error, "zero");
  }
  set_populated(pages(block), kBlockBytes);
}

void DevicePages::set_populated(Pages& at, Bytes bytes) {
  populated_bytes_ += bytes - at.populated_bytes;
  at.populated_bytes = bytes;
}

void DevicePages::trim_frames() {
  if (!frames_) {
    return;
  }
  const Bytes there_bytes = populated_bytes_ + landing_bytes_;
  const Bytes left_bytes = capacity_bytes_ - std::min(capacity_bytes_, there_bytes);
  const MutexLock lock(frames_mutex_);
  frames_->trim(left_bytes +
                std::min(kSlackBytes, capacity_bytes_ / kSlackPart / kPageBytes * kPageBytes));
}

void DevicePages::fill(BlockId block, const void* from, TransferJob::Part& part) {
  landing_bytes_ += part.bytes;
  char* const start = addresses_->address_of(block);
  if (part.bytes < kBlockBytes || !fill_by_frame(start, from, part)) {
    fill_pages(start, from, part.bytes, part.writable);
  }
}

void DevicePages::landed(BlockId block, const TransferJob::Part& part) {
  Pages& at = pages(block);
  set_populated(at, part.bytes);
  landing_bytes_ -= part.bytes;
  at.writable = part.writable;
}

void DevicePages::fill_pages(char* block, const void* from, Bytes bytes, bool writable) {
  failures_->must(userfault_->copy(block, from, bytes, writable), "fill");
}

// Into a frame, which then becomes the block's pages. Those are writable when they appear, so a
// block that is to be read only is protected at once; whether somebody wrote it in between is told
// by comparing. False if there is no frame, or it must not be writable: nothing has happened.
bool DevicePages::fill_by_frame(char* block, const void* from, TransferJob::Part& part) {
  if (!frames_ || (!part.writable && pins_)) {
    return false;
  }
  char* frame = nullptr;
  {
    const MutexLock lock(frames_mutex_);
    frame = static_cast<char*>(frames_->take());
  }
  if (frame == nullptr) {
    return false;
  }
  std::memcpy(frame, from, kBlockBytes);
  if (!part.writable && !begin_writable_moment()) {
    give_back_aside(frame, kBlockBytes);
    return false;
  }
  const Bytes moved_bytes = become(frame, block, kBlockBytes, part.writable);
  if (!part.writable) {
    part.touched = end_writable_moment(block, from, moved_bytes);
  }
  return true;
}

}  // namespace spillway::host
