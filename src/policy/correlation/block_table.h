// Which block is touched after which within one kernel: DeepUM's UM block correlation tables
// (section 4.2, figure 7). Layer: policy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"

namespace spillway {

// The parameters of table 6; the defaults are its configuration 9, the best one of section 6.3.
// All are at least 1.
struct BlockTableShape {
  std::uint32_t num_rows = 2048;
  std::uint32_t assoc = 2;
  std::uint32_t num_succs = 4;
};

// One kernel's table: num_rows x assoc entries, each a block with its successors, most recently
// recorded first. A block belongs to row block % num_rows, so that a tensor's consecutive blocks
// never compete with each other; in a full row the least recently recorded entry is replaced. Rows
// take memory in groups of 16, from the first record in them: a network has thousands of tables and
// most kernels touch few blocks.
//
// Start and end. In the paper `start` is the first and `end` the last block that faulted between
// two execution transitions, and `end` is also "the last UM block prefetched". The two readings
// agree while every block faults. Once prefetching works, a kernel has one fault or none, and
// setting both from that fault would throw the learned chain away. So prefetched blocks count as
// what they are, faults that did not happen: `start` stays what it was when the kernel was first
// seen, and a block that faults although it is not in the table was touched after the last block
// prefetched, which is `end`: it becomes a successor of `end`, and the new `end`. The chain from
// `start` thus reaches every block that ever faulted, as long as no entry is replaced; a replaced
// one cuts the chain, at the price of a fault that takes it up again behind the cut.
//
// Not safe for concurrent use.
class BlockTable {
 public:
  explicit BlockTable(BlockTableShape shape = {}) : shape_(shape) {}

  // A fault on `block`; `previous` is the last block that faulted in the same execution of the
  // kernel, kNoBlock if this is the first.
  void fault(BlockId previous, BlockId block);

  // Makes `block` the most recent successor of `previous`, and both present. If the two share a row
  // of assoc 1, `previous` and its successors are lost.
  void record(BlockId previous, BlockId block);

  // Most recently recorded first, empty for a block that is not present. Valid until the next
  // change.
  [[nodiscard]] std::span<const BlockId> successors(BlockId block) const;
  [[nodiscard]] bool contains(BlockId block) const { return find(block) != nullptr; }

  // kNoBlock before the first fault. `start` also is kNoBlock once its entry has been replaced,
  // until the first fault of a later execution.
  [[nodiscard]] BlockId start() const { return start_; }
  [[nodiscard]] BlockId end() const { return end_; }

  // Calls visit(BlockId) for every block present, in no order that means anything.
  template <typename Visit>
  void for_each_block(Visit visit) const {
    for (std::size_t at = 0; at < words_.size(); at += entry_words()) {
      if (words_[at] != kNoBlock) visit(words_[at]);
    }
  }

  // Heap memory in use.
  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  // An entry is the block and then num_succs successors; what is unused is kNoBlock. A row's
  // entries stand most recently recorded first.
  [[nodiscard]] std::size_t entry_words() const { return std::size_t{1} + shape_.num_succs; }
  [[nodiscard]] std::size_t row_words() const { return entry_words() * shape_.assoc; }
  [[nodiscard]] const BlockId* find_row(BlockId block) const;
  [[nodiscard]] const BlockId* find(BlockId block) const;
  // Moves the block's entry to the front of its row, replacing the last one if it has none.
  BlockId* touch(BlockId block);

  BlockTableShape shape_;
  BlockId start_ = kNoBlock;
  BlockId end_ = kNoBlock;
  std::vector<std::uint32_t> groups_;  // by group of rows: its place in words_, in groups
  std::vector<BlockId> words_;
};

// The tables of all kernels, by execution id.
class BlockTables {
 public:
  explicit BlockTables(BlockTableShape shape = {}) : shape_(shape) {}

  // Makes the table on first use. The reference stays valid.
  BlockTable& of(ExecutionId execution);
  [[nodiscard]] const BlockTableShape& shape() const { return shape_; }
  // nullptr if the kernel has never faulted.
  [[nodiscard]] const BlockTable* find(ExecutionId execution) const;
  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  BlockTableShape shape_;
  std::vector<std::unique_ptr<BlockTable>> tables_;
};

}  // namespace spillway
