// See learned_plan.h.
#include "policy/planning/learned_plan.h"

#include <algorithm>
#include <utility>

#include "engine/launches/pending_uses.h"
#include "engine/memory/space.h"

namespace spillway {
namespace {

// Iterations are alike if their lengths differ by no more than this part.
constexpr std::uint64_t kAlikePart = 16;
// An iteration strays if more than this part of its launches has no place in the plan.
constexpr std::uint64_t kStrayedPart = 4;

bool alike(std::uint64_t one, std::uint64_t other) {
  return std::max(one, other) - std::min(one, other) <= one / kAlikePart;
}

}  // namespace

// --- Which iteration, and whether its plan still holds -------------------------------------------

// A launch is about to begin one, so what came before is whole.
void LearnedPlan::iteration_begins(const Control& control) {
  const std::uint64_t before = std::exchange(launches_before_, std::exchange(launches_, 0));
  const bool steady = launches_before_ > 0 && alike(launches_before_, before);
  switch (phase_) {
    case Phase::kWaiting:
      // While everything fits there is nothing to plan.
      phase_ = steady && pressed_ ? Phase::kRecording : Phase::kWaiting;
      break;
    case Phase::kRecording:
      if (steady) {
        phase_ = Phase::kEnding;
      } else {
        (void)recorder_.finish();
        phase_ = Phase::kWaiting;
      }
      break;
    case Phase::kEnding:
      break;
    case Phase::kPlanning:
      if (std::optional<Plan> plan = planner_->take()) {
        follow(std::move(*plan), control);
        phase_ = Phase::kFollowing;
      }
      break;
    case Phase::kFollowing:
      watch();
      break;
  }
}

void LearnedPlan::watch() {
  if (!places_) {
    return;
  }
  const LaunchPlaces::Count count = places_->take_count();
  const bool strayed = count.strayed > count.launches / kStrayedPart ||
                       count.launches > places_->size() + places_->size() / 2;
  strayed_in_a_row_ = strayed ? strayed_in_a_row_ + 1 : 0;
  if (strayed_in_a_row_ < may_stray_) {
    return;
  }
  may_stray_ *= 2;
  strayed_in_a_row_ = 0;
  planned_ = nullptr;
  ahead_.follow(nullptr);
  places_.reset();
  iteration_.reset();
  phase_ = Phase::kWaiting;
}

// Frees are the program's to say, and memory for what is born is made ready as the queue shows it.
void LearnedPlan::follow(Plan plan, const Control& control) {
  if (!iteration_) {
    return;
  }
  for (std::vector<PlanAction>& actions : plan.before) {
    std::erase_if(actions, [](const PlanAction& action) {
      return action.step == PlanStep::kAlloc || action.step == PlanStep::kFree;
    });
  }
  const Trace& trace = iteration_->trace;
  auto planned = std::make_unique<Planned>(name_, trace, std::move(plan), overflow_);
  planned_ = planned.get();
  for (TensorId id = 0; id < trace.tensors.size(); ++id) {
    const AllocationId lived_in = iteration_->allocations[id];
    if (trace.tensors[id].persistent && control.space().is_live(lived_in)) {
      planned_->adopt(id, lived_in);
    }
  }
  ahead_.follow(std::move(planned));
  places_.emplace(iteration_->kinds);
  strayed_in_a_row_ = 0;
  ++plans_;
}

// --- Events -------------------------------------------------------------------------------------

void LearnedPlan::on_issue(const Launch& launch, Control& control) {
  const std::uint64_t kind = place_free_kind(launch, control);
  if (finder_.next(kind)) {
    iteration_begins(control);
  }
  ++launches_;
  for (const Access& access : launch.accesses) {
    const bool born = access.allocation < dead_.size() && dead_[access.allocation];
    if (born) {
      dead_[access.allocation] = false;
      if (phase_ == Phase::kRecording) {
        recorder_.died(access.allocation);  // before the iteration, if not in it
      }
    }
  }
  if (phase_ == Phase::kRecording) {
    recorder_.issued(launch, kind, control);
  }
  if (places_) {
    (void)places_->issued(launch.id, kind);
  }
  ahead_.on_issue(launch, control);
}

void LearnedPlan::on_allocate(AllocationId id, Control& /*control*/) { dead(id); }

void LearnedPlan::on_death_said(AllocationId id) { dead(id); }

void LearnedPlan::dead(AllocationId id) {
  if (id >= dead_.size()) {
    dead_.resize(id + std::size_t{1}, false);
  }
  dead_[id] = true;
  if (phase_ == Phase::kRecording) {
    recorder_.died(id);
  }
}

void LearnedPlan::bind(const Launch& launch, std::uint32_t place) {
  if (!iteration_) {
    return;
  }
  const std::vector<TensorId>& operands = iteration_->operands[place];
  for (std::size_t i = 0; i < std::min(operands.size(), launch.accesses.size()); ++i) {
    if (operands[i] != kNoTensor) {
      planned_->adopt(operands[i], launch.accesses[i].allocation);
    }
  }
}

// Without a place it is behind the iteration's end, which no plan expects.
Launch LearnedPlan::placed(const Launch& launch) const {
  Launch here = launch;
  here.position = static_cast<std::uint32_t>(
      places_ ? places_->place_of(launch.id).value_or(places_->size()) : 0);
  return here;
}

void LearnedPlan::on_launch(const Launch& launch, Control& control) {
  if (places_) {
    if (const auto place = places_->place_of(launch.id)) {
      bind(launch, *place);
    }
  }
  ahead_.on_launch(placed(launch), control);
  if (places_) {
    frames_.advance(launch.seq + AheadOfLaunches::kFramesAhead, control);
  }
}

void LearnedPlan::on_launch_end(const Launch& launch, Control& control) {
  recorder_.ended(launch);
  ahead_.on_launch_end(placed(launch), control);
  if (places_) {
    places_->ended(launch.id);
    frames_.advance(launch.seq + AheadOfLaunches::kFramesAhead, control);
  }
  if (phase_ == Phase::kEnding && recorder_.all_ended()) {
    iteration_ = recorder_.finish();
    const bool whole = iteration_ && iteration_->leaves_nothing();
    if (whole) {
      planner_->ask(iteration_->trace);
    }
    phase_ = whole ? Phase::kPlanning : Phase::kWaiting;
  }
}

std::optional<BlockId> LearnedPlan::select_victim(Cause cause, BlockId incoming,
                                                  const Control& control) {
  pressed_ = true;
  const std::optional<BlockId> victim = ahead_.select_victim(cause, incoming, control);
  if (victim) {
    frames_.leaves(*victim, control);
  }
  return victim;
}

Tier LearnedPlan::eviction_tier(BlockId block, const Control& control) {
  return planned_ != nullptr ? planned_->eviction_tier(block, control)
                             : Policy::eviction_tier(block, control);
}

}  // namespace spillway
