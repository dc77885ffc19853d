// Which blocks must stay because the current kernel or one of the next N is expected to touch them,
// and which one goes instead (DeepUM section 5.1, figure 8). Layer: policy.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "policy/correlation/block_table.h"
#include "policy/prediction/predicted_launches.h"

namespace spillway {

// For each block the number of the last launch that is expected to touch it, so that moving on by a
// launch costs only the blocks of the kernel that comes into sight and of the one that starts. What
// a wrong prediction has marked stays protected until that launch would have been over: for at most
// N launches. References the tables. Not safe for concurrent use.
class ExpectedBlocks {
 public:
  explicit ExpectedBlocks(const BlockTables& tables) : tables_(tables) {}

  // A kernel has been launched; `launches` has been advanced to it.
  void advance(const PredictedLaunches& launches);
  // The current kernel touches a block that its table may not hold yet.
  void touch(BlockId block) { expect(block, launch_); }
  [[nodiscard]] bool expected(BlockId block) const {
    return block < last_launch_.size() && last_launch_[block] >= launch_;
  }

 private:
  void expect(BlockId block, std::uint64_t launch);
  void expect_all(ExecutionId execution, std::uint64_t launch);

  const BlockTables& tables_;
  std::uint64_t launch_ = 1;                // number of the current launch
  std::vector<std::uint64_t> last_launch_;  // by block; 0: never expected
};

}  // namespace spillway
