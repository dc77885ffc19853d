// See recorded_iteration.h.
#include "policy/prediction/recorded_iteration.h"

#include <algorithm>
#include <utility>

namespace spillway {

void IterationRecorder::launch(ExecutionId execution, std::string_view name, TimeNs at_ns,
                               TimeNs stalled_ns, bool named) {
  end_kernel(at_ns, stalled_ns);
  result_.complete &= named;
  Kernel kernel;
  kernel.name = name;
  result_.trace.kernels.push_back(std::move(kernel));
  result_.executions.push_back(execution);
}

void IterationRecorder::end_kernel(TimeNs at_ns, TimeNs stalled_ns) {
  if (!result_.trace.kernels.empty()) {
    const TimeNs computed_ns = at_ns - began_ns_ - (stalled_ns - stalled_ns_);
    result_.trace.kernels.back().duration_ns = std::max<TimeNs>(computed_ns, 1);
  }
  began_ns_ = at_ns;
  stalled_ns_ = stalled_ns;
}

void IterationRecorder::access(AllocationId id, Bytes bytes, bool writes) {
  if (result_.trace.kernels.empty()) {
    return;
  }
  if (id >= lives_.size()) {
    lives_.resize(id + std::size_t{1});
  }
  Life& life = lives_[id];
  if (!life.live) {
    life.live = true;
    life.from_before = !life.dead_before;
    life.tensor = static_cast<TensorId>(result_.trace.tensors.size());
    result_.trace.tensors.push_back(
        {.bytes = bytes, .persistent = life.from_before, .scratch = false});
    result_.allocations.push_back(id);
    life.bytes = bytes;
    result_.born_bytes += life.from_before ? 0 : bytes;
  }
  Kernel& kernel = result_.trace.kernels.back();
  std::vector<TensorId>& uses = writes ? kernel.writes : kernel.reads;
  if (std::find(uses.begin(), uses.end(), life.tensor) == uses.end()) {
    uses.push_back(life.tensor);
  }
}

void IterationRecorder::died(AllocationId id) {
  if (id >= lives_.size()) {
    lives_.resize(id + std::size_t{1});
  }
  Life& life = lives_[id];
  if (life.live) {
    // It came from the iteration before, but does not go on into the next: that one brings another.
    result_.trace.tensors[life.tensor].persistent = false;
    result_.died_bytes += life.bytes;
  }
  life.live = false;
  life.dead_before = true;
}

std::optional<RecordedIteration> IterationRecorder::finish(TimeNs at_ns, TimeNs stalled_ns) {
  if (result_.trace.kernels.empty()) {
    return std::nullopt;
  }
  end_kernel(at_ns, stalled_ns);
  return std::exchange(result_, {});
}

}  // namespace spillway
