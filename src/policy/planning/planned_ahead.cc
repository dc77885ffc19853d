// See planned_ahead.h.
#include "policy/planning/planned_ahead.h"

namespace spillway {
namespace {

constexpr LaunchSeq kNextLaunches = 8;

}  // namespace

void PlannedAhead::follow(std::unique_ptr<Planned> planned) {
  planned_ = std::move(planned);
  expected_ = 0;
  strayed_ = true;
}

void PlannedAhead::look_ahead(const Launch& launch, Control& control) {
  if (strayed_) {
    ahead_.advance(control);
  } else {
    next_launches_.advance(launch.seq + kNextLaunches, control);
  }
}

void PlannedAhead::on_issue(const Launch& launch, Control& control) {
  ahead_.issued(launch, control);
  if (strayed_) {
    ahead_.advance(control);
  }
}

void PlannedAhead::on_launch(const Launch& launch, Control& control) {
  if (planned_ != nullptr) {
    const std::size_t count = planned_->plan().before.size();
    strayed_ = launch.position != expected_;
    expected_ = launch.position < count ? (launch.position + std::size_t{1}) % count : expected_;
    planned_->on_launch(launch, control);
  }
  ahead_.admitted(launch, control);
  look_ahead(launch, control);
}

void PlannedAhead::on_launch_end(const Launch& launch, Control& control) {
  if (planned_ != nullptr) {
    planned_->on_launch_end(launch, control);
  }
  ahead_.ended(launch, control);
  look_ahead(launch, control);
}

void PlannedAhead::on_update(UpdateStage stage, const Launch& launch, Control& control) {
  if (planned_ != nullptr) {
    planned_->on_update(stage, launch, control);
  }
  if (stage == UpdateStage::kEnded) {
    ahead_.updated(launch, control);
    next_launches_.updated(launch, control);
  }
}

std::optional<BlockId> PlannedAhead::select_victim(Cause cause, BlockId incoming,
                                                   const Control& control) {
  const std::optional<BlockId> victim = strayed_
                                            ? ahead_.victim(cause, incoming, control)
                                            : planned_->select_victim(cause, incoming, control);
  if (victim) {
    ahead_.leaves(*victim, control);
    next_launches_.leaves(*victim, control);
  }
  return victim;
}

}  // namespace spillway
