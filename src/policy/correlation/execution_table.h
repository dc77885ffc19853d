// Which kernel follows which: DeepUM's execution ID correlation table (section 4.2, figure 6).
// Layer: policy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"

namespace spillway {

// The three executions right before the current one, kNoExecution where there was none.
struct ExecutionHistory {
  ExecutionId prev3 = kNoExecution;
  ExecutionId prev2 = kNoExecution;
  ExecutionId prev1 = kNoExecution;

  // What the history becomes when `finished` is no longer the current execution.
  void push(ExecutionId finished) {
    prev3 = prev2;
    prev2 = prev1;
    prev1 = finished;
  }
  friend bool operator==(const ExecutionHistory&, const ExecutionHistory&) = default;
};

// For each execution id the records (prev3, prev2, prev1, next), most recently updated first.
// Not safe for concurrent use.
class ExecutionTable {
 public:
  struct Record {
    ExecutionHistory history;
    ExecutionId next = kNoExecution;
    friend bool operator==(const Record&, const Record&) = default;
  };

  // The paper keeps every record. A training step needs one or a few per id; the bound keeps a
  // program that launches one kernel in ever new contexts from growing the table (and every
  // prediction) without end. The least recently updated record goes first.
  static constexpr std::size_t kMaxRecords = 256;

  // `next` has been launched after `current`, before which `history` was launched.
  void update(const ExecutionHistory& history, ExecutionId current, ExecutionId next);

  // What follows `current`: the most recently updated record with the same history. Where no record
  // has that history, the record that agrees on the longest run of predecessors counted from the
  // last (prev1, then prev2), the most recently updated one among equals; that finds the way over
  // the seam between two iterations, where the history is new but the kernel is not.
  // nullopt only if nothing was ever recorded after `current`: prefetching for the wrong kernel
  // costs more than none, so an unseen kernel predicts nothing.
  [[nodiscard]] std::optional<ExecutionId> predict(const ExecutionHistory& history,
                                                   ExecutionId current) const;

  // Ids up to the highest after which something was launched.
  [[nodiscard]] std::size_t executions() const { return records_.size(); }
  // Most recently updated first; valid until the next update.
  [[nodiscard]] const std::vector<Record>& records(ExecutionId current) const;

 private:
  std::vector<std::vector<Record>> records_;  // by execution id
};

}  // namespace spillway
