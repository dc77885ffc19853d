// Bypass mode: while everything fits, launches are not tracked, and all memory that they may use is
// kept on the device. Layer: platform, cuda. docs/cuda.md. Which threads are inside bypassed calls
// is bypassed_calls.h's, which memory they may use bypassed_memory.h's. With the platform's lock
// held, except for calls().
//
// To the engine the kept memory is the operands of launches that run until bypass mode ends
// (holds). Memory that a tracked launch uses for the first time is settled, that is kept as well,
// when it is all there; as long as some living memory is unsettled, every call comes to the
// platform and is looked at.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "engine/engine.h"
#include "platform/cuda/bypass/bypassed_calls.h"
#include "platform/cuda/bypass/bypassed_memory.h"
#include "platform/cuda/memory/block_backing.h"
#include "platform/cuda/stream/device_launches.h"
#include "platform/cuda/stream/stream_order.h"
#include "policy/admission_governor.h"

namespace spillway::cuda {

class BypassMode {
 public:
  // What it acts on; all of it must outlive it.
  struct Parts {
    Engine& engine;
    DeviceLaunches& launches;
    StreamOrder& order;
    AdmissionGovernor& governor;
    const BlockBacking& backing;
  };
  struct Options {
    // Tracked launches before bypass mode is entered: at first, and at most.
    std::uint64_t after = 0;
    std::uint64_t after_at_most = 0;
    // Memory that is on the device could not be kept there: a defect.
    std::function<void()> on_defect;
  };
  BypassMode(const Parts& parts, Options options)
      : parts_(parts), options_(std::move(options)), after_(options_.after) {}

  // Whether the engine's tag is that of a hold, which is no launch of the program's.
  [[nodiscard]] static bool is_hold(std::uint64_t tag);

  [[nodiscard]] bool is_on() const { return on_; }
  [[nodiscard]] BypassedCalls& calls() { return calls_; }
  [[nodiscard]] const BypassedCalls& calls() const { return calls_; }
  // Streams that have had bypassed calls since bypass mode was entered.
  [[nodiscard]] const std::vector<StreamId>& streams() const { return streams_; }
  [[nodiscard]] bool has_calls_on(StreamId id) const {
    return std::find(streams_.begin(), streams_.end(), id) != streams_.end();
  }
  // Calls whose memory was looked up to find that they may be bypassed, so far.
  [[nodiscard]] std::uint64_t looked_at() const { return looked_at_; }

  // --- Entering and leaving

  // Counts a tracked launch. True if it is time to see whether bypass mode can be entered.
  [[nodiscard]] bool is_due();
  // Everything fits, and nothing is on its way.
  void enter();
  // Bypassed calls may be on their way on any stream that had one, and use anything that was
  // settled: each of these streams gets a placeholder launch that uses all of it.
  void leave();
  // It is not worth entering again for a long time.
  void stay_out() { after_ = options_.after_at_most; }

  // --- Calls that come to the platform all the same

  // Whether a launch with these operands may be bypassed.
  [[nodiscard]] bool may_bypass(const std::vector<Access>& accesses);
  // A call on this stream is bypassed, and its thread's next ones on that stream may be without
  // asking.
  void note_call(CuStream stream, StreamId id);
  // A tracked launch uses this allocation.
  void used(AllocationId id);

  // --- Memory

  // It has been allocated, or is used again.
  void lives(AllocationId id) {
    memory_.lives(id);
    open_calls();
  }
  // The engine must hear of the death now: launches that use the memory are tracked.
  void freed(AllocationId id);
  // The contents are dead. True if the engine must hear of it now; false if bypassed launches may
  // still use them, so that it hears of it when bypass mode ends.
  [[nodiscard]] bool retired(AllocationId id);
  // An allocation that no bypassed launch may have used.
  [[nodiscard]] bool is_unsettled(AllocationId id) const { return memory_.is_unsettled(id); }
  // What tracked launches have used may have come: settles it.
  void settle_those_ready();
  // Lets threads make calls without asking, or no more, as memory now is. Called when the engine
  // has heard of a death.
  void open_calls();
  // Whether it has all of its memory on the device.
  [[nodiscard]] bool is_whole(AllocationId id) const;

  // Memory that was allocated and that no launch has used for a while (a workspace that no kernel
  // wanted) would have all calls looked at for ever. Where there is ample room it gets its frames,
  // as it would have had them from the driver when it was allocated. Whether that is due, and
  // possible now. Counting begins anew with order_begins.
  [[nodiscard]] bool order_is_due() const { return seen_closed_ >= order_after_; }
  void order_begins() { seen_closed_ = 0; }
  [[nodiscard]] bool may_order() const;
  // `free_bytes`: what the device has free; nullopt: it is not known. In portions, so that no
  // launch waits long behind it; and none where not all of it can be had, which would gain nothing.
  void order_unused(std::optional<Bytes> free_bytes);
  // The allocation is about to die or to move: what was ordered with it is kept no longer.
  void end_ordered_with(AllocationId id);

 private:
  [[nodiscard]] Access all_of(AllocationId id) const;
  void settle(AllocationId id, std::vector<Access>& settled);
  void hold(std::vector<Access> accesses);
  void hold_together();
  [[nodiscard]] LaunchId keep(std::vector<Access> accesses);
  [[nodiscard]] LaunchId issue(const Launch& launch);
  [[nodiscard]] std::vector<Access> all_settled() const;
  [[nodiscard]] std::optional<Bytes> bytes_to_order(AllocationId id) const;
  [[nodiscard]] bool settle_ordered(std::vector<Access>& settled);
  void end_ordered();

  Parts parts_;
  Options options_;
  BypassedCalls calls_;
  BypassedMemory memory_;
  bool on_ = false;
  std::vector<StreamId> streams_;
  std::vector<LaunchId> holds_;
  std::vector<AllocationId> used_;  // by tracked launches, and not settled yet
  std::uint64_t calls_before_ = 0;  // when it was entered
  std::uint64_t tracked_ = 0;       // launches since it was left, or entering was considered
  std::uint64_t after_;             // so many of them, entering is considered
  std::uint64_t looked_at_ = 0;
  std::uint64_t seen_closed_ = 0;  // of those looked at, since calls were open or an order began
  std::uint64_t order_after_ = 0;  // so many of these
  // What keeps ordered memory until it is there, and that memory. kNoLaunch: none.
  LaunchId ordered_by_ = kNoLaunch;
  std::vector<Access> ordered_;
};

}  // namespace spillway::cuda
