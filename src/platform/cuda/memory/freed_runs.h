// Runs of addresses that have been freed, but of which something is still mapped. Layer: platform,
// cuda. With the platform's lock held.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/grown_at.h"
#include "base/ids.h"
#include "platform/cuda/memory/program_memory.h"

namespace spillway::cuda {

class FreedRuns {
 public:
  // The run's addresses are nobody's when each of these blocks has been dropped; at least one.
  void add(const ProgramMemory::Freed& run, std::span<const BlockId> mapped) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(runs_.size()));
      runs_.emplace_back();
    }
    const std::uint32_t index = free_.back();
    free_.pop_back();
    runs_[index] = {.run = run, .blocks_left = mapped.size()};
    for (const BlockId block : mapped) {
      grown_at(of_, block, kNoIndex) = index;
    }
  }
  [[nodiscard]] bool has(BlockId block) const {
    return block < of_.size() && of_[block] != kNoIndex;
  }
  // The block is dropped: its run, if it was the last of one.
  std::optional<ProgramMemory::Freed> drop(BlockId block) {
    if (!has(block)) {
      return std::nullopt;
    }
    const std::uint32_t index = std::exchange(of_[block], kNoIndex);
    if (--runs_[index].blocks_left > 0) {
      return std::nullopt;
    }
    free_.push_back(index);
    return runs_[index].run;
  }

 private:
  struct Waiting {
    ProgramMemory::Freed run;
    std::size_t blocks_left = 0;
  };
  std::vector<Waiting> runs_;
  std::vector<std::uint32_t> free_;  // places in runs_
  std::vector<std::uint32_t> of_;    // by block, its place in runs_
};

}  // namespace spillway::cuda
