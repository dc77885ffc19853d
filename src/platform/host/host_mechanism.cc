// What the engine asks for, carried out: pages appear, are protected and vanish at once; copies
// become jobs of the threads. See host_platform.h. All of it with the lock held.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

#include "platform/host/host_platform.h"

namespace spillway::host {
namespace {

// Frames that may wait beyond what is left of the budget: so many, but no more than this part of
// it. Small blocks come and go without frames, and giving one back for them and taking it anew
// costs many times what moving one does.
constexpr std::size_t kSlackFrames = 32;
constexpr Bytes kSlackPart = 8;

// Nobody writes it; not const, so that it takes no room in the library's file.
alignas(kPageBytes) std::array<char, kBlockBytes> zeros;

}  // namespace

HostPlatform::Place& HostPlatform::place(BlockId id) {
  if (id >= places_.size()) {
    places_.resize(std::max<std::size_t>(id + std::size_t{1}, engine_.space().block_slots()));
  }
  return places_[id];
}

// A kernel that refuses to change our own mapping leaves no safe way on.
void HostPlatform::must(int error, const char* what) {
  if (error != 0) {
    fatal({ErrorCode::kIo, fmt::format("the kernel refuses to {} memory: {}; stopping before data "
                                       "is lost",
                                       what, std::strerror(error))});
  }
}

void HostPlatform::start_transfer(const Transfer& transfer) {
  auto job = std::make_shared<Job>();
  job->transfer = transfer;
  job->ready_ns = now_ns();
  for (const BlockId id : transfer.blocks) {
    Place& at = place(id);
    const Bytes bytes = bytes_of(id);
    job->block_bytes.push_back(bytes);
    if (transfer.to == Tier::kHost) {
      at.host = host_slots_.take(bytes).value_or(kNoPlace);
      if (at.host == kNoPlace) {
        note_io_error("host memory is full of what children of the program may still read");
        job->io_error = ENOMEM;
      }
    } else if (transfer.to == Tier::kStorage) {
      at.storage = storage_slots_.take(bytes).value_or(kNoPlace);
      job->io_error = at.storage == kNoPlace ? ENOSPC : job->io_error.load();
    } else {
      at.from = transfer.from == Tier::kHost ? Source::kHostCopy : Source::kStorageCopy;
    }
    job->host_offset.push_back(at.host);
    job->storage_offset.push_back(at.storage);
    // A block that comes to be written need not be protected first. Nobody can write it before it
    // is whole: what can fail has succeeded when its pages appear.
    job->touched.push_back(0);
    const bool written = transfer.to == Tier::kDevice && engine_.space().block(id).wants_write;
    job->writable.push_back(written ? 1 : 0);
  }
  if (transfer.from == Tier::kDevice) {
    pressed_ = true;
  }
  const bool urgent = transfer.cause == Cause::kFault || transfer.cause == Cause::kEvict;
  WorkQueue& queue = urgent ? urgent_work_ : ahead_work_;
  {
    const std::scoped_lock lock(queue.mutex);
    const bool first = transfer.cause == Cause::kFault || transfer.cause == Cause::kPrefetch;
    (first ? queue.first : queue.second).push_back(std::move(job));
  }
  queue.wanted.notify_one();
}

// A thread has stopped at a block that is already on its way, behind others: it goes first.
void HostPlatform::hurry(BlockId id) {
  std::shared_ptr<Job> found;
  {
    const std::scoped_lock lock(ahead_work_.mutex);
    std::deque<std::shared_ptr<Job>>& jobs = ahead_work_.first;
    const auto job = std::find_if(jobs.begin(), jobs.end(), [&](const auto& one) {
      return !one->io_done && std::find(one->transfer.blocks.begin(), one->transfer.blocks.end(),
                                        id) != one->transfer.blocks.end();
    });
    if (job == jobs.end()) {
      return;
    }
    found = std::move(*job);
    jobs.erase(job);
  }
  {
    const std::scoped_lock lock(urgent_work_.mutex);
    urgent_work_.first.push_back(std::move(found));
  }
  urgent_work_.wanted.notify_one();
}

// A frame as the block's pages, if there is one to be had.
bool HostPlatform::place_frame(char* block, bool zeroed) {
  if (!frames_) {
    return false;
  }
  const std::scoped_lock lock(frames_mutex_);
  void* const frame = frames_->take();
  if (frame == nullptr) {
    return false;
  }
  if (zeroed) {
    std::memset(frame, 0, kBlockBytes);
  }
  if (!frames_->place(frame, block)) {
    frames_->give_back(frame);
    return false;
  }
  frames_->placed(frame);
  return true;
}

// What is not there yet appears when it is mapped: only then is it known whether it may be written.
// Pages that could be written before that would take writes that nobody notices.
void HostPlatform::zero_block(BlockId block) {
  Place& at = place(block);
  at.from = Source::kZeros;
  at.zeroed = true;
  if (at.populated_bytes > 0) {
    const bool writable = at.writable;
    drop_block(block, Tier::kDevice);
    populate(block, writable);
  }
}

void HostPlatform::populate(BlockId block, bool writable) {
  Place& at = place(block);
  const Bytes bytes = bytes_of(block);
  // A moved frame is writable from the start.
  const bool zeroed = std::exchange(at.zeroed, false) && at.wants_zeros;
  if (!writable || bytes < kBlockBytes || !place_frame(address_of(block), zeroed)) {
    // Real pages: mapped zero pages would cost a fault and a flush of the TLB for each that is
    // written.
    fill_block(address_of(block), zeros.data(), bytes, writable);
  }
  set_populated(at, bytes);
  trim_frames();
  at.writable = writable;
  at.from = Source::kZeros;
}

void HostPlatform::map_block(BlockId block, bool writable) {
  Place& at = place(block);
  const Bytes bytes = bytes_of(block);
  if (at.populated_bytes == 0) {
    populate(block, writable);  // zeroed, or to be overwritten as a whole
  }
  if (writable && !at.writable) {
    must(userfault_.unprotect(address_of(block), bytes), "unprotect");
  } else if (!writable && at.writable) {
    must(userfault_.protect(address_of(block), bytes), "protect");
  }
  at.writable = writable;
  end_waiting(block);
}

void HostPlatform::unmap_block(BlockId block) {
  Place& at = place(block);
  if (at.populated_bytes > 0 && at.writable) {
    must(userfault_.protect(address_of(block), bytes_of(block)), "protect");
    at.writable = false;
  }
}

void HostPlatform::drop_block(BlockId block, Tier tier) {
  Place& at = place(block);
  const Bytes bytes = bytes_of(block);
  if (tier == Tier::kDevice) {
    bool recovered = false;
    if (frames_ && at.populated_bytes == kBlockBytes) {
      const std::scoped_lock lock(frames_mutex_);
      recovered = frames_->recover(address_of(block));
    }
    if (!recovered) {
      must(
          ::madvise(address_of(block), std::max(bytes, kPageBytes), MADV_DONTNEED) == 0 ? 0 : errno,
          "drop");
    }
    set_populated(at, 0);
    at.writable = false;
    trim_frames();
  } else if (tier == Tier::kHost && at.host != kNoPlace) {
    if (const std::uint64_t was = std::exchange(at.host, kNoPlace); kept_in_host_.give_up(was)) {
      host_slots_.give_back(was, bytes);
    }
  } else if (tier == Tier::kStorage && at.storage != kNoPlace) {
    if (const std::uint64_t was = std::exchange(at.storage, kNoPlace);
        kept_in_storage_.give_up(was)) {
      storage_slots_.give_back(was, bytes);
    }
  }
}

void HostPlatform::set_populated(Place& at, Bytes bytes) {
  populated_bytes_ += bytes - at.populated_bytes;
  at.populated_bytes = bytes;
}

// Frames that wait for a block take no more than what the blocks that are there leave of the
// budget. A block that is on its way is not there: it will take a frame that waits.
void HostPlatform::trim_frames() {
  if (!frames_) {
    return;
  }
  const Bytes there_bytes = populated_bytes_ + landing_bytes_;
  const Bytes capacity_bytes = engine_.capacity_bytes(Tier::kDevice);
  const Bytes left_bytes = capacity_bytes - std::min(capacity_bytes, there_bytes);
  const std::scoped_lock lock(frames_mutex_);
  frames_->trim(left_bytes / kBlockBytes +
                std::min(kSlackFrames, capacity_bytes / kSlackPart / kBlockBytes));
}

void HostPlatform::zero(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) {
    zero_block(block);
  }
}

