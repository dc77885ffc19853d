// A trace, or a program of several graphs, as what a host does: allocates the tensors, launches the
// kernels again and again, says when tensors die. Layer: platform, simulator.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "analysis/vitality.h"
#include "base/error.h"
#include "platform/sim/remakes.h"
#include "platform/sim/simulator.h"
#include "platform/sim/tensor_places.h"
#include "policy/launch_hash.h"
#include "trace/perturb.h"
#include "trace/trace.h"

namespace spillway::sim {

struct ReplayOptions {
  // Whether the program's allocator tells the driver when a tensor dies. PyTorch's does not
  // (DeepUM section 5.2): then the contents stay alive as far as anybody knows, and move.
  bool tells_deaths = true;
  // Launches whose operands do not fit on the device together are cut into pieces that do; without
  // paging that is not possible, and the replay fails with kCannotRun.
  bool pages = true;
  // How many launches the host may be ahead of the device. 0: it waits for each.
  std::uint32_t queue_depth = 0;
  TimeNs launch_ns = 0;             // that the host needs for each, where it does not wait
  TimeNs told_ns = 0;               // more, where not all fits; alone for what is made again
  Bytes block_bytes = kBlockBytes;  // of allocations of that size and more
  // Tensors of one size, in whole frames of so many bytes, share memory if they never live at once
  // (tensor_places.h). 0: none do, as under a plan, which tells tensors apart by their allocations.
  Bytes shared_frame_bytes = 0;
};

// One iteration, as it was.
struct IterationResult {
  TimeNs ended_ns = 0;
  TimeNs transfer_busy_ns = 0;           // since the simulation began
  EngineStats stats;                     // likewise
  std::vector<TimeNs> kernel_stalls_ns;  // what each kernel cost beyond its duration, in order
};

class Replay {
 public:
  // The simulator must outlive the replay, which listens to its finished launches beside whoever
  // did so before. Traces and graphs must be valid.
  Replay(const Trace& trace, const ReplayOptions& options, Simulator& simulator);
  Replay(Program program, const ReplayOptions& options, Simulator& simulator);

  // Allocates every tensor, and writes the persistent ones once. Addresses stay the same from one
  // iteration to the next, as a caching allocator's do.
  Status prepare();
  // What is alive at once at the highest; not before `prepare`.
  [[nodiscard]] Bytes peak_bytes() const { return places_.peak_bytes; }
  // Iterations of these graphs, one after the other. `extra` more of the first graph are issued
  // behind them, for a host that runs ahead, and end when they like: one `run` to a replay.
  // Results are by iteration.
  Result<std::vector<IterationResult>> run(std::span<const std::uint32_t> graphs,
                                           std::uint32_t extra = 0);

 private:
  // What a kernel alone has made so far and could make again.
  struct Made {
    AllocationId id = kNoAllocation;
    std::vector<AllocationId> of;
  };
  // A kernel as the host issues it.
  struct Step {
    Launch launch;
    TimeNs duration_ns = 0;
    bool synchronizes = false;
    Made makes;
    std::vector<AllocationId> deaths;  // after it
  };
  // Launches that are issued and whose end is awaited.
  struct Awaited {
    std::size_t iteration = 0;
    TimeNs duration_ns = 0;
    bool ends_kernel = false;
    bool ends_iteration = false;
    bool again = false;  // it makes something again
  };

  Status allocate();
  Status fill(AllocationId id);
  [[nodiscard]] Access access_to(AllocationId id, AccessMode mode) const;
  std::vector<Step> steps_of(std::uint32_t graph);
  Status iterate(std::size_t iteration, std::uint32_t graph);
  [[nodiscard]] Made made_by(const Trace& trace, const Vitality& vitality, std::uint32_t graph,
                             KernelIndex index) const;
  Status remake(Remakes::Maker maker, std::size_t iteration);
  Status wait_for_turn(TimeNs costs_ns);
  Status die(AllocationId id, std::size_t iteration);
  void no_more(const std::vector<AllocationId>& lost);
  Status launch(const Launch& launch, TimeNs duration_ns, const Awaited& awaited);
  Status launch_in_pieces(const Launch& launch, TimeNs duration_ns, Awaited awaited);
  Result<LaunchState> issue(const Launch& launch, TimeNs duration_ns, const Awaited& awaited);
  void finished(const LaunchTiming& timing);
  void note_end(IterationResult& result) const;

  Program program_;
  ReplayOptions options_;
  Simulator* simulator_;
  TensorPlaces places_;
  std::vector<AllocationId> allocations_;  // by PlaceId
  std::vector<std::vector<Step>> graphs_;
  ExecutionIds executions_;
  Remakes remakes_;
  std::vector<IterationResult> results_;
  std::deque<Awaited> awaited_;  // one stream: they finish in the order of issue
  TimeNs kernel_began_ns_ = 0;
  TimeNs host_free_ns_ = 0;
};

}  // namespace spillway::sim
