// See updated_blocks.h.
#include "policy/updates/updated_blocks.h"

#include <algorithm>

#include "engine/memory/for_each_block.h"

namespace spillway {

void UpdatedBlocks::hear(UpdateStage stage, const Launch& update) {
  if (stage == UpdateStage::kAdmitted) {
    return;
  }
  for_each_block(update, [&](BlockId id, const Access& access) {
    if (id >= blocks_.size()) {
      blocks_.resize(std::size_t{id} + 1);
    }
    Uses& uses = blocks_[id];
    if (stage == UpdateStage::kIssued) {
      ++uses.under_way;
      return;
    }
    uses.under_way -= std::min(uses.under_way, 1U);
    if (writes(access.mode)) {
      uses.updates = std::min<std::uint8_t>(uses.updates + 1, kEnoughOfAParameter);
    }
  });
}

void UpdatedBlocks::used(BlockId block) {
  if (block < blocks_.size() && blocks_[block].updates > 0) {
    blocks_[block].updates = 0;
    blocks_[block].enough = kEnoughOfAParameter;
  }
}

void UpdatedBlocks::used_by(const Launch& launch) {
  for_each_block(launch, [&](BlockId id, const Access& /*access*/) { used(id); });
}

}  // namespace spillway
