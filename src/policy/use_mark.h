// Which use of a block a habit goes by: the same launch again, or where that is none, one of the
// same code. Layer: policy. docs/lookahead.md. An execution id has a launch's addresses in it. A
// program of one shape meets the same ids in each iteration; one of changing shapes, or whose
// memory has moved, meets others, and has its kernels alone. But a kernel may use a block several
// times in an iteration, and something comes of it only behind one of them: so the ids are kept,
// too, of those behind which nothing came.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "engine/types.h"

namespace spillway {

struct UseMark {
  ExecutionId execution = kNoExecution;  // kNoExecution: not known, and the same as no other
  std::uint64_t kind = 0;                // Launch::kind; 0: not known

  [[nodiscard]] static UseMark of(const Launch& launch) { return {launch.execution, launch.kind}; }
  [[nodiscard]] bool is(const UseMark& other) const {
    return execution != kNoExecution && execution == other.execution;
  }
};

// Of one block: the last uses behind which nothing came of it.
class IdleUses {
 public:
  void add(const UseMark& use) {
    if (use.execution != kNoExecution && !has(use)) {
      executions_[next_] = use.execution;
      next_ = (next_ + 1) % executions_.size();
    }
  }
  void remove(const UseMark& use) {
    std::replace(executions_.begin(), executions_.end(), use.execution, kNoExecution);
  }
  // Whether this use is like that one, behind which something came.
  [[nodiscard]] bool is_like(const UseMark& use, const UseMark& before) const {
    return use.is(before) ||
           (use.execution != kNoExecution && use.kind != 0 && use.kind == before.kind && !has(use));
  }

 private:
  [[nodiscard]] bool has(const UseMark& use) const {
    return std::find(executions_.begin(), executions_.end(), use.execution) != executions_.end();
  }

  // As many as a weight has in an iteration, forward, backward and in its update.
  std::array<ExecutionId, 8> executions_{};
  std::size_t next_ = 0;
};

}  // namespace spillway
