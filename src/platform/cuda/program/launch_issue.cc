// A launch from before its call to after it. See launch_issue.h; where its thread waits and how it
// is held back are admission_waits.cc's, completion markers completion_markers.cc's.
#include "platform/cuda/program/launch_issue.h"

#include <algorithm>
#include <utility>

#include "platform/common/process/clock.h"
#include "platform/common/process/current_module.h"
#include "platform/cuda/platform_parts.h"
#include "platform/cuda/platform_state.h"

namespace spillway::cuda {
namespace {

// What before_launch gives for a call of which the engine is not told.
constexpr std::uint64_t kBypassed = ~std::uint64_t{0};

// Of what before_launch has given.
std::uint32_t tag_of(std::uint64_t launch) { return static_cast<std::uint32_t>(launch - 1); }

}  // namespace

std::uint64_t LaunchIssue::before_launch(const CudaLaunch& launch) {
  return issue(launch, kNoAllocation);
}

std::uint64_t LaunchIssue::issue_step(const CudaLaunch& launch, AllocationId step_of) {
  return issue(launch, step_of);
}

std::uint64_t LaunchIssue::issue(const CudaLaunch& launch, AllocationId step_of) {
  const Lock lock(state_);
  if (step_of == kNoAllocation) {
    parts_.waits.hold_back();
  }
  if (launch.completes != 0) {
    state_.recomputing.spoiled(state_.memory->number_of(launch.completes));
  }
  Issuing issuing{.launch = launch,
                  .step_of = step_of,
                  .stream = parts_.streams.stream_of(canonical(launch.stream))};
  issuing.in_order = std::unique_lock(state_.order.mutex_of(issuing.stream), std::defer_lock);
  if (const std::optional<std::uint64_t> untracked = make_ready(issuing)) {
    return *untracked;
  }
  const std::uint32_t tag = tell_engine(issuing);
  if (!state_.launches.at(tag).has_memory()) {
    hold_for_memory(launch, tag);
  }
  state_.launches.at(tag).in_order = issuing.in_order.release();  // by after_launch
  return tag + std::uint64_t{1};
}

// --- Before its issue ---------------------------------------------------------------------------

// Until nothing need be done before it, and no other thread may issue to its stream. Then the lock
// is held until the engine has the launch. For a launch that need not be tracked: what
// before_launch returns.
std::optional<std::uint64_t> LaunchIssue::make_ready(Issuing& issuing) {
  bool ends_have_come = false;
  TimeNs sign_ns = 0;
  while (true) {
    state_.without_lock([&] { issuing.in_order.lock(); });
    look_up(issuing);
    if (uses_nothing(issuing) || state_.broken) {
      return 0;
    }
    if (CallBypass::may_bypass_on(issuing.launch.stream) &&
        state_.bypass.may_bypass(issuing.accesses)) {
      bypass(issuing);
      return kBypassed;
    }
    if (state_.governor.all_fits() && parts_.waits.lacks_room(issuing.accesses) &&
        !std::exchange(ends_have_come, true)) {
      state_.bypass.leave();
      parts_.waits.let_ends_come(issuing.stream);
      look_up(issuing);
    }
    const std::optional<Recomputing::Step> step = step_before(issuing);
    const bool marker_wanted = wants_marker(issuing);
    if (!step && !marker_wanted) {
      return std::nullopt;
    }
    issuing.in_order.unlock();  // it is a launch, too, or another thread's
    if (step) {
      parts_.recompute.carry_out(*step, sign_ns);
    } else {
      parts_.markers.put_marker(issuing.stream);
    }
  }
}

void LaunchIssue::look_up(Issuing& issuing) {
  issuing.accesses = state_.memory->accesses_of(issuing.launch.operands);
  if (issuing.launch.exposes && !issuing.accesses.empty()) {
    has_exposed_ = true;
  }
}

bool LaunchIssue::uses_nothing(const Issuing& issuing) const {
  return issuing.accesses.empty() && !(issuing.launch.reaches && has_exposed_);
}

void LaunchIssue::bypass(const Issuing& issuing) {
  state_.bypass.note_call(canonical(issuing.launch.stream), issuing.stream);
  for (const Access& access : issuing.accesses) {
    if (issuing.launch.exposes && access.mode == AccessMode::kExpose) {
      expose(access.allocation);
    }
  }
  if (state_.bypass.order_is_due()) {
    parts_.bypass.order_what_nobody_uses();
  }
}

std::optional<Recomputing::Step> LaunchIssue::step_before(Issuing& issuing) const {
  const bool reaches = issuing.launch.reaches && !state_.recomputing.empty();
  issuing.with_reached =
      reaches ? state_.recomputing.with_reached(issuing.accesses) : std::vector<Access>();
  return state_.recomputing.before_launch(reaches ? issuing.with_reached : issuing.accesses,
                                          issuing.stream, issuing.step_of);
}

// One that starts early must not do so before what has been made again is there.
bool LaunchIssue::wants_marker(const Issuing& issuing) const {
  return issuing.launch.starts_early &&
         state_.recomputing.last_remake(issuing.accesses, issuing.stream) >
             state_.launches.stream(issuing.stream).marker_put;
}

// --- Its issue ----------------------------------------------------------------------------------

// Gives its tag.
std::uint32_t LaunchIssue::tell_engine(Issuing& issuing) {
  const CudaLaunch& launch = issuing.launch;
  parts_.allocations.newest_stays_if_among(issuing.accesses);
  Launch issued;
  issued.stream = issuing.stream;
  issued.accesses = std::move(issuing.accesses);
  const std::span<const Access> changes =
      issuing.with_reached.empty() ? issued.accesses : issuing.with_reached;
  use_in_bypass(issued);
  // Nor does the engine, told of streams, of more room or of others, give up what it names.
  const std::vector<AllocationId> withheld = state_.recomputing.withhold(changes);
  state_.order.put_on(issuing.stream);
  const LaunchLog::Launched logged =
      state_.log.launched(launch.hash, launch.name, current_module());
  if (EventLog* const events = state_.log.events()) {
    events->launch_began(issuing.stream, logged.row, state_.log.name_of(logged.row), now_ns());
  }
  issued.tag = state_.launches.begin(issuing.stream, logged.row, issued.accesses);
  if (issuing.step_of == kNoAllocation) {
    parts_.updates.under_way().used(issued.accesses);
    parts_.recompute.keep(launch, changes, issuing.stream);
  }
  issued.execution = logged.execution;
  issued.sparse = launch.sparse;
  issued.reaches = launch.reaches;
  if (state_.governor.wants_kinds()) {
    issued.kind = launch.kind != 0 ? launch.kind : hash_launch(launch.name, {}).first;
  }
  const auto tag = static_cast<std::uint32_t>(issued.tag);
  state_.launches.issued(tag, issue_to_engine(issued, launch.name));
  state_.recomputing.offer(withheld);
  return tag;
}

LaunchId LaunchIssue::issue_to_engine(const Launch& issued, std::string_view name) {
  LaunchAdmission admission = state_.engine.issue_launch(issued);
  if (admission.state == LaunchState::kTooLarge) {
    parts_.waits.make_up_room(issued, name);
    state_.launches.oversized(static_cast<std::uint32_t>(issued.tag));
    admission = state_.engine.issue_launch(issued);
  }
  if (admission.state == LaunchState::kTooLarge) {
    state_.fail({ErrorCode::kDefect, "a launch does not fit what was made up for it"});
  }
  return admission.id;
}

// One that has its memory and is not open stands behind another on its stream, and that one's
// stream wait is there or its thread waits: it needs none of its own.
void LaunchIssue::hold_for_memory(const CudaLaunch& launch, std::uint32_t tag) {
  const SharedWait::Launch for_its_wait = parts_.waits.for_shared_wait(tag);
  state_.queue->wake();
  if (!launch.needs_mapping && parts_.waits.shares_wait(tag, for_its_wait)) {
    state_.launches.share_wait(tag, for_its_wait);
    return;
  }
  parts_.markers.put_markers();
  parts_.markers.take_ends();  // which may have left it the room
  if (launch.needs_mapping) {
    parts_.waits.wait_for_release(tag);
  } else {
    parts_.waits.let_room_come(tag);
    parts_.waits.put_wait(tag, for_its_wait);
  }
}

// What has its room beside all that is kept is no reason to leave bypass mode, as long as the
// engine lets all in that have it.
void LaunchIssue::use_in_bypass(const Launch& launch) {
  if (!state_.bypass.is_on()) {
    return;
  }
  if (!state_.governor.all_fits() || state_.engine.fit(launch).state != LaunchState::kReady) {
    state_.bypass.leave();
    return;
  }
  for (const Access& access : launch.accesses) {
    state_.bypass.used(access.allocation);
  }
}

void LaunchIssue::expose(std::span<const std::uint64_t> addresses) {
  const Lock lock(state_);
  std::uint64_t last = 0;  // many in a row may be the same
  for (const std::uint64_t address : addresses) {
    const AllocationId id = state_.memory->number_of(address);
    if (address != std::exchange(last, address) && state_.engine.space().is_live(id)) {
      expose(id);
    }
  }
}

void LaunchIssue::expose(AllocationId id) {
  has_exposed_ = true;
  state_.recomputing.expose(id);
  state_.engine.expose(id);
}

std::uint64_t LaunchIssue::number_of(std::uint64_t launch) const {
  const Lock lock(state_);
  return state_.launches.at(tag_of(launch)).number;
}

bool LaunchIssue::is_held(std::uint64_t launch) const {
  if (launch == 0 || launch == kBypassed) {
    return false;
  }
  const Lock lock(state_);
  return state_.launches.at(tag_of(launch)).held;
}

void LaunchIssue::not_kept(std::uint64_t launch) {
  if (launch == 0 || launch == kBypassed) {
    return;
  }
  const Lock lock(state_);
  const std::uint32_t tag = tag_of(launch);
  state_.recomputing.not_made(state_.launches.at(tag).stream, state_.launches.at(tag).number);
}

void LaunchIssue::let_others_issue(std::uint64_t launch) {
  const Lock lock(state_);
  DeviceLaunches::Launch& here = state_.launches.at(tag_of(launch));
  if (Mutex* const in_order = std::exchange(here.in_order, nullptr)) {
    const std::unique_lock unlocks_it(*in_order, std::adopt_lock);
  }
}

void LaunchIssue::after_launch(std::uint64_t launch, bool made) {
  if (launch == 0) {
    return;
  }
  if (launch == kBypassed) {
    parts_.bypass.end_bypassed();
    return;
  }
  // One that was refused ends like any other, when its stream gets there.
  const Lock lock(state_);
  const std::uint32_t tag = tag_of(launch);
  const StreamId stream = state_.launches.at(tag).stream;
  std::unique_lock<Mutex> in_order;
  if (state_.launches.at(tag).in_order != nullptr) {
    in_order = std::unique_lock(*state_.launches.at(tag).in_order, std::adopt_lock);
  }
  state_.launches.made(tag);
  if (!made) {
    state_.recomputing.not_made(stream, state_.launches.at(tag).number);
  }
  // Launches that wait behind it on its stream have completion markers before their stream waits.
  const bool others_wait = !state_.launches.only_unreleased_on(stream) ||
                           state_.launches.at(tag).number < state_.launches.stream(stream).issued;
  const bool somebody_waits =
      others_wait || state_.held > 0 || parts_.mechanism.device_is_short() ||
      parts_.updates.update_may_wait_for(stream, state_.launches.at(tag).number);
  // Where all fits, ends are of use only to who lacks room, and that one asks for them.
  constexpr std::uint32_t kSeldom = 4;
  const std::uint32_t every =
      state_.options.marker_every * (state_.governor.all_fits() ? kSeldom : 1);
  if (somebody_waits || state_.launches.uncovered(stream) >= every) {
    parts_.markers.put_marker(stream);
    if (somebody_waits) {
      state_.queue->wake();
    } else if (state_.launches.in_flight() >= 2 * every) {
      parts_.markers.take_ends();
    }
  }
  parts_.bypass.consider_bypass();
}

}  // namespace spillway::cuda
