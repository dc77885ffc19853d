// How the time of a simulation grows with the number of blocks: one transformer at 1, 2, 4 and 8
// times the batch, on a device that holds half of its peak. Close to linear is what to expect;
// `blocks` says how many there are, per_block what one costs.
#include <benchmark/benchmark.h>

#include <string>

#include "analysis/memory_curve.h"
#include "machine/load.h"
#include "policy/registry.h"
#include "runtime/simulate.h"
#include "trace/generate.h"

namespace spillway {
namespace {

double blocks_of(const Trace& trace) {
  double blocks = 0;
  for (const Tensor& tensor : trace.tensors) {
    blocks += static_cast<double>((tensor.bytes + kBlockBytes - 1) / kBlockBytes);
  }
  return blocks;
}

void simulate_transformer(benchmark::State& state, const std::string& policy_name) {
  const Trace trace = generate_transformer(
      {.batch_size = static_cast<std::uint64_t>(32 * state.range(0)), .training = {}});
  const MemoryCurve curve = memory_curve(trace, analyze_vitality(trace));
  Machine machine = *load_machine("a100-40gb");
  machine.device.capacity_bytes = round_up(curve.peak_live_bytes / 2, kBlockBytes);
  machine.host.capacity_bytes = round_up(curve.peak_live_bytes, kBlockBytes);
  const PolicyInfo* policy = *find_policy(policy_name);
  for (auto _ : state) {
    const Result<SimulationResult> result = simulate(trace, machine, *policy, {});
    if (!result) {
      state.SkipWithError(result.error().message.c_str());
      return;
    }
    benchmark::DoNotOptimize(result->iteration_ns);
  }
  const double blocks = blocks_of(trace);
  state.counters["blocks"] = blocks;
  state.counters["per_block"] = benchmark::Counter(
      blocks, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.SetComplexityN(static_cast<std::int64_t>(blocks));
}

void scale(benchmark::internal::Benchmark* bench) {
  bench->RangeMultiplier(2)->Range(1, 8)->Unit(benchmark::kMillisecond)->Complexity();
}

BENCHMARK_CAPTURE(simulate_transformer, base_uvm, "base_uvm")->Apply(scale);
BENCHMARK_CAPTURE(simulate_transformer, deepum_plus, "deepum_plus")->Apply(scale);
BENCHMARK_CAPTURE(simulate_transformer, g10, "g10")->Apply(scale);

}  // namespace
}  // namespace spillway
