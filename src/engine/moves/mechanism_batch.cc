// See mechanism_batch.h.
#include "engine/moves/mechanism_batch.h"

namespace spillway {

void MechanismBatch::gather(BlockId id, Stage stage, std::uint8_t in_the_way) {
  if ((space_->block(id).gathered & in_the_way) != 0) {
    flush();
  }
  Block& block = space_->block(id);
  block.gathered = static_cast<std::uint8_t>(block.gathered | stage);
  gathered_ = static_cast<std::uint8_t>(gathered_ | stage);
}

void MechanismBatch::unmap(BlockId id) {
  gather(id, kUnmap, kUnmap | kDrop | kZero | kMap);
  unmaps_.push_back(id);
}

// A block may lose frames in several tiers at once.
void MechanismBatch::drop(BlockId id, Tier tier) {
  gather(id, kDrop, kZero | kMap);
  drops_[index_of(tier)].push_back(id);
}

void MechanismBatch::zero(BlockId id) {
  gather(id, kZero, kZero | kMap);
  zeros_.push_back(id);
}

void MechanismBatch::map(BlockId id, bool writable) {
  gather(id, kMap, kMap);
  maps_[writable ? 1 : 0].push_back(id);
}

void MechanismBatch::take(std::vector<BlockId>& blocks) {
  for (const BlockId id : blocks) {
    space_->block(id).gathered = 0;
  }
  blocks.clear();
}

void MechanismBatch::flush() {
  if (gathered_ == 0) {
    return;
  }
  gathered_ = 0;
  if (!unmaps_.empty()) {
    mechanism_->unmap(unmaps_);
    take(unmaps_);
  }
  for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kStorage}) {
    if (std::vector<BlockId>& drops = drops_[index_of(tier)]; !drops.empty()) {
      mechanism_->drop(drops, tier);
      take(drops);
    }
  }
  if (!zeros_.empty()) {
    mechanism_->zero(zeros_);
    take(zeros_);
  }
  for (const bool writable : {false, true}) {
    if (std::vector<BlockId>& maps = maps_[writable ? 1 : 0]; !maps.empty()) {
      mechanism_->map(maps, writable);
      take(maps);
    }
  }
}

}  // namespace spillway
