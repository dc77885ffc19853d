// See patience.h.
#include "platform/cuda/patience.h"

#include <algorithm>

#include "engine/claims.h"
#include "engine/for_each_block.h"
#include "engine/page_queues.h"
#include "engine/space.h"

namespace spillway::cuda {
namespace {

// Whether the launch's blocks have frames, or find some whose loss costs nothing.
bool finds_room(const Launch& launch, const Control& control) {
  Bytes needed_bytes = 0;
  for_each_block(launch, [&](BlockId id, const Access& /*access*/) {
    const Block& block = control.space().block(id);
    const bool taken_back =
        block.queue == PageQueue::kUnused || block.queue == PageQueue::kDiscarded;
    needed_bytes += !block.frames.has(Tier::kDevice) || taken_back ? block.bytes : 0;
  });
  return needed_bytes == 0 || needed_bytes <= control.free_bytes(Tier::kDevice) +
                                                  control.queues().bytes(PageQueue::kUnused) +
                                                  control.queues().bytes(PageQueue::kDiscarded);
}

}  // namespace

void Patience::on_issue(const Launch& launch, Control& control) {
  control_ = &control;
  issuing_ = &launch;
  issuing_id_ = launch.id;
  policy_.on_issue(launch, control);
}

LaunchWindow Patience::window() const {
  LaunchWindow window = policy_.window();
  if (ended_ || control_ == nullptr) {
    return window;
  }
  const Launch* next = control_->claims().next_issued(kNoLaunch);
  next = next == nullptr ? issuing_ : next;
  if (next != nullptr && !finds_room(*next, *control_)) {
    window.bytes = 0;  // alone
  }
  return window;
}

}  // namespace spillway::cuda
