// The summary of a trace for people.
#include <fmt/format.h>

#include "cli/analyze/analyze_report.h"
#include "cli/trace/trace_info.h"

namespace spillway {
namespace {

std::string percent(double share) { return fmt::format("{:.3g} %", 100 * share); }

std::string percent_of(std::size_t part, std::size_t whole) {
  return whole == 0 ? "-" : percent(static_cast<double>(part) / static_cast<double>(whole));
}

std::string at_kernel(const Trace& trace, KernelIndex kernel) {
  return kernel < trace.kernels.size()
             ? fmt::format("kernel {} {}", kernel, trace.kernels[kernel].name)
             : "no kernel";
}

std::string group(const char* name, const TensorGroup& tensors) {
  return fmt::format("  {:<14}{:>8}  {:>10}\n", name, tensors.count, format_bytes(tensors.bytes));
}

std::string heading(const Trace& trace, const TraceSummary& summary) {
  std::string out = model_and_batch(trace.model, trace.batch_size);
  if (!trace.device.empty()) {
    out += fmt::format(", measured on {}", trace.device);
  }
  if (!trace.dtype.empty()) {
    out += fmt::format(", {}", trace.dtype);
  }
  return out + fmt::format("\n{} kernels, {} an iteration with every operand in device memory\n\n",
                           trace.kernels.size(), format_time(summary.iteration_ns));
}

std::string tensors(const TraceSummary& summary) {
  return "tensors            count        size\n" + group("persistent", summary.persistent) +
         group("intermediate", summary.intermediate) + group("scratch", summary.scratch) +
         group("(unused)", summary.unused) + "\n";
}

std::string memory(const Trace& trace, const MemoryCurve& curve, const ActiveShare& active) {
  return fmt::format(
      "memory\n"
      "  peak of all live tensors     {:>10}  at {}\n"
      "  largest working set          {:>10}  at {}\n"
      "  active, of the peak          mean {} over kernels, {} over time; largest {}\n"
      "  kernels that use under 10 % of the peak: {}\n\n",
      format_bytes(curve.peak_live_bytes), at_kernel(trace, curve.peak_kernel),
      format_bytes(curve.largest_working_set_bytes),
      at_kernel(trace, curve.largest_working_set_kernel), percent(active.mean),
      percent(active.time_mean), percent(active.max), percent(active.kernels_below_tenth));
}

std::string periods_text(const PeriodSummary& periods, double bandwidth_bytes_per_s) {
  std::string out = fmt::format("inactive periods: {}, {} of them wrap into the next iteration\n",
                                periods.count, periods.wrapping);
  if (periods.count == 0) {
    return out;
  }
  out += fmt::format("  length       {} to {}\n  percentiles ", format_time(periods.shortest_ns),
                     format_time(periods.longest_ns));
  for (std::size_t i = 0; i < kPeriodPercentiles.size(); ++i) {
    out += fmt::format("{} {}: {}", i == 0 ? "" : ",", kPeriodPercentiles[i],
                       format_time(periods.percentile_ns[i]));
  }
  out += "\n  longer than ";
  for (std::size_t i = 0; i < kPeriodDecadesNs.size(); ++i) {
    out += fmt::format("{} {}: {}", i == 0 ? "" : ",", format_time(kPeriodDecadesNs[i]),
                       percent_of(periods.longer_than[i], periods.count));
  }
  return out + fmt::format(
                   "\n  long enough to move the tensor out and back at {:.6g} GB/s each way: {} "
                   "({}), {} of {}\n",
                   bandwidth_bytes_per_s / 1e9, periods.hideable,
                   percent_of(periods.hideable, periods.count),
                   format_bytes(periods.hideable_bytes), format_bytes(periods.bytes));
}

std::string bound(const Trace& trace, const MachineBound& on) {
  const LowerBound& bound = on.bound;
  std::string out = fmt::format(
      "\nat best on {} ({} device memory)\n"
      "  iteration      {:>10}  {} in the long run\n"
      "  compute        {:>10}\n"
      "  link           {:>10}  {} to the device, {} from it\n"
      "  storage reads  {:>10}  {}\n",
      on.machine.name, format_bytes(on.machine.device.capacity_bytes),
      format_time(bound.iteration_ns), format_time(bound.lasting_ns), format_time(bound.compute_ns),
      format_time(bound.link_ns), format_bytes(bound.to_device_bytes),
      format_bytes(bound.from_device_bytes), format_time(bound.storage_ns),
      format_bytes(bound.storage_read_bytes));
  if (!bound.runs_without_paging()) {
    out += fmt::format(
        "  {} kernels need more than device memory, the first is {}: they run only with paging\n",
        bound.over_capacity.size(), at_kernel(trace, bound.over_capacity.front()));
  }
  return out;
}

}  // namespace

std::string analysis_text(const Analysis& analysis) {
  std::string out = heading(analysis.trace, analysis.summary) + tensors(analysis.summary) +
                    memory(analysis.trace, analysis.curve, analysis.summary.active) +
                    periods_text(analysis.summary.periods, analysis.bandwidth_bytes_per_s);
  if (analysis.machine) {
    out += bound(analysis.trace, *analysis.machine);
  }
  return out;
}

}  // namespace spillway
