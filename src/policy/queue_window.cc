// See queue_window.h.
#include "policy/queue_window.h"

#include "engine/claims.h"
#include "engine/for_each_block.h"
#include "engine/space.h"

namespace spillway {

void QueueWindow::add(const Launch& launch, const Control& control) {
  for_each_block(launch, [&](BlockId id, const Access& /*access*/) {
    if (id >= blocks_.size()) {
      blocks_.resize(control.space().block_slots());
    }
    Named& block = blocks_[id];
    if (block.launches++ == 0 || block.dies) {
      staying_bytes_ += control.space().block(id).bytes;
      block.dies = false;
    }
  });
  Bytes passing_bytes = 0;
  for_each_block(launch, [&](BlockId id, const Access& /*access*/) {
    Named& block = blocks_[id];
    if (!block.dies && control.dies_after(id, launch.id)) {
      block.dies = true;
      staying_bytes_ -= control.space().block(id).bytes;
      passing_bytes += control.space().block(id).bytes;
    }
  });
  if (passing_bytes > 0) {
    while (!passing_.empty() && passing_.back().second <= passing_bytes) {
      passing_.pop_back();
    }
    passing_.emplace_back(launch.seq, passing_bytes);
  }
}

// One that the window had not come to is within it from now on.
void QueueWindow::admitted(const Launch& launch, const Control& control) {
  if (launch.seq > end_) {
    add(launch, control);
  }
  const Launch* const first = control.claims().next_issued(kNoLaunch);
  if (first == nullptr || first->seq > end_) {
    end_ = first == nullptr ? launch.seq : first->seq - 1;
  }
}

void QueueWindow::ended(const Launch& launch, const Control& control) {
  for_each_block(launch, [&](BlockId id, const Access& /*access*/) {
    Named& block = blocks_[id];
    if (--block.launches > 0) {
      return;
    }
    staying_bytes_ -= block.dies ? 0 : control.space().block(id).bytes;
    block.dies = false;
  });
  while (!passing_.empty() && passing_.front().first <= launch.seq) {
    passing_.pop_front();
  }
}

// A little less than the device, for what was not foreseen.
void QueueWindow::extend(const Control& control) {
  const Bytes room_bytes = control.capacity_bytes(Tier::kDevice) / 8 * 7;
  const Claims& claims = control.claims();
  const Launch* launch = claims.next_issued(last_);
  while (launch != nullptr && launch->seq <= end_) {
    launch = claims.next_issued(launch->id);
  }
  while (launch != nullptr && staying_bytes_ + passing_bytes_max() < room_bytes) {
    add(*launch, control);
    end_ = launch->seq;
    last_ = launch->id;
    launch = claims.next_issued(launch->id);
  }
}

}  // namespace spillway
