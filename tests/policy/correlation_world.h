// A program and DeepUM's tables, wired as the policy wires them.
#pragma once

#include <optional>
#include <vector>

#include "policy/correlation/block_table.h"
#include "policy/correlation/execution_table.h"
#include "policy/correlation/expected_blocks.h"
#include "policy/correlation/prefetch_chain.h"
#include "policy/prediction/predicted_launches.h"

namespace spillway {

struct CorrelationWorld {
  explicit CorrelationWorld(std::uint32_t degree, BlockTableShape shape = {})
      : tables(shape), window(executions, degree), chain(window, tables), expected(tables) {}

  void launch(ExecutionId next) {
    if (current != kNoExecution) {
      executions.update(history, current, next);
      history.push(current);
    }
    current = next;
    previous_fault = kNoBlock;
    chain.advance(window.advance(next, history));
    expected.advance(window);
  }
  void fault(BlockId block) {
    tables.of(current).fault(previous_fault, block);
    previous_fault = block;
    expected.touch(block);
    chain.restart(block);
  }
  void run(ExecutionId next, const std::vector<BlockId>& faults) {
    launch(next);
    for (const BlockId block : faults) fault(block);
  }
  std::vector<PrefetchCommand> commands() {
    std::vector<PrefetchCommand> all;
    while (const std::optional<PrefetchCommand> command = chain.next()) all.push_back(*command);
    return all;
  }
  std::vector<BlockId> blocks() {
    std::vector<BlockId> all;
    for (const PrefetchCommand& command : commands()) all.push_back(command.block);
    return all;
  }

  ExecutionTable executions;
  BlockTables tables;
  PredictedLaunches window;
  PrefetchChain chain;
  ExpectedBlocks expected;
  ExecutionHistory history;
  ExecutionId current = kNoExecution;
  BlockId previous_fault = kNoBlock;
};

// Kernels 0 to 5, two blocks each: kernel k touches 10k and 10k + 1.
inline void run_iteration(CorrelationWorld& world, std::uint32_t kernels) {
  for (ExecutionId k = 0; k < kernels; ++k) world.run(k, {10 * k, 10 * k + 1});
}

}  // namespace spillway
