// The program's thread: launches, gates, tickets, and where it waits. See driven_platform.h.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "engine/for_each_block.h"
#include "engine/pins.h"
#include "platform/common/clock.h"
#include "platform/common/current_module.h"
#include "platform/cuda/driven_program_thread.h"

namespace spillway::cuda {
namespace {

// What opens a launch is not always announced to those who wait for it.
constexpr std::chrono::microseconds kLookAgain{500};

// What before_launch gives for a call of which the engine is not told.
constexpr std::uint64_t kUnseen = ~std::uint64_t{0};

// Of what before_launch has given.
std::uint32_t tag_of(std::uint64_t launch) { return static_cast<std::uint32_t>(launch - 1); }

}  // namespace

// --- A launch -----------------------------------------------------------------------------------

std::uint64_t DrivenPlatform::before_launch(const CudaLaunch& launch) {
  return issue(launch, kNoAllocation);
}

// `step_of`: one of ours, which stands before a launch of the program (recomputing.h).
std::uint64_t DrivenPlatform::issue(const CudaLaunch& launch, AllocationId step_of) {
  const bool ours = step_of != kNoAllocation;
  Lock lock(mutex_);
  if (!ours) {
    hold_back(lock);
  }
  if (launch.completes != 0) {
    recomputing_.spoiled(memory_->number_of(launch.completes));
  }
  const StreamId stream = stream_of(canonical(launch.stream), lock);
  const bool in_legacy_order =
      launches_.stream(stream).blocking || canonical(launch.stream) == nullptr;
  std::unique_lock in_order(in_legacy_order ? legacy_order_ : launches_.stream(stream).issuing,
                            std::defer_lock);
  std::vector<Access> accesses;
  bool ends_have_come = false;
  TimeNs sign_ns = 0;
  while (true) {
    lock.unlock();
    in_order.lock();
    lock.lock();
    accesses = memory_->accesses_of(launch.operands);
    if (accesses.empty() || broken_) {
      return 0;
    }
    if (may_be_unseen(launch.stream, accesses)) {
      note_unseen(canonical(launch.stream), stream);
      if (quiet_.seen_closed >= quiet_.order_after) {
        order_what_nobody_uses(lock);
      }
      return kUnseen;
    }
    if (patience_.all_fits() && lacks_room(accesses) && !std::exchange(ends_have_come, true)) {
      leave_quiet();
      let_ends_come(stream, lock);
      accesses = memory_->accesses_of(launch.operands);
    }
    // From here on the lock is held until the engine has the launch.
    const std::optional<Recomputing::Step> step =
        recomputing_.before_launch(accesses, stream, step_of);
    // One that starts early must not do so before what has been made again is there.
    const bool ticket_wanted = launch.starts_early && recomputing_.last_remake(accesses, stream) >
                                                          launches_.stream(stream).ticket_put;
    if (!step && !ticket_wanted) {
      break;
    }
    in_order.unlock();  // it is a launch, too, or another thread's
    if (step) {
      carry_out(*step, lock, sign_ns);
    } else {
      put_ticket(stream, lock);
    }
  }
  Launch issued;
  issued.stream = stream;
  issued.accesses = std::move(accesses);
  use_while_quiet(issued);
  // Nor does the engine, told of streams, of more room or of others, give up what it names.
  const std::vector<AllocationId> withheld = recomputing_.withhold(issued.accesses);
  order_with_null_stream(stream);
  const LaunchLog::Launched logged = log_.launched(launch.hash, launch.name, current_module());
  if (EventLog* const events = log_.events()) {
    events->launch_began(stream, logged.row, log_.name_of(logged.row), now_ns());
  }
  const std::uint32_t tag = launches_.begin(stream, logged.row, issued.accesses);
  if (!ours) {
    keep(launch, issued.accesses, stream);
  }
  issued.tag = tag;
  issued.execution = logged.execution;
  issued.sparse = launch.sparse;
  if (patience_.wants_kinds()) {
    issued.kind = hash_launch(launch.name, {}).first;
  }
  LaunchAdmission admission = engine_.issue_launch(issued);
  if (admission.state == LaunchState::kTooLarge) {
    make_up_room(issued, launch.name);
    launches_.oversized(tag);
    admission = engine_.issue_launch(issued);
  }
  if (admission.state == LaunchState::kTooLarge && !std::exchange(broken_, true)) {
    failures_.fatal({ErrorCode::kDefect, "a launch does not fit what was made up for it"});
  }
  launches_.issued(tag, admission.id);
  recomputing_.offer(withheld);
  // One that has its memory and is not open stands behind another on its stream, and that one's
  // gate is there or its thread waits: it needs none of its own.
  if (!launches_.at(tag).has_memory()) {
    const SharedGate::Launch for_its_gate = for_gate(tag);
    queue_->wake();
    if (!launch.needs_mapping && shares_gate(tag, for_its_gate)) {
      launches_.share_gate(tag, for_its_gate);
    } else {
      put_tickets(lock);
      take_ends();  // which may have left it the room
      if (launch.needs_mapping) {
        wait_for_release(tag, lock);
      } else {
        let_room_come(tag, lock);
        put_gate(tag, for_its_gate, lock);
      }
    }
  }
  launches_.at(tag).in_order = in_order.release();  // by after_launch
  return tag + std::uint64_t{1};
}

// What has its room beside all that is kept is no reason to leave the quiet, as long as the engine
// lets all in that have it.
void DrivenPlatform::use_while_quiet(const Launch& launch) {
  if (!quiet_.on) {
    return;
  }
  if (!patience_.all_fits() || engine_.fit(launch).state != LaunchState::kReady) {
    leave_quiet();
    return;
  }
  for (const Access& access : launch.accesses) {
    if (quiet_memory_.is_unsettled(access.allocation)) {
      quiet_.used.push_back(access.allocation);
    }
  }
}

std::uint64_t DrivenPlatform::number_of(std::uint64_t launch) const {
  const Lock lock(mutex_);
  return launches_.at(tag_of(launch)).number;
}

bool DrivenPlatform::is_gated(std::uint64_t launch) const {
  if (launch == 0 || launch == kUnseen) {
    return false;
  }
  const Lock lock(mutex_);
  return launches_.at(tag_of(launch)).gated;
}

void DrivenPlatform::not_kept(std::uint64_t launch) {
  if (launch == 0 || launch == kUnseen) {
    return;
  }
  const Lock lock(mutex_);
  const std::uint32_t tag = tag_of(launch);
  recomputing_.not_made(launches_.at(tag).stream, launches_.at(tag).number);
}

void DrivenPlatform::let_others_issue(std::uint64_t launch) {
  const Lock lock(mutex_);
  DeviceLaunches::Launch& here = launches_.at(tag_of(launch));
  if (std::mutex* const in_order = std::exchange(here.in_order, nullptr)) {
    in_order->unlock();
  }
}

void DrivenPlatform::after_launch(std::uint64_t launch, bool made) {
  if (launch == 0) {
    return;
  }
  if (launch == kUnseen) {
    end_unseen();
    return;
  }
  // One that was refused ends like any other, when its stream gets there.
  Lock lock(mutex_);
  const std::uint32_t tag = tag_of(launch);
  const StreamId stream = launches_.at(tag).stream;
  std::unique_lock<std::mutex> in_order;
  if (launches_.at(tag).in_order != nullptr) {
    in_order = std::unique_lock(*launches_.at(tag).in_order, std::adopt_lock);
  }
  launches_.made(tag);
  if (!made) {
    recomputing_.not_made(stream, launches_.at(tag).number);
  }
  // Launches that wait behind it on its stream have tickets before their gates.
  const bool others_wait = !launches_.only_unreleased_on(stream) ||
                           launches_.at(tag).number < launches_.stream(stream).issued;
  const bool somebody_waits = others_wait || held_ > 0 || told_no_memory_;
  // Where all fits, ends are of use only to who lacks room, and that one asks for them.
  constexpr std::uint32_t kSeldom = 4;
  const std::uint32_t every = options_.ticket_every * (patience_.all_fits() ? kSeldom : 1);
  if (somebody_waits || launches_.uncovered(stream) >= every) {
    put_ticket(stream, lock);
    if (somebody_waits) {
      queue_->wake();
    } else if (launches_.in_flight() >= 2 * every) {
      take_ends();
    }
  }
  consider_quiet();
}

// A launch that the budget does not hold: the engine is told of more, and what has no room on the
// device is backed by host memory (OrderQueue), until the launch has ended.
void DrivenPlatform::make_up_room(const Launch& launch, std::string_view name) {
  std::vector<BlockId> blocks;
  for_each_block(launch, [&](BlockId id, const Access& /*access*/) { blocks.push_back(id); });
  std::sort(blocks.begin(), blocks.end());
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  Bytes needed_bytes = 0;
  for (const BlockId id : blocks) {
    needed_bytes += bytes_of(id);
  }
  (void)engine_.set_device_capacity(std::max(needed_bytes, engine_.capacity_bytes(Tier::kDevice)));
  if (!std::exchange(told_too_large_, true)) {
    options_.warn(
        fmt::format("a launch of \"{}\" uses {}, more than the device budget of {}: what "
                    "does not fit stays in host memory, which is slow",
                    name, format_bytes(needed_bytes), format_bytes(budget_bytes_)));
  }
}

// The engine's budget is larger than ours for a while: as long as launches need it that it has
// admitted.
void DrivenPlatform::follow_budget() {
  if (launches_.oversized() == 0 && engine_.capacity_bytes(Tier::kDevice) > budget_bytes_) {
    (void)engine_.set_device_capacity(std::max(budget_bytes_, engine_.fit({}).held_bytes));
  }
}

// The driver would make the program wait in a call of its own, with its locks held. Who was held
// goes on when some have ended, not only one: to be woken costs more than a launch.
void DrivenPlatform::hold_back(Lock& lock) {
  constexpr std::uint32_t kGoOnPart = 8;
  // Where something must leave nearly every launch has a gate before it and a ticket behind it, and
  // the driver counts those as well.
  constexpr std::uint32_t kGatedPart = 2;
  // The engine's table of launches holds more.
  const std::uint32_t most = std::min(
      patience_.all_fits() ? options_.launches_ahead : options_.launches_ahead / kGatedPart,
      1U << (kSlotBits - 1));
  if (launches_.in_flight() >= most) {
    const Held held(*this, WorkTimes::What::kHeldAhead);
    wait_until(lock, [&] { return launches_.in_flight() < most - most / kGoOnPart; });
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
// has ended what was issued before in less time than a gate costs.
void DrivenPlatform::let_ends_come(StreamId id, Lock& lock) {
  constexpr std::uint32_t kCloseBehind = 64;
  constexpr TimeNs kLongestNs = 50'000;
  if (launches_.in_flight() <= kCloseBehind) {
    put_ticket(id, lock);
    const std::uint64_t last = launches_.stream(id).ticketed;
    lock.unlock();
    const TimeNs until_ns = now_ns() + kLongestNs;
    while (gates_.run_up_to(id) < last && now_ns() < until_ns) {
    }
    lock.lock();
  }
  take_ends();
}

// Where all fits, a launch that is not open waits for those before it to leave it their room. While
// the device has enough to do the program may wait as well, which costs less than a gate and a
// ticket for each launch. Not for long: others may be between their issue and their making.
void DrivenPlatform::let_room_come(std::uint32_t tag, Lock& lock) {
  constexpr std::uint32_t kFarAhead = 128;
  constexpr TimeNs kLongestNs = 20'000'000;
  if (!patience_.all_fits() || launches_.in_flight() < kFarAhead) {
    return;
  }
  const Held held(*this, WorkTimes::What::kHeldForRoom);
  const TimeNs until_ns = now_ns() + kLongestNs;
  wait_until(lock, [&] {
    return launches_.at(tag).has_memory() || launches_.in_flight() <= kFarAhead / 2 ||
           now_ns() >= until_ns;
  });
}

void DrivenPlatform::wait_until(Lock& lock, const std::function<bool()>& done) {
  ++held_;
  TimeNs sign_ns = now_ns();
  while (!done() && !broken_) {
    put_tickets(lock);
    queue_->wake();
    wait_a_little(lock, sign_ns);
    take_ends();
  }
  --held_;
}

void DrivenPlatform::wait_a_little(Lock& lock, TimeNs& sign_ns) {
  changed_.wait_for(lock, kLookAgain);
  constexpr TimeNs kDoubtAfterNs = 100'000'000;
  sign_ns = std::max(sign_ns, launches_.ended_ns());
  if (now_ns() - sign_ns >= kDoubtAfterNs) {
    ask_whether_alive(lock);
    sign_ns = now_ns();
  }
}

void DrivenPlatform::wait_for_release(std::uint32_t tag, Lock& lock) {
  const Held held(*this, WorkTimes::What::kHeldForCopy);
  // Those before it on its stream have their gates there: it comes behind them in any case.
  TimeNs sign_ns = now_ns();
  while (!launches_.at(tag).has_memory() && !broken_) {
    wait_a_little(lock, sign_ns);
  }
}

SharedGate::Launch DrivenPlatform::for_gate(std::uint32_t tag) const {
  const DeviceLaunches::Launch& launch = launches_.at(tag);
  const DeviceLaunches::Stream& stream = launches_.stream(launch.stream);
  return {.number = launch.number,
          .bytes = bound_bytes_of(launch.accesses, engine_.space()),
          .issues = engine_.stats().launches,
          .operations = stream.operations - stream.tickets_put + stream.orders_others};
}

// Those that share a gate wait for each other, so they should be admitted together: nobody else's
// launch is next in line between them, or has what they lack without a ticket behind it, and
// nothing on their stream is what somebody waits for. Where they are not all the same, see
// let_those_together_go.
bool DrivenPlatform::shares_gate(std::uint32_t tag, const SharedGate::Launch& launch) const {
  const DeviceLaunches::Launch& here = launches_.at(tag);
  const DeviceLaunches::Stream& stream = launches_.stream(here.stream);
  const Bytes budget_bytes = std::min(engine_.capacity_bytes(Tier::kDevice), budget_bytes_);
  const SharedGate::Limits limits{
      .launches = std::min<std::uint64_t>(SharedGate::kMostLaunches, patience_.always_together()),
      .bytes = budget_bytes / options_.shared_gate_part};
  return stream.shared.takes(launch, gates_.opened(here.stream), limits) &&
         launches_.oversized() == 0 && !told_no_memory_ && stream.made + 1 == here.number &&
         launches_.only_unreleased_on(here.stream) && launches_.others_covered(here.stream);
}

// Launches that share a gate, and of which the engine has no room for one before the others have
// ended: what others hold comes free only when these have run (what they use themselves and is dead
// already, or what a kernel or the host does behind them, of which nobody is told), or the budget
// has fallen. The one that is lacking gets room as one that is larger than the budget, once.
void DrivenPlatform::let_those_together_go() {
  constexpr TimeNs kPatienceNs = 250'000'000;
  if (launches_.unreleased() == 0 || engine_.transfers_in_flight() > 0 || !queue_->empty()) {
    return;
  }
  for (StreamId id = 0; id < launches_.streams(); ++id) {
    const std::optional<DeviceLaunches::HoldsUp> lacking = launches_.holds_up(id);
    if (lacking && lacking->time_ns >= kPatienceNs && !launches_.at(lacking->tag).oversized) {
      launches_.oversized(lacking->tag);
      const Bytes needed_bytes =
          bound_bytes_of(launches_.at(lacking->tag).accesses, engine_.space());
      const Bytes taken_bytes =
          std::max(engine_.fit({}).held_bytes, engine_.used_bytes(Tier::kDevice));
      (void)engine_.set_device_capacity(
          std::max(taken_bytes + needed_bytes, engine_.capacity_bytes(Tier::kDevice)));
    }
  }
}

void DrivenPlatform::put_gate(std::uint32_t tag, const SharedGate::Launch& issued, Lock& lock) {
  const DeviceLaunches::Launch& launch = launches_.at(tag);
  do {
    if (!launches_.may_gate(tag, options_.gated_streams)) {
      const Held held(*this, WorkTimes::What::kHeldForGate);
      TimeNs sign_ns = now_ns();
      while (!launch.has_memory() && !launches_.may_gate(tag, options_.gated_streams) && !broken_) {
        wait_a_little(lock, sign_ns);
      }
    }
    // A ticket that another thread is about to put would come behind the gate that waits for it.
    put_tickets(lock);
    if (launch.has_memory() || broken_) {
      return;
    }
    // Others may have gated a stream while the tickets were put.
  } while (!launches_.may_gate(tag, options_.gated_streams));
  launches_.gate(tag);
  const DeviceLaunches::Stream& stream = launches_.stream(launch.stream);
  const CuContext context = stream.context;
  lock.unlock();
  const CuResult result = queue_->times().of(WorkTimes::What::kGated, [&] {
    return in_context(context,
                      [&] { return gates_.put_gate(launch.stream, launch.number, stream.handle); });
  });
  lock.lock();
  if (result != CuResult::kSuccess) {
    stream_failed(launch.stream, context, "cuStreamWaitValue64", result);
    return;
  }
  launches_.stream(launch.stream).shared.put_before(issued);
}

// --- Tickets ------------------------------------------------------------------------------------

// Behind it each stream has all of its tickets, also those that other threads were about to put:
// one that came to its stream behind a gate, or behind a wait for what a gate holds up, would not
// tell of the memory that the gate waits for; one that came there when the stream is captured
// already would be part of the graph.
void DrivenPlatform::put_tickets(Lock& lock) {
  for (StreamId id = 0; id < launches_.streams(); ++id) {
    if (launches_.ticket_due(id) != 0 || launches_.ticket_under_way(id)) {
      put_ticket(id, lock);
    }
  }
}

// In the order of their numbers: the word only grows.
void DrivenPlatform::put_ticket(StreamId id, Lock& lock) {
  DeviceLaunches::Stream& stream = launches_.stream(id);
  lock.unlock();
  const std::scoped_lock in_order(stream.tickets);
  lock.lock();
  const std::uint64_t number = launches_.ticket_due(id);
  if (number == 0) {
    return;
  }
  stream.ticketed = number;
  ++stream.tickets_put;
  order_with_null_stream(id);
  const CuStream handle = stream.handle;
  const CuContext context = stream.context;
  lock.unlock();
  const CuResult result = queue_->times().of(WorkTimes::What::kTicket, [&] {
    return in_context(context, [&] { return gates_.put_ticket(id, number, handle); });
  });
  lock.lock();
  stream.ticket_put = number;
  if (result != CuResult::kSuccess) {
    stream_failed(id, context, "cuStreamWriteValue64", result);
  }
}

// Where nothing ends, a context may have died (a kernel has failed): nothing on it tells of that,
// and the program, whose thread is held here, cannot ask. A question puts nothing on the stream, so
// it neither orders anything nor can come too late; but a stream that is captured must not be
// asked.
void DrivenPlatform::ask_whether_alive(Lock& lock) {
  for (StreamId id = 0; id < launches_.streams(); ++id) {
    ask_whether_alive(id, lock);
  }
  take_ends();
}

void DrivenPlatform::ask_whether_alive(StreamId id, Lock& lock) {
  DeviceLaunches::Stream& stream = launches_.stream(id);
  if (!stream.live || stream.lost) {
    return;
  }
  lock.unlock();
  const std::scoped_lock in_order(stream.tickets);
  lock.lock();
  if (!stream.live || stream.lost || (captures_ != nullptr && *captures_ > 0)) {
    return;
  }
  const CuStream handle = stream.handle;
  const CuContext context = stream.context;
  stream.asked = true;  // who begins to capture it waits for the answer
  lock.unlock();
  const CuResult result = in_context(context, [&] { return driver_.stream_query(handle); });
  lock.lock();
  stream.asked = false;
  if (kernel_has_failed(result)) {
    launches_.lose(context);
  }
}

// The driver thread's. A kernel of the program that fails takes our context with it; the program
// hears of it from the driver, as it would without us. So nobody is told where all that it has is
// lost as well; otherwise it would go on without its memory.
void DrivenPlatform::broken(const std::optional<Error>& untold) {
  Lock lock(mutex_);
  bool all_lost = launches_.streams() > 0;
  for (StreamId id = 0; untold && id < launches_.streams(); ++id) {
    ask_whether_alive(id, lock);
    all_lost &= !launches_.stream(id).live || launches_.stream(id).lost;
  }
  broken_ = true;
  changed_.notify_all();
  if (untold && !all_lost) {
    failures_.fatal(*untold);
  }
}

// On a context that is dead nothing runs any more, and the program hears of it from the driver.
void DrivenPlatform::stream_failed(StreamId id, CuContext context, std::string_view symbol,
                                   CuResult result) {
  if (kernel_has_failed(result)) {
    launches_.lose(context);
    return;
  }
  if (context_is_lost(result)) {
    launches_.lose(id);
    return;
  }
  if (!std::exchange(broken_, true)) {
    failures_.fatal({ErrorCode::kUnsupported, error_text(driver_, symbol, result)});
  }
}

void DrivenPlatform::take_ends() {
  if (launches_.take_ends()) {
    follow_budget();
    if (const Status looked = recomputing_.look(); !looked && !std::exchange(broken_, true)) {
      failures_.fatal(looked.error());
    }
    changed_.notify_all();
  }
}

void DrivenPlatform::before_wait(std::optional<CuStream> /*stream*/) {
  Lock lock(mutex_);
  put_tickets(lock);
}

void DrivenPlatform::after_wait(std::optional<CuStream> /*stream*/) {
  const Lock lock(mutex_);
  take_ends();
}

// --- Streams and events -------------------------------------------------------------------------

std::optional<StreamId> DrivenPlatform::known_stream(CuStream stream) const {
  CuContext context = nullptr;
  if (stream == nullptr) {
    (void)driver_.context_get_current(&context);
  }
  return launches_.find(stream, context);
}

StreamId DrivenPlatform::stream_of(CuStream stream, Lock& lock) {
  if (const std::optional<StreamId> known = known_stream(stream)) {
    return *known;
  }
  lock.unlock();
  CuContext context = nullptr;
  unsigned flags = kCuStreamNonBlocking;
  (void)driver_.context_get_current(&context);
  if (stream != nullptr) {
    (void)driver_.stream_context(stream, &context);  // not the current one for everybody
  }
  (void)driver_.stream_flags(stream, &flags);
  lock.lock();
  if (const std::optional<StreamId> known = launches_.find(stream, context)) {
    return *known;
  }
  const bool blocking = stream != nullptr && flags == kCuStreamDefault;
  const std::optional<StreamId> added = launches_.add_stream(stream, context, blocking);
  if (!added && !std::exchange(broken_, true)) {
    failures_.fatal(
        {ErrorCode::kUnsupported, fmt::format("more than {} streams at once", Gates::kStreams)});
  }
  return added.value_or(0);
}

// A context's null stream waits for all blocking streams of its context, and they for it: that is
// what the device does with whatever is about to be put on one of them.
void DrivenPlatform::order_with_null_stream(StreamId id) {
  ++launches_.stream(id).operations;
  const std::optional<StreamId> null_id = launches_.find(nullptr, launches_.stream(id).context);
  if (!null_id) {
    return;
  }
  DeviceLaunches::Stream& null_stream = launches_.stream(*null_id);
  const auto wait = [this](StreamId who, StreamId whom) {
    const SignalId signal = engine_.create_signal();
    ++launches_.stream(whom).orders_others;
    engine_.record_signal(signal, whom);
    engine_.wait_for_signal(signal, who);
  };
  DeviceLaunches::Stream& mine = launches_.stream(id);
  if (id != *null_id) {
    if (mine.blocking && mine.null_waited < null_stream.operations) {
      mine.null_waited = null_stream.operations;
      wait(id, *null_id);
    }
    return;
  }
  for (StreamId other = 0; other < launches_.streams(); ++other) {
    DeviceLaunches::Stream& stream = launches_.stream(other);
    if (stream.live && stream.blocking && stream.context == null_stream.context &&
        stream.waited_by_null < stream.operations) {
      stream.waited_by_null = stream.operations;
      wait(id, other);
    }
  }
}

// Of a stream on which nothing of ours has been: whether what is put on it now waits for one on
// which something has, as the null stream for blocking streams, and they for it.
bool DrivenPlatform::comes_behind_others(CuStream stream, Lock& lock) const {
  if (stream == nullptr) {
    return launches_.streams() > 0;
  }
  if (!known_stream(nullptr)) {
    return false;
  }
  lock.unlock();
  unsigned flags = kCuStreamNonBlocking;
  (void)driver_.stream_flags(stream, &flags);
  lock.lock();
  return flags == kCuStreamDefault;
}

// While it is quiet everything before it and after it is admitted: nobody need hear of an order.
void DrivenPlatform::recorded(CuEvent event, CuStream stream) {
  if (calls_.is_open()) {
    return;
  }
  Lock lock(mutex_);
  std::optional<StreamId> id = known_stream(canonical(stream));
  if (!id && comes_behind_others(canonical(stream), lock)) {
    id = stream_of(canonical(stream), lock);
  }
  if (!id && !events_.contains(event)) {
    return;  // nothing of ours has come before
  }
  Recordings& recordings = events_[event];
  recordings.before = std::exchange(recordings.last, std::nullopt);
  if (!id) {
    return;
  }
  order_with_null_stream(*id);
  recordings.last = engine_.create_signal();
  engine_.record_signal(*recordings.last, *id);
}

void DrivenPlatform::not_recorded(CuEvent event) {
  if (calls_.is_open()) {
    return;
  }
  const Lock lock(mutex_);
  if (const auto found = events_.find(event); found != events_.end()) {
    found->second.last = found->second.before;
  }
}

void DrivenPlatform::waits_for(CuEvent event, CuStream stream) {
  if (calls_.is_open()) {
    return;
  }
  Lock lock(mutex_);
  const auto recording = events_.find(event);
  const std::optional<SignalId> last =
      recording == events_.end() ? std::nullopt : recording->second.last;
  if (!last) {
    return;
  }
  const SignalId signal = *last;
  const StreamId id = stream_of(canonical(stream), lock);
  order_with_null_stream(id);
  engine_.wait_for_signal(signal, id);
}

// Events' handles are addresses of structures: none is odd.
CuEvent DrivenPlatform::value_event(CuAddress word) {
  return reinterpret_cast<CuEvent>(word | 1U);  // NOLINT(performance-no-int-to-ptr)
}

void DrivenPlatform::wrote_value(CuAddress word, CuStream stream) {
  recorded(value_event(word), stream);
}

void DrivenPlatform::waits_for_value(CuAddress word, CuStream stream) {
  waits_for(value_event(word), stream);
}

// Its streams' handles, and its own, may come again.
void DrivenPlatform::context_ended(CuContext context) {
  const Lock lock(mutex_);
  leave_quiet();
  launches_.lose(context);
  for (StreamId id = 0; id < launches_.streams(); ++id) {
    const DeviceLaunches::Stream& stream = launches_.stream(id);
    if (stream.live && stream.context == context) {
      recomputing_.end(id);  // with the memory of the context
      launches_.forget(id);
    }
  }
  take_ends();
}

bool DrivenPlatform::is_busy(CuContext context) const {
  const Lock lock(mutex_);
  return launches_.any_of(context) ||
         std::any_of(quiet_.streams.begin(), quiet_.streams.end(),
                     [&](StreamId id) { return launches_.context_of(id) == context; });
}

void DrivenPlatform::destroyed(CuStream stream) {
  Lock lock(mutex_);
  if (const std::optional<StreamId> id = known_stream(canonical(stream))) {
    if (std::find(quiet_.streams.begin(), quiet_.streams.end(), *id) != quiet_.streams.end()) {
      leave_quiet();
    }
    remake_all(*id, lock);
    put_ticket(*id, lock);
    launches_.forget(*id);
  }
}

}  // namespace spillway::cuda
