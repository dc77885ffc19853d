// The program's thread: where it waits, for room, for ends and for memory, and the stream waits
// that let it go on instead. See driven_platform.h.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/launches/pins.h"
#include "engine/memory/for_each_block.h"
#include "platform/common/process/clock.h"
#include "platform/cuda/driven_program_thread.h"

namespace spillway::cuda {
namespace {

// What opens a launch is not always announced to those who wait for it.
constexpr std::chrono::microseconds kLookAgain{500};

}  // namespace

// A launch that the budget does not hold: the engine is told of more, and what has no room on the
// device is backed by host memory (CommandQueue), until the launch has ended.
void DrivenPlatform::make_up_room(const Launch& launch, std::string_view name) {
  std::vector<BlockId> blocks;
  for_each_block(launch, [&](BlockId id, const Access& /*access*/) { blocks.push_back(id); });
  std::sort(blocks.begin(), blocks.end());
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  Bytes needed_bytes = engine_.fixed_bytes();
  for (const BlockId id : blocks) {
    needed_bytes += engine_.space().block(id).fixed > 0 ? 0 : bytes_of(id);
  }
  (void)engine_.set_device_capacity(std::max(needed_bytes, engine_.capacity_bytes(Tier::kDevice)));
  if (!std::exchange(said_too_large_, true)) {
    options_.warn(
        fmt::format("a launch of \"{}\" uses {}{}, more than the device budget of {}: what "
                    "does not fit stays in host memory, which is slow{}",
                    name, format_bytes(needed_bytes),
                    engine_.fixed_bytes() > 0 ? " with what other processes share" : "",
                    format_bytes(budget_bytes_),
                    options_.link.limited() ? "; --link-bandwidth does not hold it back" : ""));
  }
}

// The engine's budget is larger than ours for a while: as long as launches need it that it has
// admitted.
void DrivenPlatform::follow_budget() {
  if (launches_.oversized() == 0 && engine_.capacity_bytes(Tier::kDevice) > budget_bytes_) {
    (void)engine_.set_device_capacity(std::max(budget_bytes_.load(), engine_.fit({}).held_bytes));
  }
}

// The driver would make the program wait in a call of its own, with its locks held. Who was held
// goes on when some have ended, not only one: to be woken costs more than a launch. Where nothing
// ends, what runs may wait for the program: then the driver itself says how far it may be ahead.
void DrivenPlatform::hold_back() {
  constexpr std::uint32_t kGoOnPart = 8;
  // Where something must leave nearly every launch has a stream wait before it and a completion
  // marker behind it, and the driver counts those as well.
  constexpr std::uint32_t kWithWaitsPart = 2;
  constexpr std::uint32_t kMostAhead = 1U << (kSlotBits - 1);  // the engine's table holds more
  const std::uint32_t most = std::min(
      governor_.all_fits() ? options_.launches_ahead : options_.launches_ahead / kWithWaitsPart,
      kMostAhead);
  if (launches_.in_flight() >= most) {
    const Held held(*this, WorkTimes::What::kHeldAhead);
    wait_until([&]() SPILLWAY_REQUIRES(mutex_) {
      return launches_.in_flight() < most - most / kGoOnPart ||
             (launches_.in_flight() < kMostAhead && standstill_.nothing_ends(now_ns()));
    });
  }
}

// Whether blocks of these have no frames, and there are too few that are nobody's.
bool DrivenPlatform::lacks_room(std::span<const Access> accesses) const {
  Bytes needed_bytes = 0;
  for (const Access& access : accesses) {
    for (std::uint32_t i = 0; i < access.block_count; ++i) {
      const Block& block = engine_.space().block(access.first_block + i);
      needed_bytes += block.mapped ? 0 : block.bytes;
    }
  }
  return needed_bytes > engine_.free_bytes(Tier::kDevice);
}

// Its room is that of something dead, and the more deaths the engine has heard of, the better it
// can choose: frames of the same size need no calls of the driver. A device that is close behind
// has ended what was issued before in less time than a stream wait costs.
void DrivenPlatform::let_ends_come(StreamId id) {
  constexpr std::uint32_t kCloseBehind = 64;
  constexpr TimeNs kLongestNs = 50'000;
  if (launches_.in_flight() <= kCloseBehind) {
    put_marker(id);
    const std::uint64_t last = launches_.stream(id).marked;
    mutex_.unlock();
    const TimeNs until_ns = now_ns() + kLongestNs;
    while (stream_waits_.run_up_to(id) < last && now_ns() < until_ns) {
    }
    mutex_.lock();
  }
  take_ends();
}

// Where all fits, a launch that is not open waits for those before it to leave it their room. While
// the device has enough to do the program may wait as well, which costs less than a stream wait and
// a completion marker for each launch. Not for long: others may be between their issue and their
// making.
void DrivenPlatform::let_room_come(std::uint32_t tag) {
  constexpr std::uint32_t kFarAhead = 128;
  constexpr TimeNs kLongestNs = 20'000'000;
  if (!governor_.all_fits() || launches_.in_flight() < kFarAhead) {
    return;
  }
  const Held held(*this, WorkTimes::What::kHeldForRoom);
  const TimeNs until_ns = now_ns() + kLongestNs;
  wait_until([&]() SPILLWAY_REQUIRES(mutex_) {
    return launches_.at(tag).has_memory() || launches_.in_flight() <= kFarAhead / 2 ||
           now_ns() >= until_ns;
  });
}

void DrivenPlatform::wait_until(const std::function<bool()>& done) {
  ++held_;
  TimeNs sign_ns = now_ns();
  while (!done() && !broken_) {
    put_markers();
    queue_->wake();
    wait_a_little(sign_ns);
    take_ends();
  }
  --held_;
}

void DrivenPlatform::wait_a_little(TimeNs& sign_ns) {
  mutex_.wait_for(changed_, kLookAgain);
  constexpr TimeNs kDoubtAfterNs = 100'000'000;
  sign_ns = std::max(sign_ns, launches_.ended_ns());
  if (now_ns() - sign_ns >= kDoubtAfterNs) {
    ask_whether_alive();
    sign_ns = now_ns();
  }
}

void DrivenPlatform::wait_for_release(std::uint32_t tag) {
  const Held held(*this, WorkTimes::What::kHeldForCopy);
  // Those before it on its stream have their stream waits there: it comes behind them in any case.
  TimeNs sign_ns = now_ns();
  while (!launches_.at(tag).has_memory() && !broken_) {
    wait_a_little(sign_ns);
  }
}

SharedWait::Launch DrivenPlatform::for_shared_wait(std::uint32_t tag) const {
  const DeviceLaunches::Launch& launch = launches_.at(tag);
  const DeviceLaunches::Stream& stream = launches_.stream(launch.stream);
  return {.number = launch.number,
          .bytes = bound_bytes_of(launch.accesses, engine_.space()),
          .issues = engine_.stats().launches,
          .operations = stream.operations - stream.markers_put + stream.orders_others};
}

// Those that share a stream wait wait for each other, so they should be admitted together: nobody
// else's launch is next in line between them, or has what they lack without a completion marker
// behind it, and nothing on their stream is what somebody waits for. Where they are not all the
// same, see let_those_together_go.
bool DrivenPlatform::shares_wait(std::uint32_t tag, const SharedWait::Launch& launch) const {
  const DeviceLaunches::Launch& here = launches_.at(tag);
  const DeviceLaunches::Stream& stream = launches_.stream(here.stream);
  const Bytes budget_bytes = std::min(engine_.capacity_bytes(Tier::kDevice), budget_bytes_.load());
  const SharedWait::Limits limits{
      .launches = std::min<std::uint64_t>(SharedWait::kMostLaunches, governor_.always_together()),
      .bytes = budget_bytes / options_.shared_wait_part};
  return stream.shared.takes(launch, stream_waits_.opened(here.stream), limits) &&
         launches_.oversized() == 0 && !said_no_memory_ && stream.made + 1 == here.number &&
         launches_.only_unreleased_on(here.stream) && launches_.others_covered(here.stream);
}

// Launches that share a stream wait, and of which the engine has no room for one before the others
// have ended: what others hold comes free only when these have run (what they use themselves and is
// dead already, or what a kernel or the host does behind them, of which nobody is told), or the
// budget has fallen. The one that is lacking gets room as one that is larger than the budget, once.
void DrivenPlatform::let_those_together_go() {
  constexpr TimeNs kWaitsInVainNs = 250'000'000;
  if (launches_.unreleased() == 0 || engine_.transfers_in_flight() > 0 || !queue_->empty()) {
    return;
  }
  for (StreamId id = 0; id < launches_.streams(); ++id) {
    const std::optional<DeviceLaunches::HoldsUp> lacking = launches_.holds_up(id);
    if (lacking && lacking->time_ns >= kWaitsInVainNs && !launches_.at(lacking->tag).oversized) {
      let_go(lacking->tag);
    }
  }
}

void DrivenPlatform::let_go(std::uint32_t tag) {
  launches_.oversized(tag);
  const Bytes needed_bytes = bound_bytes_of(launches_.at(tag).accesses, engine_.space());
  const Bytes taken_bytes = std::max(engine_.fit({}).held_bytes, engine_.used_bytes(Tier::kDevice));
  (void)engine_.set_device_capacity(
      std::max(taken_bytes + needed_bytes, engine_.capacity_bytes(Tier::kDevice)));
}

void DrivenPlatform::put_wait(std::uint32_t tag, const SharedWait::Launch& issued) {
  const DeviceLaunches::Launch& launch = launches_.at(tag);
  do {
    if (!launches_.may_be_held(tag, options_.waiting_streams)) {
      const Held held(*this, WorkTimes::What::kHeldForWait);
      TimeNs sign_ns = now_ns();
      while (!launch.has_memory() && !launches_.may_be_held(tag, options_.waiting_streams) &&
             !broken_) {
        wait_a_little(sign_ns);
      }
    }
    // A completion marker that another thread is about to put would come behind the stream wait
    // that waits for it.
    put_markers();
    if (launch.has_memory() || broken_) {
      return;
    }
    // Others may have put a stream wait on a stream while the completion markers were put.
  } while (!launches_.may_be_held(tag, options_.waiting_streams));
  launches_.hold(tag);
  const DeviceLaunches::Stream& stream = launches_.stream(launch.stream);
  const CuContext context = stream.context;
  mutex_.unlock();
  const CuResult result = queue_->times().of(WorkTimes::What::kPutWait, [&] {
    return in_context(context, [&] {
      return stream_waits_.put_wait(launch.stream, launch.number, stream.handle);
    });
  });
  mutex_.lock();
  if (result != CuResult::kSuccess) {
    stream_failed(launch.stream, context, "cuStreamWaitValue64", result);
    return;
  }
  launches_.stream(launch.stream).shared.put_before(issued);
}

}  // namespace spillway::cuda
