#include "policy/correlation/execution_table.h"

#include <algorithm>

namespace spillway {
namespace {

constexpr int kWholeHistory = 3;

int matching_predecessors(const ExecutionHistory& a, const ExecutionHistory& b) {
  if (a.prev1 != b.prev1) return 0;
  if (a.prev2 != b.prev2) return 1;
  return a.prev3 != b.prev3 ? 2 : kWholeHistory;
}

}  // namespace

void ExecutionTable::update(const ExecutionHistory& history, ExecutionId current,
                            ExecutionId next) {
  if (current >= records_.size()) records_.resize(std::size_t{current} + 1);
  std::vector<Record>& records = records_[current];
  const Record record{.history = history, .next = next};
  auto place = std::find(records.begin(), records.end(), record);
  if (place == records.end()) {
    if (records.size() < kMaxRecords) records.emplace_back();
    place = std::prev(records.end());
    *place = record;
  }
  std::rotate(records.begin(), place, std::next(place));
}

std::optional<ExecutionId> ExecutionTable::predict(const ExecutionHistory& history,
                                                   ExecutionId current) const {
  int best_match = -1;
  ExecutionId best = kNoExecution;
  for (const Record& record : records(current)) {
    const int match = matching_predecessors(record.history, history);
    if (match > best_match) {
      best_match = match;
      best = record.next;
    }
    if (match == kWholeHistory) break;
  }
  if (best_match < 0) return std::nullopt;
  return best;
}

const std::vector<ExecutionTable::Record>& ExecutionTable::records(ExecutionId current) const {
  static const std::vector<Record> kNone;
  return current < records_.size() ? records_[current] : kNone;
}

}  // namespace spillway
