// A trace as a program: allocates the tensors, launches the kernels again and again, says when
// tensors die. Layer: platform, simulator.
#pragma once

#include <vector>

#include "base/error.h"
#include "platform/sim/simulator.h"
#include "trace/trace.h"

namespace spillway::sim {

struct ReplayOptions {
  // Whether the program's allocator tells the driver when a tensor dies. PyTorch's does not
  // (DeepUM section 5.2): then the contents stay alive as far as anybody knows, and move.
  bool tells_deaths = true;
  // Launches whose operands do not fit on the device together are cut into pieces that do; without
  // paging that is not possible, and the replay fails with kCannotRun.
  bool pages = true;
};

class Replay {
 public:
  // Both must outlive the replay. The trace must be valid.
  Replay(const Trace& trace, const ReplayOptions& options, Simulator& simulator);

  // Allocates every tensor, and writes the persistent ones once. Addresses stay the same from one
  // iteration to the next, as a caching allocator's do.
  Status prepare();
  // One iteration, start to end.
  Status iterate();
  // What each kernel of the last iteration cost beyond the trace's duration, in execution order.
  [[nodiscard]] const std::vector<TimeNs>& kernel_stalls_ns() const { return stalls_ns_; }

 private:
  Status launch(const Launch& launch, TimeNs duration_ns);
  Status launch_in_pieces(const Launch& launch, TimeNs duration_ns);

  const Trace* trace_;
  ReplayOptions options_;
  Simulator* simulator_;
  std::vector<AllocationId> allocations_;      // by TensorId; kNoAllocation where unused
  std::vector<Launch> launches_;               // by KernelIndex
  std::vector<std::vector<TensorId>> deaths_;  // by KernelIndex: dead after it
  std::vector<TimeNs> stalls_ns_;
};

}  // namespace spillway::sim
