// See queue_window.h.
#include "policy/prediction/queue_window.h"

#include "engine/launches/pending_uses.h"
#include "engine/memory/for_each_block.h"
#include "engine/memory/space.h"

namespace spillway {

void QueueWindow::add(const Launch& launch, const Control& control) {
  for_each_block(launch, [&](BlockId id, const Access& /*access*/) {
    if (id >= blocks_.size()) {
      blocks_.resize(control.space().block_slots());
    }
    Named& named = blocks_[id];
    if (named.launches++ == 0 || named.dies) {
      const Block& block = control.space().block(id);
      named.bytes = static_cast<std::uint32_t>(device_bytes(block));
      const std::int64_t bytes = named.bytes;
      live_bytes_ += bytes;
      // What dies before this launch is in use from here on only.
      contents_bytes_ += block.contents == Contents::kLive && !named.dies ? bytes : 0;
      named.dies = false;
    }
  });
  const std::int64_t here = live_bytes_ - contents_bytes_;
  while (!peaks_.empty() && peaks_.back().second <= here) {
    peaks_.pop_back();
  }
  peaks_.emplace_back(launch.seq, here);
  for_each_block(launch, [&](BlockId id, const Access& /*access*/) {
    Named& named = blocks_[id];
    if (!named.dies && control.dies_after(id, launch.id)) {
      named.dies = true;
      live_bytes_ -= named.bytes;
    }
  });
}

// One that the window had not come to is within it from now on.
void QueueWindow::admitted(const Launch& launch, const Control& control) {
  if (launch.seq > end_) {
    add(launch, control);
  }
  const Launch* const first = control.pending_uses().next_issued(kNoLaunch);
  if (first == nullptr || first->seq > end_) {
    end_ = first == nullptr ? launch.seq : first->seq - 1;
  }
}

void QueueWindow::ended(const Launch& launch) {
  for_each_block(launch, [&](BlockId id, const Access& /*access*/) {
    Named& block = blocks_[id];
    if (--block.launches > 0) {
      return;
    }
    // What dies here has been taken off every later launch when this one came into the window.
    gone_bytes_ += block.dies ? 0 : block.bytes;
    block.dies = false;
  });
  while (!peaks_.empty() && peaks_.front().first <= launch.seq) {
    peaks_.pop_front();
  }
}

// A little less than the device, for what was not foreseen.
void QueueWindow::extend(const Control& control) {
  const auto room_bytes = static_cast<std::int64_t>(control.capacity_bytes(Tier::kDevice) / 8 * 7);
  const PendingUses& uses = control.pending_uses();
  const Launch* launch = uses.next_issued(last_);
  while (launch != nullptr && launch->seq <= end_) {
    launch = uses.next_issued(launch->id);
  }
  while (launch != nullptr && peak_bytes() < room_bytes) {
    add(*launch, control);
    end_ = launch->seq;
    last_ = launch->id;
    launch = uses.next_issued(launch->id);
  }
}

}  // namespace spillway
