// The summary of a trace for programs.
#include <nlohmann/json.hpp>

#include "cli/analyze/analyze_report.h"

namespace spillway {
namespace {

// Keys stay in the order in which they are written here.
using Json = nlohmann::ordered_json;

Json group(const TensorGroup& tensors) {
  return {{"count", tensors.count}, {"bytes", tensors.bytes}};
}

Json at_kernel(const Trace& trace, KernelIndex kernel, Bytes bytes) {
  Json at{{"bytes", bytes}};
  if (kernel < trace.kernels.size()) {
    at["kernel"] = kernel;
    at["name"] = trace.kernels[kernel].name;
  }
  return at;
}

Json periods(const PeriodSummary& summary, double bandwidth_bytes_per_s) {
  Json percentiles = Json::object();
  for (std::size_t i = 0; i < kPeriodPercentiles.size(); ++i) {
    percentiles[std::to_string(kPeriodPercentiles[i])] = summary.percentile_ns[i];
  }
  Json longer = Json::array();
  for (std::size_t i = 0; i < kPeriodDecadesNs.size(); ++i) {
    longer.push_back({{"length_ns", kPeriodDecadesNs[i]}, {"count", summary.longer_than[i]}});
  }
  return {{"count", summary.count},
          {"wrapping", summary.wrapping},
          {"bytes", summary.bytes},
          {"shortest_ns", summary.shortest_ns},
          {"longest_ns", summary.longest_ns},
          {"percentiles_ns", percentiles},
          {"longer_than", longer},
          {"bandwidth_bytes_per_s", bandwidth_bytes_per_s},
          {"hideable", summary.hideable},
          {"hideable_bytes", summary.hideable_bytes}};
}

Json bound(const MachineBound& on) {
  return {{"machine", on.machine.name},
          {"iteration_ns", on.bound.iteration_ns},
          {"lasting_ns", on.bound.lasting_ns},
          {"compute_ns", on.bound.compute_ns},
          {"link_ns", on.bound.link_ns},
          {"storage_ns", on.bound.storage_ns},
          {"to_device_bytes", on.bound.to_device_bytes},
          {"from_device_bytes", on.bound.from_device_bytes},
          {"storage_read_bytes", on.bound.storage_read_bytes},
          {"kernels_over_capacity", on.bound.over_capacity}};
}

}  // namespace

std::string analysis_json(const Analysis& analysis) {
  const Trace& trace = analysis.trace;
  const MemoryCurve& curve = analysis.curve;
  const TraceSummary& summary = analysis.summary;
  Json json{
      {"model", trace.model},
      {"batch_size", trace.batch_size},
      {"device", trace.device},
      {"dtype", trace.dtype},
      {"kernels", trace.kernels.size()},
      {"iteration_ns", summary.iteration_ns},
      {"tensors",
       {{"persistent", group(summary.persistent)},
        {"intermediate", group(summary.intermediate)},
        {"scratch", group(summary.scratch)},
        {"unused", group(summary.unused)}}},
      {"peak_live", at_kernel(trace, curve.peak_kernel, curve.peak_live_bytes)},
      {"largest_working_set",
       at_kernel(trace, curve.largest_working_set_kernel, curve.largest_working_set_bytes)},
      {"active_share",
       {{"mean", summary.active.mean},
        {"time_mean", summary.active.time_mean},
        {"max", summary.active.max},
        {"kernels_below_tenth", summary.active.kernels_below_tenth}}},
      {"periods", periods(summary.periods, analysis.bandwidth_bytes_per_s)},
  };
  if (analysis.machine) {
    json["lower_bound"] = bound(*analysis.machine);
  }
  // Names come from files and may not be UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace spillway
