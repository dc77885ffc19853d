// One iteration of a running program, as it happened: what a planner needs of a program that no
// compiler has looked at. Layer: policy.
// G10 (section 4.2) reads tensors and their lifetimes from a compiler's graph and the kernels'
// times from a profile; here a platform that sees allocations, deaths and launches tells them as
// they come. What lives in one allocation from one death to the next is a tensor.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "engine/types.h"
#include "trace/trace.h"

namespace spillway {

inline constexpr TensorId kNoTensor = ~TensorId{0};

struct RecordedIteration {
  Trace trace;
  std::vector<ExecutionId> executions;    // by kernel of the trace
  std::vector<AllocationId> allocations;  // by tensor; several may have lived in one, in turn
  // Every launch named all that it uses. Otherwise there is more in use than the trace knows.
  bool complete = true;
  Bytes born_bytes = 0;  // of tensors that the iteration has brought
  Bytes died_bytes = 0;  // of those of its tensors that died in it
};

class IterationRecorder {
 public:
  // A launch begins, and the one before it ends. stalled_ns: how long the program has waited for
  // data since some moment; that is no part of a kernel's time. `named`: with all that it uses.
  void launch(ExecutionId execution, std::string_view name, TimeNs at_ns, TimeNs stalled_ns,
              bool named);
  // The launch that began last uses the allocation, and writes it if `writes`.
  void access(AllocationId id, Bytes bytes, bool writes);
  // What lives in the allocation since `access` was told of it.
  [[nodiscard]] TensorId tensor_in(AllocationId id) const { return lives_[id].tensor; }
  // What was in the allocation is dead; what is written next is something else.
  void died(AllocationId id);

  // The iteration, up to now. nullopt if nothing was launched.
  [[nodiscard]] std::optional<RecordedIteration> finish(TimeNs at_ns, TimeNs stalled_ns);

 private:
  struct Life {
    TensorId tensor = 0;
    Bytes bytes = 0;
    bool live = false;         // ... in the allocation; its tensor is `tensor`
    bool from_before = false;  // it was there when the iteration began
    bool dead_before = false;  // something of this iteration has lived here
  };
  void end_kernel(TimeNs at_ns, TimeNs stalled_ns);

  RecordedIteration result_;
  std::vector<Life> lives_;  // by allocation
  TimeNs began_ns_ = 0;
  TimeNs stalled_ns_ = 0;
};

}  // namespace spillway
