// The chain of prefetches that a fault starts: through the current kernel's blocks, then through
// those of the kernels predicted to follow (DeepUM section 4.2, "Prefetching mechanisms and
// chaining"). Layer: policy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "policy/correlation/block_table.h"
#include "policy/prediction/predicted_launches.h"

namespace spillway {

struct PrefetchCommand {
  BlockId block = kNoBlock;
  ExecutionId for_execution = kNoExecution;  // the kernel that is expected to touch it
  std::uint32_t distance = 0;                // how many launches after the current one that is
  friend bool operator==(const PrefetchCommand&, const PrefetchCommand&) = default;
};

// Within a kernel the successors are followed breadth-first, most recent first, each block at most
// once. The kernel's part ends with the end block: its successors are not followed, and since it is
// the tail that every new fault was linked to, nothing is left when it is met, unless the table has
// branches; then the blocks queued beside the end block are followed to their ends too, because
// stopping there would lose the blocks behind a shortcut that an execution with few faults has
// recorded. An entry that was replaced ends its branch. The next part starts at the start block of
// the next predicted kernel; a kernel that has none is passed over.
//
// The chain ends where no next kernel can be predicted, and waits for a fault. It pauses behind the
// degree-th kernel, and goes on when the current one finishes. Where the paper is silent: if
// another kernel is launched than was predicted, or the program overtakes the chain, then the chain
// goes on from the start block of the kernel that was launched.
//
// A step takes constant time, amortised, and no memory once the longest part and the highest block
// have been seen. References the tables, and `launches`, which must have been advanced before
// advance() and restart(). Not safe for concurrent use.
class PrefetchChain {
 public:
  PrefetchChain(const PredictedLaunches& launches, const BlockTables& tables)
      : launches_(launches), tables_(tables), reach_(launches.degree()) {}

  // From the next advance or restart on it pauses behind this kernel; at most the degree, which it
  // is in the beginning.
  void set_reach(std::uint32_t reach) { reach_ = reach; }
  // `faulted_block` has faulted in the current kernel: forget the running chain and begin a new one
  // behind it. The block itself is not prefetched.
  void restart(BlockId faulted_block);
  // A kernel has been launched; `as_predicted` is what PredictedLaunches::advance returned.
  void advance(bool as_predicted);
  // The next block to prefetch; nullopt while the chain has ended or pauses. Whether a block is
  // resident is for the caller to know.
  std::optional<PrefetchCommand> next();

 private:
  // Starts the part of the kernel at `distance`; fails if that kernel could not be predicted.
  bool begin_part(std::uint32_t distance);
  void enqueue(BlockId block);
  // Follows the next block in the queue. False if none is left.
  bool follow();

  const PredictedLaunches& launches_;
  const BlockTables& tables_;
  std::uint32_t reach_;

  bool running_ = false;
  std::uint32_t distance_ = 0;         // of the kernel whose part this is
  const BlockTable* table_ = nullptr;  // of that kernel; nullptr if it has none
  // The blocks of this part in the order of their discovery.
  std::vector<BlockId> queue_;
  std::size_t given_out_ = 0;  // how many of them next() has returned, or need not
  std::size_t followed_ = 0;   // how many of them have had their successors added
  // By block: the part that has it in its queue. Parts are numbered, so nothing is ever cleared.
  std::vector<std::uint64_t> seen_in_part_;
  std::uint64_t part_ = 0;
};

}  // namespace spillway
