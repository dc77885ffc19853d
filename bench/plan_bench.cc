// How long G10's planner takes, and how that grows with the iteration: GPT-2 XL with 6,
// 12, 24 and 48 layers, thousands of kernels and of small tensors, on a device that holds half of
// the peak and a link that cannot hide it all. A plan is made while a training goes on.
#include <benchmark/benchmark.h>

#include "analysis/memory_curve.h"
#include "analysis/vitality.h"
#include "machine/load.h"
#include "policy/planning/g10_planner.h"
#include "trace/generate.h"

namespace spillway {
namespace {

void plan_transformer(benchmark::State& state) {
  const Trace trace =
      generate_transformer({.batch_size = 6,
                            .sequence = 1024,
                            .width = 1600,
                            .heads = 25,
                            .layers = static_cast<std::uint64_t>(state.range(0)),
                            .feed_forward = 6400,
                            .vocabulary = 50257,
                            .training = {.device = {.flops_per_s = 250e12, .bytes_per_s = 3e12}}});
  const Vitality vitality = analyze_vitality(trace);
  Machine machine = *load_machine("h200");
  const Bytes peak_bytes = memory_curve(trace, vitality).peak_live_bytes;
  machine.device.capacity_bytes = round_up(peak_bytes / 2, machine.device.frame_bytes);
  machine.host.capacity_bytes = round_up(2 * peak_bytes, machine.device.frame_bytes);
  for (auto _ : state) {
    const Plan plan = plan_g10(trace, vitality, machine, {});
    benchmark::DoNotOptimize(plan.estimated_ns);
  }
  state.counters["kernels"] = static_cast<double>(trace.kernels.size());
  state.counters["tensors"] = static_cast<double>(trace.tensors.size());
  state.counters["periods"] = static_cast<double>(vitality.periods.size());
  state.SetComplexityN(static_cast<std::int64_t>(vitality.periods.size()));
}
BENCHMARK(plan_transformer)
    ->RangeMultiplier(2)
    ->Range(6, 48)
    ->Unit(benchmark::kMillisecond)
    ->Complexity();

}  // namespace
}  // namespace spillway
