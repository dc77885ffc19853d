// See autovm_model.h.
#include "runtime/reproduce/autovm/autovm_model.h"

#include <cmath>
#include <memory>
#include <vector>

#include "analysis/memory_curve.h"
#include "machine/load.h"
#include "platform/sim/replay.h"
#include "platform/sim/simulator.h"
#include "policy/base_uvm.h"
#include "policy/planned.h"
#include "runtime/reproduce/arena.h"

namespace spillway::reproduce {
namespace {

// 70 % of an RTX 2080 Ti's 13.45 TFLOP/s and 80 % of its 616 GB/s, as for other devices
// (trace/generate.h).
constexpr double kFlopsPerS = 9.4e12;
constexpr double kBytesPerS = 493e9;
constexpr double kLinkWithFaultsBytesPerS = 9e9;  // section 4.3
// To access 2 MiB of new memory ahead takes half as long as to fault on them (section 4.2.3).
constexpr TimeNs kPreAccessNs = 244 * kNsPerUs;
constexpr PolicyTraits kUnifiedMemory{.told_of_deaths = false, .uses_storage = false};

// What the thesis says that computing took: AlexNet with a batch of 2,048 for 82.6 % of 24,170 ms,
// ten iterations (section 6.3.1); VGG-19 with 128 1,031 ms (section 6.3.2). Of ResNet-152 it says
// no time: it is slower than by rate alone as VGG-19 is.
struct Computing {
  ImageNetwork network;
  std::uint64_t batch_size;
  double seconds;
};
constexpr Computing kAlexNet{ImageNetwork::kAlexNet, 2048, 0.826 * 2.417};
constexpr Computing kVgg19{ImageNetwork::kVgg19, 128, 1.031};

TimeNs computing_ns(const Trace& trace) {
  TimeNs sum_ns = 0;
  for (const Kernel& kernel : trace.kernels) {
    sum_ns += kernel.duration_ns;
  }
  return sum_ns;
}

Trace by_rate_alone(ImageNetwork network, std::uint64_t batch_size) {
  ImageShape shape{.network = network, .batch_size = batch_size, .training = {}};
  shape.training.device = {.name = "RTX 2080 Ti",
                           .flops_per_s = kFlopsPerS,
                           .bytes_per_s = kBytesPerS,
                           .launch_ns = 5 * kNsPerUs};
  return generate_image_network(shape);
}

double slower_than_by_rate(const Computing& computing) {
  return computing.seconds /
         to_seconds(computing_ns(by_rate_alone(computing.network, computing.batch_size)));
}

double scale_of(ImageNetwork network) {
  static const double kOfAlexNet = slower_than_by_rate(kAlexNet);
  static const double kOfVgg19 = slower_than_by_rate(kVgg19);
  return network == ImageNetwork::kAlexNet ? kOfAlexNet : kOfVgg19;
}

double part_of(const AutoVmSetup& setup, const Trace& trace) {
  return static_cast<double>(memory_curve(trace, analyze_vitality(trace)).peak_live_bytes) /
         setup.whole_bytes;
}

Result<TimeNs> third_iteration_ns(const Trace& trace, const Machine& machine, Policy& policy) {
  sim::Simulator simulator(machine, sim::simulator_options(machine, kUnifiedMemory), policy);
  sim::Replay replay(trace, {.tells_deaths = false}, simulator);
  if (Status status = replay.prepare(); !status) {
    return tl::unexpected<Error>(status.error());
  }
  constexpr std::array<std::uint32_t, 3> kIterations{0, 0, 0};
  const Result<std::vector<sim::IterationResult>> ran = replay.run(kIterations);
  if (!ran) {
    return tl::unexpected<Error>(ran.error());
  }
  return (*ran)[2].ended_ns - (*ran)[1].ended_ns;
}

// Until nothing moves.
Status settle(sim::Simulator& simulator) {
  while (simulator.step()) {
  }
  return simulator.run_until_idle();
}

}  // namespace

Result<AutoVmSetup> autovm_setup() {
  const Result<Machine> machine = load_machine("rtx2080ti");
  if (!machine) {
    return tl::unexpected<Error>(machine.error());
  }
  AutoVmSetup setup;
  setup.paging = setup.managed = *machine;
  setup.paging.link.to_device_bytes_per_s = kLinkWithFaultsBytesPerS;
  setup.paging.link.from_device_bytes_per_s = kLinkWithFaultsBytesPerS;
  setup.paging.link.both_ways_bytes_per_s = kLinkWithFaultsBytesPerS;
  return setup;
}

std::string_view name_of(ImageNetwork network) {
  switch (network) {
    case ImageNetwork::kAlexNet:
      return "AlexNet";
    case ImageNetwork::kVgg19:
      return "VGG-19";
    case ImageNetwork::kResNet152:
      return "ResNet-152";
  }
  return "";
}

Trace autovm_trace(const AutoVmSetup& setup, ImageNetwork network, std::uint64_t batch_size) {
  Trace trace = by_rate_alone(network, batch_size);
  const double scale = setup.rates_alone ? 1 : scale_of(network);
  for (Kernel& kernel : trace.kernels) {
    kernel.duration_ns = std::llround(static_cast<double>(kernel.duration_ns) * scale);
  }
  return trace;
}

std::uint64_t batch_that_needs(const AutoVmSetup& setup, ImageNetwork network, double part) {
  std::uint64_t low = 1;
  std::uint64_t high = 1U << 14U;
  while (low < high) {
    const std::uint64_t middle = (low + high) / 2;
    if (part_of(setup, by_rate_alone(network, middle)) < part) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

Result<AutoVmTimes> autovm_times(const AutoVmSetup& setup, ImageNetwork network,
                                 std::uint64_t batch_size) {
  const Trace trace = autovm_trace(setup, network, batch_size);
  const Arena arena = lay_out(trace, kBlockBytes);
  Bytes arena_bytes = 0;
  for (const Tensor& piece : arena.trace.tensors) {
    arena_bytes += piece.bytes;
  }
  AutoVmTimes times{.batch_size = batch_size,
                    .compute_ns = computing_ns(trace),
                    .fits = arena_bytes <= setup.managed.device.capacity_bytes};
  BaseUvm paging;
  const Result<TimeNs> paging_ns = third_iteration_ns(arena.trace, setup.paging, paging);
  if (!paging_ns) {
    return tl::unexpected<Error>(paging_ns.error());
  }
  Planned autovm("autovm", arena.trace,
                 plan_of_arena(plan_autovm(trace, setup.managed, setup.policy), arena), Tier::kHost,
                 Planned::Victims::kOldest);
  const Result<TimeNs> autovm_ns = third_iteration_ns(arena.trace, setup.managed, autovm);
  if (!autovm_ns) {
    return tl::unexpected<Error>(autovm_ns.error());
  }
  times.paging_ns = *paging_ns;
  times.autovm_ns = *autovm_ns;
  return times;
}

Result<TimeNs> first_touch_ns(const AutoVmSetup& setup, FirstTouch how, Bytes buffer_bytes) {
  Machine machine = setup.managed;
  if (how != FirstTouch::kFault) {
    machine.handles.map_ns = kPreAccessNs;
  }
  BaseUvm paging;
  sim::Simulator simulator(machine, sim::simulator_options(machine, kUnifiedMemory), paging);
  std::array<AllocationId, 3> buffers{};
  for (AllocationId& buffer : buffers) {
    const Result<AllocationId> made = simulator.allocate(buffer_bytes, 0);
    if (!made) {
      return tl::unexpected<Error>(made.error());
    }
    buffer = *made;
  }
  const auto blocks_of = [&](AllocationId id) { return simulator.engine().space().allocation(id); };
  const auto kernel_ns = static_cast<TimeNs>(2 * static_cast<double>(buffer_bytes) /
                                             machine.device.zero_bandwidth_bytes_per_s * 1e9);
  const auto run = [&](AllocationId input, AllocationId output, AccessMode mode) -> Status {
    Launch launch;
    for (const auto& [id, how_used] : {std::pair{input, mode}, {output, AccessMode::kWrite}}) {
      const Allocation& allocation = blocks_of(id);
      launch.accesses.push_back({id, allocation.first_block, allocation.block_count, how_used});
    }
    if (simulator.issue(std::move(launch), kernel_ns) == LaunchState::kTooLarge) {
      return make_error(ErrorCode::kCannotRun, "two buffers of {} do not fit",
                        format_bytes(buffer_bytes));
    }
    return simulator.run_until_idle();
  };
  // The first is input; nobody has written it, and the kernel may.
  if (Status status = run(buffers[0], buffers[1], AccessMode::kReadWrite); !status) {
    return tl::unexpected<Error>(status.error());
  }
  const TimeNs began_ns = simulator.now_ns();
  if (how == FirstTouch::kOffloadAndPreAccess) {
    const Allocation& leaves = blocks_of(buffers[0]);
    simulator.engine().pre_evict_blocks(leaves.first_block, leaves.block_count, Tier::kHost);
    if (Status status = settle(simulator); !status) {
      return tl::unexpected<Error>(status.error());
    }
  }
  if (how != FirstTouch::kFault) {
    simulator.prefetch(buffers[2]);
    if (Status status = settle(simulator); !status) {
      return tl::unexpected<Error>(status.error());
    }
  }
  if (Status status = run(buffers[1], buffers[2], AccessMode::kRead); !status) {
    return tl::unexpected<Error>(status.error());
  }
  return simulator.now_ns() - began_ns;
}

}  // namespace spillway::reproduce
