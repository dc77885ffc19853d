// See admission_governor.h.
#include "policy/admission_governor.h"

#include <algorithm>

#include "engine/launches/pending_uses.h"
#include "engine/launches/pins.h"
#include "engine/memory/for_each_block.h"
#include "engine/memory/page_queues.h"
#include "engine/memory/space.h"

namespace spillway {
namespace {

// Frames whose loss costs nothing.
Bytes room_bytes(const Control& control) {
  return control.free_bytes(Tier::kDevice) + control.queues().bytes(PageQueue::kUnused) +
         control.queues().bytes(PageQueue::kDiscarded);
}

// Whether the launch's blocks have frames, or find some of those.
bool finds_room(const Launch& launch, const Control& control) {
  Bytes needed_bytes = 0;
  for_each_block(launch, [&](BlockId id, const Access& /*access*/) {
    const Block& block = control.space().block(id);
    const bool taken_back =
        block.queue == PageQueue::kUnused || block.queue == PageQueue::kDiscarded;
    needed_bytes += !block.frames.has(Tier::kDevice) || taken_back ? block.bytes : 0;
  });
  return needed_bytes == 0 || needed_bytes <= room_bytes(control);
}

}  // namespace

void AdmissionGovernor::on_launch(const Launch& launch, Control& control) {
  if (launch.execution == kPlaceholder) {
    return;
  }
  issuing_ = launch.id == issuing_id_ ? nullptr : issuing_;
  admitted_bytes_ += bound_bytes_of(launch.accesses, control.space());
  policy_.on_launch(launch, control);
}

void AdmissionGovernor::on_launch_end(const Launch& launch, Control& control) {
  if (launch.execution == kPlaceholder) {
    return;
  }
  admitted_bytes_ -= bound_bytes_of(launch.accesses, control.space());
  policy_.on_launch_end(launch, control);
}

void AdmissionGovernor::on_issue(const Launch& launch, Control& control) {
  if (launch.execution == kPlaceholder) {
    return;
  }
  control_ = &control;
  issuing_ = &launch;
  issuing_id_ = launch.id;
  largest_bytes_ = std::max(largest_bytes_, bound_bytes_of(launch.accesses, control.space()));
  policy_.on_issue(launch, control);
}

LaunchWindow AdmissionGovernor::window() const {
  if (all_in_) {
    return {};
  }
  LaunchWindow window = policy_.window();
  if (control_ == nullptr) {
    return window;
  }
  if (ended_) {
    // Between the end of a launch and the opening of the next stream wait lies our own thread,
    // which maps and copies: a few kernels are over before it looks. What is admitted cannot make
    // way, so launches of much memory go few at once, as the policy wants it.
    constexpr std::uint32_t kLaunches = 64;
    constexpr Bytes kCapacityPart = 16;
    if (admitted_bytes_ < control_->capacity_bytes(Tier::kDevice) / kCapacityPart) {
      window.launches_per_stream = std::max(window.launches_per_stream, kLaunches);
    }
    return window;
  }
  if (all_fits_) {
    window = {};
  }
  if (room_bytes(*control_) >= largest_bytes_) {
    return window;
  }
  const Launch* next = control_->pending_uses().next_issued(kNoLaunch);
  next = next == nullptr ? issuing_ : next;
  if (next != nullptr && !finds_room(*next, *control_)) {
    window.bytes = 0;  // alone
  }
  return window;
}

// What the policy wants anyway: we want more only as long as little is admitted, which may be
// somebody else's. Before that launches may have to be alone.
std::uint32_t AdmissionGovernor::always_together() const {
  const LaunchWindow window = policy_.window();
  return ended_ && window.bytes == LaunchWindow{}.bytes ? window.launches_per_stream : 1;
}

}  // namespace spillway
