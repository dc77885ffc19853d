// See issued_iteration.h.
#include "policy/prediction/issued_iteration.h"

#include <algorithm>
#include <utility>

#include "engine/memory/space.h"

namespace spillway {

std::uint64_t place_free_kind(const Launch& launch, const Control& control) {
  std::uint64_t kind = launch.kind;
  for (const Access& access : launch.accesses) {
    kind = (kind ^ control.space().allocation(access.allocation).bytes) * 0x9e3779b97f4a7c15ULL;
    kind ^= kind >> 29U;
  }
  return kind;
}

bool IssuedIteration::leaves_nothing() const {
  constexpr Bytes kNearlyPart = 8;
  return std::max(born_bytes, died_bytes) - std::min(born_bytes, died_bytes) <=
         born_bytes / kNearlyPart;
}

// What shares a block with others moves with them, and is no tensor to a planner.
void IssueRecorder::issued(const Launch& launch, std::uint64_t kind, const Control& control) {
  const auto place = static_cast<std::uint32_t>(kinds_.size());
  recorder_.launch(launch.execution, {}, 0, 0, true);
  std::vector<TensorId> operands;
  for (const Access& access : launch.accesses) {
    const Allocation& allocation = control.space().allocation(access.allocation);
    if (allocation.packed) {
      operands.push_back(kNoTensor);
      continue;
    }
    recorder_.access(access.allocation, allocation.frame_bytes, writes(access.mode));
    operands.push_back(recorder_.tensor_in(access.allocation));
  }
  kinds_.push_back(kind);
  operands_.push_back(std::move(operands));
  times_ns_.push_back(1);
  running_.emplace(launch.id, place);
}

void IssueRecorder::ended(const Launch& launch) {
  if (const auto found = running_.find(launch.id); found != running_.end()) {
    times_ns_[found->second] = std::max<TimeNs>(launch.computed_ns, 1);
    running_.erase(found);
  }
}

std::optional<IssuedIteration> IssueRecorder::finish() {
  std::optional<RecordedIteration> recorded = recorder_.finish(0, 0);
  IssuedIteration made{.trace = {},
                       .kinds = std::exchange(kinds_, {}),
                       .operands = std::exchange(operands_, {}),
                       .allocations = {}};
  const std::vector<TimeNs> times_ns = std::exchange(times_ns_, {});
  recorder_ = {};
  running_.clear();
  if (!recorded) {
    return std::nullopt;
  }
  made.trace = std::move(recorded->trace);
  made.allocations = std::move(recorded->allocations);
  made.born_bytes = recorded->born_bytes;
  made.died_bytes = recorded->died_bytes;
  for (std::size_t i = 0; i < made.trace.kernels.size(); ++i) {
    made.trace.kernels[i].duration_ns = times_ns[i];
  }
  return made;
}

}  // namespace spillway
