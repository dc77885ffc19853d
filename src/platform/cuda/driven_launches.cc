// The program's thread: a launch from before its call to after it. See driven_platform.h; where it
// waits and how it is held back are driven_waits.cc's, completion markers driven_markers.cc's.
#include <algorithm>
#include <utility>

#include "platform/common/process/clock.h"
#include "platform/common/process/current_module.h"
#include "platform/cuda/driven_program_thread.h"

namespace spillway::cuda {
namespace {

// What before_launch gives for a call of which the engine is not told.
constexpr std::uint64_t kBypassed = ~std::uint64_t{0};

// Of what before_launch has given.
std::uint32_t tag_of(std::uint64_t launch) { return static_cast<std::uint32_t>(launch - 1); }

}  // namespace

std::uint64_t DrivenPlatform::before_launch(const CudaLaunch& launch) {
  return issue(launch, kNoAllocation);
}

// `step_of`: one of ours, which stands before a launch of the program (recomputing.h).
std::uint64_t DrivenPlatform::issue(const CudaLaunch& launch, AllocationId step_of) {
  const bool ours = step_of != kNoAllocation;
  Lock lock(mutex_);
  if (!ours) {
    hold_back();
  }
  if (launch.completes != 0) {
    recomputing_.spoiled(memory_->number_of(launch.completes));
  }
  const StreamId stream = stream_of(canonical(launch.stream));
  std::unique_lock in_order(order_.mutex_of(stream), std::defer_lock);
  std::vector<Access> accesses;
  std::vector<Access> with_reached;  // with what it changes and does not name
  bool ends_have_come = false;
  TimeNs sign_ns = 0;
  while (true) {
    lock.unlock();
    in_order.lock();
    lock.lock();
    accesses = memory_->accesses_of(launch.operands);
    if (launch.exposes && !accesses.empty()) {
      has_exposed_ = true;
    }
    if ((accesses.empty() && !(launch.reaches && has_exposed_)) || broken_) {
      return 0;
    }
    if (may_bypass_on(launch.stream) && bypass_.may_bypass(accesses)) {
      bypass_.note_call(canonical(launch.stream), stream);
      for (const Access& access : accesses) {
        if (launch.exposes && access.mode == AccessMode::kExpose) {
          expose(access.allocation);
        }
      }
      if (bypass_.order_is_due()) {
        order_what_nobody_uses();
      }
      return kBypassed;
    }
    if (governor_.all_fits() && lacks_room(accesses) && !std::exchange(ends_have_come, true)) {
      bypass_.leave();
      let_ends_come(stream);
      accesses = memory_->accesses_of(launch.operands);
    }
    // From here on the lock is held until the engine has the launch.
    const bool reaches = launch.reaches && !recomputing_.empty();
    with_reached = reaches ? recomputing_.with_reached(accesses) : std::vector<Access>();
    const std::optional<Recomputing::Step> step =
        recomputing_.before_launch(reaches ? with_reached : accesses, stream, step_of);
    // One that starts early must not do so before what has been made again is there.
    const bool marker_wanted = launch.starts_early && recomputing_.last_remake(accesses, stream) >
                                                          launches_.stream(stream).marker_put;
    if (!step && !marker_wanted) {
      break;
    }
    in_order.unlock();  // it is a launch, too, or another thread's
    if (step) {
      carry_out(*step, sign_ns);
    } else {
      put_marker(stream);
    }
  }
  if (std::any_of(accesses.begin(), accesses.end(),
                  [this](const Access& access) { return memory_->is_newest(access.allocation); })) {
    newest_stays();
  }
  Launch issued;
  issued.stream = stream;
  issued.accesses = std::move(accesses);
  const std::span<const Access> changes = with_reached.empty() ? issued.accesses : with_reached;
  use_in_bypass(issued);
  // Nor does the engine, told of streams, of more room or of others, give up what it names.
  const std::vector<AllocationId> withheld = recomputing_.withhold(changes);
  order_.put_on(stream);
  const LaunchLog::Launched logged = log_.launched(launch.hash, launch.name, current_module());
  if (EventLog* const events = log_.events()) {
    events->launch_began(stream, logged.row, log_.name_of(logged.row), now_ns());
  }
  const std::uint32_t tag = launches_.begin(stream, logged.row, issued.accesses);
  if (!ours) {
    updates_.used(issued.accesses);
    keep(launch, changes, stream);
  }
  issued.tag = tag;
  issued.execution = logged.execution;
  issued.sparse = launch.sparse;
  issued.reaches = launch.reaches;
  if (governor_.wants_kinds()) {
    issued.kind = launch.kind != 0 ? launch.kind : hash_launch(launch.name, {}).first;
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
  // stream wait is there or its thread waits: it needs none of its own.
  if (!launches_.at(tag).has_memory()) {
    const SharedWait::Launch for_its_wait = for_shared_wait(tag);
    queue_->wake();
    if (!launch.needs_mapping && shares_wait(tag, for_its_wait)) {
      launches_.share_wait(tag, for_its_wait);
    } else {
      put_markers();
      take_ends();  // which may have left it the room
      if (launch.needs_mapping) {
        wait_for_release(tag);
      } else {
        let_room_come(tag);
        put_wait(tag, for_its_wait);
      }
    }
  }
  launches_.at(tag).in_order = in_order.release();  // by after_launch
  return tag + std::uint64_t{1};
}

// What has its room beside all that is kept is no reason to leave bypass mode, as long as the
// engine lets all in that have it.
void DrivenPlatform::use_in_bypass(const Launch& launch) {
  if (!bypass_.is_on()) {
    return;
  }
  if (!governor_.all_fits() || engine_.fit(launch).state != LaunchState::kReady) {
    bypass_.leave();
    return;
  }
  for (const Access& access : launch.accesses) {
    bypass_.used(access.allocation);
  }
}

void DrivenPlatform::expose(std::span<const std::uint64_t> addresses) {
  const Lock lock(mutex_);
  std::uint64_t last = 0;  // many in a row may be the same
  for (const std::uint64_t address : addresses) {
    const AllocationId id = memory_->number_of(address);
    if (address != std::exchange(last, address) && engine_.space().is_live(id)) {
      expose(id);
    }
  }
}

void DrivenPlatform::expose(AllocationId id) {
  has_exposed_ = true;
  recomputing_.expose(id);
  engine_.expose(id);
}

std::uint64_t DrivenPlatform::number_of(std::uint64_t launch) const {
  const Lock lock(mutex_);
  return launches_.at(tag_of(launch)).number;
}

bool DrivenPlatform::is_held(std::uint64_t launch) const {
  if (launch == 0 || launch == kBypassed) {
    return false;
  }
  const Lock lock(mutex_);
  return launches_.at(tag_of(launch)).held;
}

void DrivenPlatform::not_kept(std::uint64_t launch) {
  if (launch == 0 || launch == kBypassed) {
    return;
  }
  const Lock lock(mutex_);
  const std::uint32_t tag = tag_of(launch);
  recomputing_.not_made(launches_.at(tag).stream, launches_.at(tag).number);
}

void DrivenPlatform::let_others_issue(std::uint64_t launch) {
  const Lock lock(mutex_);
  DeviceLaunches::Launch& here = launches_.at(tag_of(launch));
  if (Mutex* const in_order = std::exchange(here.in_order, nullptr)) {
    const std::unique_lock until_now(*in_order, std::adopt_lock);
  }
}

void DrivenPlatform::after_launch(std::uint64_t launch, bool made) {
  if (launch == 0) {
    return;
  }
  if (launch == kBypassed) {
    end_bypassed();
    return;
  }
  // One that was refused ends like any other, when its stream gets there.
  Lock lock(mutex_);
  const std::uint32_t tag = tag_of(launch);
  const StreamId stream = launches_.at(tag).stream;
  std::unique_lock<Mutex> in_order;
  if (launches_.at(tag).in_order != nullptr) {
    in_order = std::unique_lock(*launches_.at(tag).in_order, std::adopt_lock);
  }
  launches_.made(tag);
  if (!made) {
    recomputing_.not_made(stream, launches_.at(tag).number);
  }
  // Launches that wait behind it on its stream have completion markers before their stream waits.
  const bool others_wait = !launches_.only_unreleased_on(stream) ||
                           launches_.at(tag).number < launches_.stream(stream).issued;
  const bool somebody_waits = others_wait || held_ > 0 || said_no_memory_ ||
                              update_may_wait_for(stream, launches_.at(tag).number);
  // Where all fits, ends are of use only to who lacks room, and that one asks for them.
  constexpr std::uint32_t kSeldom = 4;
  const std::uint32_t every = options_.marker_every * (governor_.all_fits() ? kSeldom : 1);
  if (somebody_waits || launches_.uncovered(stream) >= every) {
    put_marker(stream);
    if (somebody_waits) {
      queue_->wake();
    } else if (launches_.in_flight() >= 2 * every) {
      take_ends();
    }
  }
  consider_bypass();
}

}  // namespace spillway::cuda
