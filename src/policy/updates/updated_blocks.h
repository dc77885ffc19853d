// Blocks that are wanted at the host, where updates use them (Launch::runs_at): what a policy has
// learnt of their uses on the device before is no reason to fetch them there. Layer: policy.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/policy.h"

namespace spillway {

class UpdatedBlocks {
 public:
  // Policy::on_update.
  void hear(UpdateStage stage, const Launch& update);
  // A launch on the device uses the block, as far as that is seen.
  void used(BlockId block);
  void used_by(const Launch& launch);
  // An update that has been issued will use the block at the host; or updates alone have used it of
  // late. A parameter is used by launches between two updates, which not every platform sees each
  // time: once that has been seen, it takes several updates without.
  [[nodiscard]] bool wanted_at_host(BlockId block) const {
    return block < blocks_.size() &&
           (blocks_[block].under_way > 0 || blocks_[block].updates >= blocks_[block].enough);
  }

 private:
  struct Uses {
    std::uint32_t under_way = 0;  // updates that have been issued and have not ended
    std::uint8_t updates = 0;     // since a launch has used it
    std::uint8_t enough = 1;
  };
  static constexpr std::uint8_t kEnoughOfAParameter = 8;

  std::vector<Uses> blocks_;
};

}  // namespace spillway
