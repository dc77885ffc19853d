// See launch_table.h.
#include "engine/launches/launch_table.h"

#include "engine/broken.h"

namespace spillway {

std::uint32_t LaunchTable::take(const Launch& launch, Bytes bytes) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(records_.size()));
    records_.emplace_back();
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  Record& record = records_[slot];
  record.launch = launch;
  record.launch.seq = ++last_seq_;
  assert(slot < 1U << kSlotBits);
  record.launch.id = (last_seq_ << kSlotBits) | slot;
  record.stage = LaunchStage::kIssued;
  record.bytes = bytes;
  record.missing = record.unsubmitted = record.faults_open = 0;
  record.waits.clear();
  record.epochs.clear();
  record.place = order_.append(
      slot, [this](std::uint32_t moved, std::uint32_t place) { records_[moved].place = place; });
  order_.set(kLive, record.place, true);
  while (!largest_.empty() && largest_.back().second <= bytes) {
    largest_.pop_back();
  }
  largest_.emplace_back(last_seq_, bytes);
  return slot;
}

void LaunchTable::give_back(std::uint32_t slot) {
  Record& record = records_[slot];
  assert(record.stage == LaunchStage::kReleased && record.missing == 0);
  record.stage = LaunchStage::kNone;
  order_.remove(record.place);
  free_.push_back(slot);
}

// Each stands for those between it and the one before it. So one that has ended may be the largest
// for as long as something older is live.
Bytes LaunchTable::largest_bytes() {
  const std::uint32_t oldest = order_.first(kLive);
  if (oldest == OrderIndex::kNone) {
    largest_.clear();
    return 0;
  }
  while (largest_.front().first < records_[oldest].launch.seq) {
    largest_.pop_front();
  }
  return largest_.front().second;
}

Status LaunchTable::check() const {
  std::size_t live = 0;
  std::uint32_t running = 0;
  for (const Record& record : records_) {
    live += record.stage != LaunchStage::kNone ? 1 : 0;
    running += record.stage == LaunchStage::kReleased && record.missing == 0 ? 1U : 0U;
  }
  if (live != order_.size()) {
    return broken("launches are alive and in no order");
  }
  if (running != running_) {
    return broken("launches that may run were counted wrongly");
  }
  return {};
}

}  // namespace spillway
