// The device tier: pages at the program's own addresses that appear, are protected and vanish.
// Layer: platform, host. With the platform's lock held, unless a function says otherwise.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "base/mutex.h"
#include "engine/types.h"
#include "platform/common/failures.h"
#include "platform/common/storage/transfer_job.h"
#include "platform/host/faults/userfault.h"
#include "platform/host/pages/address_space.h"
#include "platform/host/pages/frame_pool.h"

namespace spillway::host {

class DevicePages {
 public:
  // All of them must outlive it. `keep_frames`: where the kernel can move pages (frame_pool.h).
  DevicePages(const Userfault& userfault, const AddressSpace& addresses, Failures& failures,
              Bytes capacity_bytes, bool keep_frames);
  // What pages that are there and frames that wait may add up to: the engine says.
  void set_capacity(Bytes bytes) { capacity_bytes_ = bytes; }

  // New memory: what it holds once it appears, zeros or anything.
  void renew(BlockId block, Bytes bytes, bool zeros);
  // As Mechanism says. What is not there yet appears when it is mapped.
  void zero(BlockId block, Bytes bytes);
  void map(BlockId block, Bytes bytes, bool writable);
  void unmap(BlockId block, Bytes bytes);
  void drop(BlockId block, Bytes bytes);
  // Zeros, and no pages until it is mapped again. The block is not on its way.
  void clear(BlockId block, Bytes bytes);
  // A page of a block that is there, or behind it, has been missed: if it is, because the program
  // has told the kernel that it needs it no more, it holds zeros now. False if it is there after
  // all.
  bool fill_gone(BlockId block, std::uint32_t page);
  // Zeros where nothing lives, so that whoever looks there goes on.
  void fill_dead(BlockId block);

  // Whether there are pages, and where their bytes came from last.
  [[nodiscard]] bool there(BlockId block) const {
    return block < pages_.size() && pages_[block].populated_bytes > 0;
  }
  [[nodiscard]] Source source(BlockId block) const {
    return block < pages_.size() ? pages_[block].from : Source::kZeros;
  }
  void set_source(BlockId block, Source from) { pages(block).from = from; }

  // Bytes from below become the block's pages. Without the lock: the block is on its way. Says in
  // `part` whether they are writable, and whether somebody has written them already.
  void fill(BlockId block, const void* from, TransferJob::Part& part);
  // Before a block's bytes are copied from the device: its pages are moved where nobody can reach
  // them, with what they hold then and for good. Not if anybody holds them for I/O of his own,
  // which may write them at any time: `held` then says so. The block has been unmapped, and is on
  // its way; without the lock. Where the kernel cannot move pages nothing happens.
  void take_aside(BlockId block, TransferJob::Part& part);
  // Back where they were, to be read only, with the same bytes as `copied`; without the lock. If
  // somebody has written them meanwhile they are held.
  void put_back(BlockId block, const void* copied, TransferJob::Part& part);
  // It has left, or has not: where its pages are is known from now on.
  void departed(BlockId block, const TransferJob::Part& part) { pages(block).aside = part.aside; }
  // Whether nobody can reach the block's pages, which are there.
  [[nodiscard]] bool aside(BlockId block) const {
    return block < pages_.size() && pages_[block].aside != nullptr;
  }
  // The kernel may go on reading pages after they have left: they must not hold anything else.
  void keep_no_frames() { reuses_frames_ = false; }
  // Devices may write the program's pages past the processor from now on, once somebody has pinned
  // them: pages that are to be read only must never be writable, not even for a moment. Any
  // thread's; when it returns none is.
  void expect_pins();
  // That has been done, and is known from now on.
  void landed(BlockId block, const TransferJob::Part& part);
  // Frames that wait for a block take no more than what the blocks that are there leave of the
  // budget. A block that is on its way is not there: it will take a frame that waits.
  void trim_frames();

 private:
  struct Pages {
    Bytes populated_bytes = 0;  // the pages are there: so many; or none
    bool writable = false;      // ... not protected
    bool wants_zeros = true;    // where it has no contents; else anything will do
    bool zeroed = false;        // ... and not all of it is about to be overwritten
    Source from = Source::kZeros;
    char* aside = nullptr;  // where they are instead
  };
  // For take_pages, which is any thread's.
  [[nodiscard]] const FramePool& shared_frames() const SPILLWAY_NO_THREAD_SAFETY_ANALYSIS {
    return *frames_;
  }
  Pages& pages(BlockId block);
  void set_populated(Pages& at, Bytes bytes);
  void populate(BlockId block, Bytes bytes, bool writable);
  Bytes place_frames(char* block, Bytes bytes, bool zeroed);
  Bytes become(char* place, char* block, Bytes bytes, bool copies_writable);
  void bring_back(BlockId block, Bytes bytes, bool writable);
  void give_back_aside(char* place, Bytes bytes);
  int make_exclusive(char* start, Bytes bytes);
  void fill_holes(char* start, Bytes bytes);
  void fill_pages(char* block, const void* from, Bytes bytes, bool writable);
  bool fill_by_frame(char* block, const void* from, TransferJob::Part& part);
  [[nodiscard]] bool begin_writable_moment();
  bool end_writable_moment(char* start, const void* contents, Bytes bytes);

  const Userfault* userfault_;
  const AddressSpace* addresses_;
  Failures* failures_;
  Bytes capacity_bytes_;
  std::vector<Pages> pages_;             // by block
  Bytes populated_bytes_ = 0;            // of all
  std::atomic<Bytes> landing_bytes_{0};  // pages that have appeared, of transfers under way
  Mutex frames_mutex_;
  std::atomic<bool> reuses_frames_{true};
  std::atomic<bool> pins_{false};
  std::atomic<int> writable_moments_{0};  // blocks that are about to be protected
  // nullptr: pages come from the system and go there
  std::unique_ptr<FramePool> frames_ SPILLWAY_PT_GUARDED_BY(frames_mutex_);
};

}  // namespace spillway::host