void HostPlatform::map(std::span<const BlockId> blocks, bool writable) {
  for (const BlockId block : blocks) {
    map_block(block, writable);
  }
}

void HostPlatform::unmap(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) {
    unmap_block(block);
  }
}

void HostPlatform::drop(std::span<const BlockId> blocks, Tier tier) {
  for (const BlockId block : blocks) {
    drop_block(block, tier);
  }
}

// Threads go on as their blocks are mapped; a launch waits for all of them.
void HostPlatform::faults_served(std::uint64_t /*launch*/) {}

void HostPlatform::release_launch(std::uint64_t launch, std::span<const TransferId> /*transfers*/) {
  ready_.push_back(launch);
  launch_ready_.notify_all();
}

// --- Who waits
// -------------------------------------------------------------------------------------

void HostPlatform::begin_stall(TimeNs at_ns) {
  if (stopped_++ == 0) {
    stopped_since_ns_ = at_ns;
  }
}

void HostPlatform::end_stall() {
  if (--stopped_ == 0) {
    stalled_ns_ += now_ns() - stopped_since_ns_;
  }
}

void HostPlatform::begin_waiting(const FaultRecord& fault) {
  Place& at = place(fault.block);
  const Block& block = engine_.space().block(fault.block);
  if (at.awaited) {
    return;
  }
  at.awaited = true;
  at.awaited_since_ns = fault.at_ns;
  at.awaited_by = current_;
  begin_stall(fault.at_ns);
  if (at.populated_bytes > 0) {
    ++stats_.write_faults;
    at.from = Source::kZeros;
  } else {
    ++stats_.page_faults;
  }
  if (block.transfer != kNoIndex) {
    hurry(fault.block);
  }
}

void HostPlatform::end_waiting(BlockId id) {
  Place& at = place(id);
  if (!at.awaited) {
    return;
  }
  at.awaited = false;
  userfault_.wake(address_of(id), kBlockBytes);
  const TimeNs waited_ns = now_ns() - at.awaited_since_ns;
  stats_.fault_wait_ns += waited_ns;
  end_stall();
  if (at.awaited_by == kNoExecution) {
    return;
  }
  LaunchWaits& waits = waits_[at.awaited_by];
  ++waits.blocks;
  waits.wait_ns += waited_ns;
  (at.from == Source::kHostCopy      ? waits.host_ns
   : at.from == Source::kStorageCopy ? waits.storage_ns
                                     : waits.fresh_ns) += waited_ns;
}

}  // namespace spillway::host
