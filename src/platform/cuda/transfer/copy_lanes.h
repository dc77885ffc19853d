// Two streams of the engine's context, copies in and copies out, and the thread that puts copies
// on them and sees them end. Layer: platform, cuda. Knows addresses and memory, and no launch.
// A thread of its own, because a call that gives access to a handle waits for the copy out that has
// been given to the driver, and for a millisecond if there are two (docs/gpu.md section 5): while
// memory is being mapped there is one at a time, of a few MiB, and the next must follow at once,
// whatever the driver thread is in.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/units.h"
#include "platform/common/process/wake_up.h"
#include "platform/common/storage/link_throttle.h"
#include "platform/cuda/driver/driver.h"

namespace spillway::cuda {

// Bytes of one block, on the device in one piece, in pinned memory in one or several.
struct BlockCopy {
  struct Piece {
    char* host = nullptr;
    Bytes bytes = 0;
  };
  CuAddress device = 0;
  std::vector<Piece> pieces;
};

// The driver thread's, but for its own thread, and what is said below.
class CopyLanes {
 public:
  enum class Direction : std::uint8_t { kIn, kOut };

  struct Ended {
    std::uint64_t tag = 0;
    bool failed = false;  // the driver has refused a part; no part is under way any more
    TimeNs begun_ns = 0;  // given to the driver, and nothing stood before it in its direction
    TimeNs ended_ns = 0;  // as seen; of those that were seen at once, as their bytes tell
  };

  // The driver must outlive it. `wake` is called by its thread when there is something to poll.
  // With a `link` copies are held back: the driver is given a chunk when a link of that speed would
  // begin to carry it, and it ends when that would have carried it, at the earliest.
  CopyLanes(const Driver& driver, std::function<void()> wake, const LinkSpeed& link = {})
      : driver_(&driver), wake_(std::move(wake)), link_(link) {}
  CopyLanes(const CopyLanes&) = delete;
  CopyLanes& operator=(const CopyLanes&) = delete;
  ~CopyLanes() { stop(); }

  // The engine's context is current, here and below. Starts the thread. Returns the first error.
  [[nodiscard]] CuResult make();
  // Gives no more to the driver, and waits for nothing. What has been given may be under way.
  void stop();
  // Nothing is under way any more.
  void give_back();

  // Behind what was added before in this direction.
  void add(Direction direction, std::uint64_t tag, std::vector<BlockCopy> copies);
  // Adds what has ended. An error means that the context is lost, and stays.
  [[nodiscard]] CuResult poll(std::vector<Ended>& ended);
  // Everything that was added has been polled.
  [[nodiscard]] bool idle() const { return not_polled_ == 0; }

  // Whether memory is being mapped, or was a moment ago.
  void keep_out_short(bool yes) { out_short_ = yes; }
  [[nodiscard]] Bytes copied_bytes() const { return copied_bytes_; }  // of what did not fail
  // Whether something that was added in this direction has not ended.
  [[nodiscard]] bool under_way(Direction direction) const {
    return not_ended_[static_cast<std::size_t>(direction)] > 0;
  }
  // Whether copies are held back to a link's speed.
  [[nodiscard]] bool holds_back() const { return link_.speed().limited(); }
  // What its thread has run on a processor. Any thread's, until it is stopped.
  [[nodiscard]] TimeNs processor_ns() const;

 private:
  struct Batch {
    std::uint64_t tag = 0;
    std::vector<BlockCopy> copies;
    // What comes next: of which block, of which of its pieces, behind how many bytes of it.
    std::size_t copy = 0;
    std::size_t piece = 0;
    Bytes done_bytes = 0;
    Bytes device_bytes = 0;  // done of the block
    Bytes copied_bytes = 0;  // have ended
    TimeNs added_ns = 0;
    TimeNs begun_ns = 0;
    bool failed = false;
  };
  // What was given to the driver at once.
  struct Chunk {
    CuEvent event = nullptr;  // behind it
    Bytes bytes = 0;
    TimeNs since_ns = 0;  // it has been the first
    TimeNs due_ns = 0;    // it does not end before
    bool last = false;    // of its batch
  };
  // Of its own thread, but for `added`.
  struct Lane {
    CuStream stream = nullptr;
    std::deque<Batch> added;    // with mutex_
    std::deque<Batch> batches;  // the first ones may have been given to the driver
    std::size_t given = 0;      // so many of them as a whole
    std::deque<Chunk> under_way;
    double bytes_per_ns = 50;  // as the last chunks were
    TimeNs looked_ns = 0;      // for ends
  };
  struct ChunkLimits {
    Bytes bytes = 0;
    std::size_t copies = 0;
  };

  void run(CuContext context);
  void take_added();
  CuResult look(Direction direction);
  CuResult end_chunks(Lane& lane, Direction direction);
  void end_batch(Lane& lane, Direction direction, TimeNs at_ns);
  static void learn(Lane& lane, Bytes bytes, TimeNs at_ns, TimeNs took_ns);
  CuResult give(Lane& lane, Direction direction, const ChunkLimits& limits);
  [[nodiscard]] CuResult take_event(CuEvent& event);
  void wait();

  const Driver* driver_;
  std::function<void()> wake_;
  LinkThrottle link_;
  std::array<Lane, 2> lanes_;
  std::vector<CuEvent> events_;  // free; its own thread's

  Mutex mutex_;
  std::vector<Ended> ended_ SPILLWAY_GUARDED_BY(mutex_);
  CuResult lost_ SPILLWAY_GUARDED_BY(mutex_) = CuResult::kSuccess;  // why it is
  std::array<std::atomic<std::uint64_t>, 2> not_ended_{};
  std::uint64_t not_polled_ = 0;
  std::atomic<Bytes> copied_bytes_{0};
  std::atomic<bool> out_short_{false};
  std::atomic<bool> stop_{false};
  WakeUp added_;
  std::thread thread_;
};

}  // namespace spillway::cuda
