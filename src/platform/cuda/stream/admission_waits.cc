// Where a thread of the program waits, for room, for ends and for memory, and the stream waits that
// let it go on instead. See admission_waits.h.
#include "platform/cuda/stream/admission_waits.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/launches/pins.h"
#include "engine/memory/for_each_block.h"
#include "platform/common/process/clock.h"
#include "platform/cuda/platform_parts.h"
#include "platform/cuda/platform_state.h"
#include "platform/cuda/stream/held_thread.h"

namespace spillway::cuda {
namespace {

// What opens a launch is not always announced to those who wait for it.
constexpr std::chrono::microseconds kLookAgain{500};

}  // namespace

AdmissionWaits::AdmissionWaits(PlatformState& state, PlatformParts& parts)
    : PlatformPart(state, parts), standstill_(state.launches) {}

void AdmissionWaits::look_for_ends() {
  const bool helpless = state_.launches.unreleased() > 0 &&
                        state_.engine.transfers_in_flight() == 0 && state_.queue->empty() &&
                        !parts_.updates.under_way().some_run();
  const Standstill::Found found = standstill_.look(helpless, now_ns());
  if (found.let_go) {
    let_next_go();
  }
  if (found.say) {
    state_.options.warn(fmt::format(
        "nothing has ended on the device for {} s, and launches wait for the memory of others: if "
        "those wait for something that only comes afterwards (a value, a host function), it never "
        "will; a larger device memory or host memory lets them run side by side",
        Standstill::kWithoutEndNs / kNsPerS));
  }
}

// What fits, however few the policy wants at once. If nothing more does, the next of each stream
// gets room as one that is larger than the budget: in host memory.
void AdmissionWaits::let_next_go() {
  standstill_.note_standing();
  state_.governor.let_all_in(true);
  (void)state_.engine.set_device_capacity(state_.engine.capacity_bytes(Tier::kDevice));
  for (StreamId id = 0; id < state_.launches.streams() && state_.engine.transfers_in_flight() == 0;
       ++id) {
    const std::optional<std::uint32_t> tag = state_.launches.first_unreleased(id);
    if (tag && !state_.launches.at(*tag).oversized) {
      let_go(*tag);
    }
  }
  state_.governor.let_all_in(false);
}

// A launch that the budget does not hold: the engine is told of more, and what has no room on the
// device is backed by host memory (CommandQueue), until the launch has ended.
void AdmissionWaits::make_up_room(const Launch& launch, std::string_view name) {
  std::vector<BlockId> blocks;
  for_each_block(launch, [&](BlockId id, const Access& /*access*/) { blocks.push_back(id); });
  std::sort(blocks.begin(), blocks.end());
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  Bytes needed_bytes = state_.engine.fixed_bytes();
  for (const BlockId id : blocks) {
    needed_bytes += state_.engine.space().block(id).fixed > 0 ? 0 : state_.bytes_of(id);
  }
  (void)state_.engine.set_device_capacity(
      std::max(needed_bytes, state_.engine.capacity_bytes(Tier::kDevice)));
  if (!std::exchange(said_too_large_, true)) {
    state_.options.warn(fmt::format(
        "a launch of \"{}\" uses {}{}, more than the device budget of {}: what "
        "does not fit stays in host memory, which is slow{}",
        name, format_bytes(needed_bytes),
        state_.engine.fixed_bytes() > 0 ? " with what other processes share" : "",
        format_bytes(state_.budget_bytes),
        state_.options.link.limited() ? "; --link-bandwidth does not hold it back" : ""));
  }
}

// The engine's budget is larger than ours for a while: as long as launches need it that it has
// admitted.
void AdmissionWaits::follow_budget() {
  if (state_.launches.oversized() == 0 &&
      state_.engine.capacity_bytes(Tier::kDevice) > state_.budget_bytes) {
    (void)state_.engine.set_device_capacity(
        std::max(state_.budget_bytes.load(), state_.engine.fit({}).held_bytes));
  }
}

// The driver would make the program wait in a call of its own, with its locks held. Who was held
// goes on when some have ended, not only one: to be woken costs more than a launch. Where nothing
// ends, what runs may wait for the program: then the driver itself says how far it may be ahead.
void AdmissionWaits::hold_back() {
  constexpr std::uint32_t kGoOnPart = 8;
  // Where something must leave nearly every launch has a stream wait before it and a completion
  // marker behind it, and the driver counts those as well.
  constexpr std::uint32_t kWithWaitsPart = 2;
  constexpr std::uint32_t kMostAhead = 1U << (kSlotBits - 1);  // the engine's table holds more
  const std::uint32_t most =
      std::min(state_.governor.all_fits() ? state_.options.launches_ahead
                                          : state_.options.launches_ahead / kWithWaitsPart,
               kMostAhead);
  if (state_.launches.in_flight() >= most) {
    const HeldThread held(state_, WorkTimes::What::kHeldAhead);
    wait_until([&]() SPILLWAY_REQUIRES(platform_lock) {
      return state_.launches.in_flight() < most - most / kGoOnPart ||
             (state_.launches.in_flight() < kMostAhead && standstill_.nothing_ends(now_ns()));
    });
  }
}

// Whether blocks of these have no frames, and there are too few that are nobody's.
bool AdmissionWaits::lacks_room(std::span<const Access> accesses) const {
  Bytes needed_bytes = 0;
  for (const Access& access : accesses) {
    for (std::uint32_t i = 0; i < access.block_count; ++i) {
      const Block& block = state_.engine.space().block(access.first_block + i);
      needed_bytes += block.mapped ? 0 : block.bytes;
    }
  }
  return needed_bytes > state_.engine.free_bytes(Tier::kDevice);
}

// Its room is that of something dead, and the more deaths the engine has heard of, the better it
// can choose: frames of the same size need no calls of the driver. A device that is close behind
// has ended what was issued before in less time than a stream wait costs.
void AdmissionWaits::let_ends_come(StreamId id) {
  constexpr std::uint32_t kCloseBehind = 64;
  constexpr TimeNs kLongestNs = 50'000;
  if (state_.launches.in_flight() <= kCloseBehind) {
    parts_.markers.put_marker(id);
    const std::uint64_t last = state_.launches.stream(id).marked;
    state_.without_lock([&] {
      const TimeNs until_ns = now_ns() + kLongestNs;
      while (state_.stream_waits.run_up_to(id) < last && now_ns() < until_ns) {
      }
    });
  }
  parts_.markers.take_ends();
}

// Where all fits, a launch that is not open waits for those before it to leave it their room. While
// the device has enough to do the program may wait as well, which costs less than a stream wait and
// a completion marker for each launch. Not for long: others may be between their issue and their
// making.
void AdmissionWaits::let_room_come(std::uint32_t tag) {
  constexpr std::uint32_t kFarAhead = 128;
  constexpr TimeNs kLongestNs = 20'000'000;
  if (!state_.governor.all_fits() || state_.launches.in_flight() < kFarAhead) {
    return;
  }
  const HeldThread held(state_, WorkTimes::What::kHeldForRoom);
  const TimeNs until_ns = now_ns() + kLongestNs;
  wait_until([&]() SPILLWAY_REQUIRES(platform_lock) {
    return state_.launches.at(tag).has_memory() || state_.launches.in_flight() <= kFarAhead / 2 ||
           now_ns() >= until_ns;
  });
}

void AdmissionWaits::wait_until(const std::function<bool()>& done) {
  ++state_.held;
  TimeNs sign_ns = now_ns();
  while (!done() && !state_.broken) {
    parts_.markers.put_markers();
    state_.queue->wake();
    wait_a_little(sign_ns);
    parts_.markers.take_ends();
  }
  --state_.held;
}

void AdmissionWaits::wait_a_little(TimeNs& sign_ns) {
  state_.wait_for(state_.changed, kLookAgain);
  constexpr TimeNs kDoubtAfterNs = 100'000'000;
  sign_ns = std::max(sign_ns, state_.launches.ended_ns());
  if (now_ns() - sign_ns >= kDoubtAfterNs) {
    parts_.markers.ask_whether_alive();
    sign_ns = now_ns();
  }
}

void AdmissionWaits::wait_for_release(std::uint32_t tag) {
  const HeldThread held(state_, WorkTimes::What::kHeldForCopy);
  // Those before it on its stream have their stream waits there: it comes behind them in any case.
  TimeNs sign_ns = now_ns();
  while (!state_.launches.at(tag).has_memory() && !state_.broken) {
    wait_a_little(sign_ns);
  }
}

SharedWait::Launch AdmissionWaits::for_shared_wait(std::uint32_t tag) const {
  const DeviceLaunches::Launch& launch = state_.launches.at(tag);
  const DeviceLaunches::Stream& stream = state_.launches.stream(launch.stream);
  return {.number = launch.number,
          .bytes = bound_bytes_of(launch.accesses, state_.engine.space()),
          .issues = state_.engine.stats().launches,
          .operations = stream.operations - stream.markers_put + stream.orders_others};
}

// Those that share a stream wait wait for each other, so they should be admitted together: nobody
// else's launch is next in line between them, or has what they lack without a completion marker
// behind it, and nothing on their stream is what somebody waits for. Where they are not all the
// same, see let_those_together_go.
bool AdmissionWaits::shares_wait(std::uint32_t tag, const SharedWait::Launch& launch) const {
  const DeviceLaunches::Launch& here = state_.launches.at(tag);
  const DeviceLaunches::Stream& stream = state_.launches.stream(here.stream);
  const Bytes budget_bytes =
      std::min(state_.engine.capacity_bytes(Tier::kDevice), state_.budget_bytes.load());
  const SharedWait::Limits limits{.launches = std::min<std::uint64_t>(
                                      SharedWait::kMostLaunches, state_.governor.always_together()),
                                  .bytes = budget_bytes / state_.options.shared_wait_part};
  return stream.shared.takes(launch, state_.stream_waits.opened(here.stream), limits) &&
         state_.launches.oversized() == 0 && !parts_.mechanism.device_is_short() &&
         stream.made + 1 == here.number && state_.launches.only_unreleased_on(here.stream) &&
         state_.launches.others_covered(here.stream);
}

// Launches that share a stream wait, and of which the engine has no room for one before the others
// have ended: what others hold comes free only when these have run (what they use themselves and is
// dead already, or what a kernel or the host does behind them, of which nobody is told), or the
// budget has fallen. The one that is lacking gets room as one that is larger than the budget, once.
void AdmissionWaits::let_those_together_go() {
  constexpr TimeNs kWaitsInVainNs = 250'000'000;
  if (state_.launches.unreleased() == 0 || state_.engine.transfers_in_flight() > 0 ||
      !state_.queue->empty()) {
    return;
  }
  for (StreamId id = 0; id < state_.launches.streams(); ++id) {
    const std::optional<DeviceLaunches::HoldsUp> lacking = state_.launches.holds_up(id);
    if (lacking && lacking->time_ns >= kWaitsInVainNs &&
        !state_.launches.at(lacking->tag).oversized) {
      let_go(lacking->tag);
    }
  }
}

void AdmissionWaits::let_go(std::uint32_t tag) {
  state_.launches.oversized(tag);
  const Bytes needed_bytes =
      bound_bytes_of(state_.launches.at(tag).accesses, state_.engine.space());
  const Bytes taken_bytes =
      std::max(state_.engine.fit({}).held_bytes, state_.engine.used_bytes(Tier::kDevice));
  (void)state_.engine.set_device_capacity(
      std::max(taken_bytes + needed_bytes, state_.engine.capacity_bytes(Tier::kDevice)));
}

void AdmissionWaits::put_wait(std::uint32_t tag, const SharedWait::Launch& issued) {
  const DeviceLaunches::Launch& launch = state_.launches.at(tag);
  do {
    if (!state_.launches.may_be_held(tag, state_.options.waiting_streams)) {
      const HeldThread held(state_, WorkTimes::What::kHeldForWait);
      TimeNs sign_ns = now_ns();
      while (!launch.has_memory() &&
             !state_.launches.may_be_held(tag, state_.options.waiting_streams) && !state_.broken) {
        wait_a_little(sign_ns);
      }
    }
    // A completion marker that another thread is about to put would come behind the stream wait
    // that waits for it.
    parts_.markers.put_markers();
    if (launch.has_memory() || state_.broken) {
      return;
    }
    // Others may have put a stream wait on a stream while the completion markers were put.
  } while (!state_.launches.may_be_held(tag, state_.options.waiting_streams));
  state_.launches.hold(tag);
  const DeviceLaunches::Stream& stream = state_.launches.stream(launch.stream);
  const CuContext context = stream.context;
  const CuResult result = state_.call_in(context, [&] {
    return state_.queue->times().of(WorkTimes::What::kPutWait, [&] {
      return state_.stream_waits.put_wait(launch.stream, launch.number, stream.handle);
    });
  });
  if (result != CuResult::kSuccess) {
    parts_.markers.stream_failed(launch.stream, context, "cuStreamWaitValue64", result);
    return;
  }
  state_.launches.stream(launch.stream).shared.put_before(issued);
}

}  // namespace spillway::cuda
