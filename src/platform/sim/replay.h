// A trace, or a program of several graphs, as what a host does: allocates the tensors, launches the
// kernels again and again, says when tensors die. Layer: platform, simulator.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "analysis/traced_updates.h"
#include "analysis/vitality.h"
#include "base/error.h"
#include "platform/sim/remakes.h"
#include "platform/sim/simulator.h"
#include "platform/sim/tensor_places.h"
#include "policy/prediction/launch_hash.h"
#include "trace/perturb.h"
#include "trace/trace.h"

namespace spillway::sim {

// Where the optimizer's updates run that the trace has as kernels.
enum class NearOptimizer : std::uint8_t {
  kOff,   // as it was recorded
  kOn,    // at the host, each as soon as its gradient is there
  kAuto,  // there, or on the device where the recorded kernel is: where it ends first
};

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
  TimeNs tracked_ns = 0;            // more, where not all fits; alone for what is made again
  Bytes block_bytes = kBlockBytes;  // of allocations of that size and more
  // Tensors of one size, in whole frames of so many bytes, share memory if they never live at once
  // (tensor_places.h). 0: none do, as under a plan, which tells tensors apart by their allocations.
  Bytes shared_frame_bytes = 0;
  NearOptimizer near_optimizer = NearOptimizer::kOff;
  double update_bytes_per_s = 0;  // of updates at the host; more than 0 unless kOff
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
  // What host memory holds at the highest, as far as the ends of launches show.
  [[nodiscard]] Bytes host_peak_bytes() const { return host_peak_bytes_; }
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
  // What an optimizer does to one parameter.
  struct Update {
    Launch launch;                      // at the host
    TimeNs device_ns = 0;               // on the device
    KernelIndex kernel = 0;             // where it runs there
    AllocationId dies = kNoAllocation;  // its gradient
  };
  // A kernel as the host issues it.
  struct Step {
    Launch launch;
    TimeNs duration_ns = 0;
    bool synchronizes = false;
    Made makes;
    std::vector<AllocationId> deaths;  // after it
    bool updates = false;              // it stands for those updates that run on the device
    std::vector<Update> ready;         // updates whose operands are there behind it
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

  // replay_updates.cc
  void make_updates(std::uint32_t graph, const Trace& trace, const Vitality& vitality,
                    std::vector<Step>& steps) const;
  [[nodiscard]] Step with_updates(const Step& step, KernelIndex index);
  Status update(const Update& update, std::size_t iteration);
  Result<bool> update_at_host(const Update& update);
  Status wait_for_updates(const Launch& launch);
  void updated(std::uint64_t number);

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
  std::map<KernelIndex, std::vector<Update>> on_device_;  // updates, by the kernel that will run
  // Which updates at the host use an allocation, that later launches have to wait for: the signal
  // behind it, or its number where the host waits for each launch.
  std::map<AllocationId, std::uint64_t> at_host_;
  TimeNs kernel_began_ns_ = 0;
  TimeNs host_free_ns_ = 0;
  Bytes host_peak_bytes_ = 0;
};

}  // namespace spillway::sim
