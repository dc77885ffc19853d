#include "policy/correlation/block_table.h"

#include <algorithm>
#include <limits>

namespace spillway {
namespace {

constexpr std::uint32_t kGroupRows = 16;
constexpr std::uint32_t kNoGroup = std::numeric_limits<std::uint32_t>::max();

}  // namespace

void BlockTable::fault(BlockId previous, BlockId block) {
  if (end_ == kNoBlock) {
    touch(block);
    end_ = block;
  } else if (!contains(block)) {
    record(end_, block);
    end_ = block;
  } else if (previous != kNoBlock) {
    record(previous, block);
  }
  if (start_ == kNoBlock && previous == kNoBlock) start_ = block;
}

void BlockTable::record(BlockId previous, BlockId block) {
  if (previous == block) return;
  BlockId* const successors = touch(previous) + 1;
  // Everything before the block's old place moves one down; a block that is new pushes out the
  // last.
  BlockId* const old_place = std::find(successors, successors + shape_.num_succs - 1, block);
  std::copy_backward(successors, old_place, std::next(old_place));
  *successors = block;
  touch(block);
}

std::span<const BlockId> BlockTable::successors(BlockId block) const {
  const BlockId* const entry = find(block);
  if (entry == nullptr) return {};
  const BlockId* const first = entry + 1;
  const BlockId* const end = first + shape_.num_succs;
  return {first, std::find(first, end, kNoBlock)};
}

std::size_t BlockTable::memory_bytes() const {
  return groups_.capacity() * sizeof(groups_[0]) + words_.capacity() * sizeof(words_[0]);
}

const BlockId* BlockTable::find_row(BlockId block) const {
  if (groups_.empty()) return nullptr;
  const std::uint32_t row = block % shape_.num_rows;
  const std::uint32_t group = groups_[row / kGroupRows];
  if (group == kNoGroup) return nullptr;
  return words_.data() + (std::size_t{group} * kGroupRows + row % kGroupRows) * row_words();
}

const BlockId* BlockTable::find(BlockId block) const {
  const BlockId* const row = find_row(block);
  if (row == nullptr) return nullptr;
  for (const BlockId* entry = row; entry != row + row_words(); entry += entry_words()) {
    if (*entry == block) return entry;
  }
  return nullptr;
}

BlockId* BlockTable::touch(BlockId block) {
  if (groups_.empty()) groups_.assign(shape_.num_rows / kGroupRows + 1, kNoGroup);
  const std::uint32_t row_index = block % shape_.num_rows;
  std::uint32_t& group = groups_[row_index / kGroupRows];
  const std::size_t group_words = row_words() * kGroupRows;
  if (group == kNoGroup) {
    group = static_cast<std::uint32_t>(words_.size() / group_words);
    words_.resize(words_.size() + group_words, kNoBlock);
  }
  BlockId* const row = words_.data() + group * group_words + row_index % kGroupRows * row_words();
  BlockId* const last = row + row_words() - entry_words();
  BlockId* entry = row;
  while (entry != last && *entry != block) entry += entry_words();
  if (*entry != block) {
    if (*entry != kNoBlock && *entry == start_) start_ = kNoBlock;
    std::fill_n(entry, entry_words(), kNoBlock);
    *entry = block;
  }
  std::rotate(row, entry, entry + entry_words());
  return row;
}

BlockTable& BlockTables::of(ExecutionId execution) {
  if (execution >= tables_.size()) tables_.resize(std::size_t{execution} + 1);
  std::unique_ptr<BlockTable>& table = tables_[execution];
  if (table == nullptr) table = std::make_unique<BlockTable>(shape_);
  return *table;
}

const BlockTable* BlockTables::find(ExecutionId execution) const {
  return execution < tables_.size() ? tables_[execution].get() : nullptr;
}

std::size_t BlockTables::memory_bytes() const {
  std::size_t bytes = tables_.capacity() * sizeof(tables_[0]);
  for (const auto& table : tables_) {
    if (table != nullptr) bytes += sizeof(BlockTable) + table->memory_bytes();
  }
  return bytes;
}

}  // namespace spillway
