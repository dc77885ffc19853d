// What a training step that does not fit its budget costs, without a GPU: a step of GPT-2 XL, made
// up or recorded (pressure_step.h), on the CUDA platform, on the fake driver, whose calls, copies
// and kernels take what they take on an H200 and move nothing (pressure_device.h). What is measured
// is ours: how well the link is used while the device waits, and what stands in the way. Kernels
// sleep and wake late, so that a plain step here takes half as long again as there; ratios between
// two builds on one machine are what counts.
#include <fmt/format.h>
#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/measure.h"
#include "bench/pressure_device.h"
#include "bench/pressure_program.h"
#include "bench/pressure_step.h"
#include "fake_cuda.h"
#include "policy/registry.h"
#include "trace/read.h"

namespace spillway::cuda {
namespace {

using bench::now_ns;

struct Options {
  std::string policy = "lookahead";
  std::string trace;  // a file; empty: the made-up step
  std::string perturbation = "none";
  int percent = 50;  // of what is alive at its highest
  int steps = 3;
  int layers = 48;
  int slower = 1;
  bool reads_known = false;
  bool fills_as_kernels = false;
};

FakeCudaCounters counters() {
  FakeCudaCounters all;
  fake_cuda_counters(&all);
  return all;
}

Status run(const Options& options) {
  // Sleeps of microseconds are to be just that, in every thread that starts from here.
  ::prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  if (const Result<const PolicyInfo*> known = find_policy(options.policy); !known) {
    return tl::unexpected<Error>(known.error());
  }
  std::optional<Trace> trace;
  if (!options.trace.empty()) {
    Result<Trace> read = read_trace(options.trace);
    if (!read) {
      return tl::unexpected<Error>(read.error());
    }
    trace = std::move(*read);
  }
  spillway::Program steps;
  if (trace) {
    const Result<Perturbation> kind = parse_perturbation(options.perturbation);
    if (!kind) {
      return tl::unexpected<Error>(kind.error());
    }
    Result<spillway::Program> perturbed =
        perturb(*trace, *kind, static_cast<std::uint32_t>(options.steps) + 1, 1);
    if (!perturbed) {
      return tl::unexpected<Error>(perturbed.error());
    }
    steps = std::move(*perturbed);
  }
  const FakeCudaConfig config = device_like_an_h200(options.slower);
  fake_cuda_reset(&config);
  const Result<Driver> driver = open_driver(FAKE_CUDA_LIBRARY);
  if (!driver) {
    return tl::unexpected<Error>(driver.error());
  }
  CuContext primary = nullptr;
  (void)driver->init(0);
  (void)driver->primary_context_retain(&primary, 0);
  (void)driver->context_set_current(primary);
  const Bytes peak_bytes = trace ? recorded_peak_bytes(*trace) : made_up_peak_bytes(options.layers);
  const Bytes budget_bytes = peak_bytes * static_cast<Bytes>(options.percent) / 100;
  {
    Program program(
        *driver,
        {.policy = options.policy, .budget_bytes = budget_bytes, .slower = options.slower});
    const std::unique_ptr<PressureStep> step =
        trace ? recorded_step(program, std::move(steps), options.fills_as_kernels)
              : made_up_step(program, options.layers, options.reads_known);
    step->run();  // the optimizer's states come with the first
    for (int i = 0; i < options.steps; ++i) {
      const ProgramStats before = program.platform().stats();
      const FakeCudaCounters seen = counters();
      const std::vector<CudaPlatform::Work> worked = program.platform().work();
      const std::uint64_t unseen = program.platform().bypass().bypassed_calls();
      const TimeNs begin_ns = now_ns();
      step->run();
      const TimeNs took_ns = (now_ns() - begin_ns) / options.slower;
      const ProgramStats after = program.platform().stats();
      const FakeCudaCounters now = counters();
      const auto in = static_cast<double>(after.engine.moved(Tier::kHost, Tier::kDevice) -
                                          before.engine.moved(Tier::kHost, Tier::kDevice));
      const auto out = static_cast<double>(after.engine.moved(Tier::kDevice, Tier::kHost) -
                                           before.engine.moved(Tier::kDevice, Tier::kHost));
      const TimeNs stalled_ns = (after.stalled_ns - before.stalled_ns) / options.slower;
      fmt::print(
          "{} {} %, plan {} of {} launches: {:.0f} ms; {:.2f} GB in, {:.2f} out, {:.1f} and {:.1f} "
          "GB/s; stalled "
          "{:.0f} "
          "ms; "
          "{} copies in, {} out; handles made {}, mapped {}; gates waited at {}; processor {:.0f} "
          "ms; high {}, device {}; launches {}, of {} of them nobody was told\n",
          options.policy, options.percent, program.plans(), program.plan_launches(),
          to_seconds(took_ns) * 1e3, in / 1e9, out / 1e9, bench::per_s(in / 1e9, took_ns),
          bench::per_s(out / 1e9, took_ns), to_seconds(stalled_ns) * 1e3,
          now.copies_in - seen.copies_in, now.copies_out - seen.copies_out,
          now.creates - seen.creates, now.maps - seen.maps, now.gates_waited - seen.gates_waited,
          to_seconds(after.processor_ns - before.processor_ns) * 1e3,
          format_bytes(program.high_bytes()), format_bytes(now.handle_bytes),
          now.launches - seen.launches, program.platform().bypass().bypassed_calls() - unseen);
      const EngineStats did = difference(after.engine, before.engine);
      fmt::print(
          "    {} faults, {} prefetched, {} used, {} late, {} wasted; {} evictions, {} ahead, {} "
          "cancelled\n",
          did.faults, did.prefetched, did.prefetches_used, did.late_prefetches,
          did.prefetches_wasted, did.evictions, did.pre_evictions, did.cancelled_evictions);
      for (std::size_t j = 0; j < worked.size(); ++j) {
        const CudaPlatform::Work work = program.platform().work()[j];
        fmt::print("{}{} {} {:.0f} ms", j == 0 ? "    " : ", ", work.name,
                   work.count - worked[j].count,
                   to_seconds((work.time_ns - worked[j].time_ns) / options.slower) * 1e3);
      }
      fmt::print("\n");
      std::fflush(stdout);
    }
  }
  if (fake_cuda_violations() > 0) {
    std::array<char, 512> text{};
    (void)fake_cuda_violation(0, text.data(), text.size());
    return make_error(ErrorCode::kDefect, "the driver's rules were broken: {}", text.data());
  }
  return {};
}

int main_of(int argc, char** argv) {
  Options options;
  CLI::App app("A step of GPT-2 XL that does not fit its budget, on the fake driver.",
               "pressure_bench");
  app.add_option("--policy", options.policy, "Where it plans, its plan comes after some steps")
      ->capture_default_str();
  app.add_option("--percent", options.percent, "The budget, of what is alive at its highest")
      ->capture_default_str();
  app.add_option("--steps", options.steps, "Besides the first")->capture_default_str();
  app.add_option("--layers", options.layers)->capture_default_str();
  app.add_option(
         "--slower", options.slower,
         "Everything on the device takes so many times as long, and is told divided by that")
      ->capture_default_str();
  app.add_option("--trace", options.trace, "A recorded step (spillway record) instead")
      ->type_name("FILE");
  app.add_option("--perturb", options.perturbation,
                 "How recorded steps differ: none, shapes, evaluation, alternating")
      ->capture_default_str();
  app.add_flag("--reads-known", options.reads_known,
               "Of the step that is made up: as if what is only read were known");
  app.add_flag("--fills-as-kernels", options.fills_as_kernels,
               "Of a recorded step: memsets are issued before their operands have memory");
  return bench::main_of(app, argc, argv, [&] { return run(options); });
}

}  // namespace
}  // namespace spillway::cuda

int main(int argc, char** argv) {
  return spillway::bench::guarded(spillway::cuda::main_of, argc, argv);
}
