// Simulations as JSON and as tables. See simulate_report.h.
#include "cli/simulate/simulate_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/table.h"
#include "cli/trace/trace_info.h"

namespace spillway {
namespace {

// Keys in the order in which docs/commands.md describes them.
using Json = nlohmann::ordered_json;

Json seconds_or_null(const SimulationResult* result, TimeNs (*time_of)(const SimulationResult&)) {
  return result == nullptr ? Json(nullptr) : Json(to_seconds(time_of(*result)));
}

Json traffic(const EngineStats& stats) {
  return {{"host_to_device", stats.moved(Tier::kHost, Tier::kDevice)},
          {"device_to_host", stats.moved(Tier::kDevice, Tier::kHost)},
          {"storage_to_device", stats.moved(Tier::kStorage, Tier::kDevice)},
          {"device_to_storage", stats.moved(Tier::kDevice, Tier::kStorage)},
          {"host_to_storage", stats.moved(Tier::kHost, Tier::kStorage)},
          {"storage_to_host", stats.moved(Tier::kStorage, Tier::kHost)},
          {"saved_by_discard", stats.saved_by_discard_bytes},
          {"given_up", stats.given_up_bytes}};
}

std::string bytes_or_dash(Bytes bytes) { return bytes == 0 ? "-" : format_bytes(bytes); }
std::string count_or_dash(std::uint64_t count) {
  return count == 0 ? "-" : fmt::format("{}", count);
}

// Why the policy cannot run, without its name, which stands beside it.
std::string_view reason(const SimulationReport& report) {
  std::string_view message = report.outcome->result.error().message;
  const std::string name = fmt::format("{}: ", report.job->policy->name);
  if (message.starts_with(name)) {
    message.remove_prefix(name.size());
  }
  return message;
}

TextTable empty_table() {
  return TextTable({{"policy", Align::kLeft},
                    {"iteration"},
                    {"of ideal"},
                    {"stall"},
                    {"overlap"},
                    {"faults"},
                    {"late"},
                    {"from host"},
                    {"to host"},
                    {"from storage"},
                    {"to storage"},
                    {"saved"},
                    {"simulated in"}});
}

void add_row(TextTable& table, const SimulationReport& report) {
  std::string policy(report.job->policy->name);
  if (!report.outcome->result) {
    table.add({std::move(policy)}, fmt::format("cannot run: {}", reason(report)));
    return;
  }
  const SimulationResult& result = *report.outcome->result;
  const EngineStats& stats = result.stats;
  table.add({std::move(policy), format_time(result.iteration_ns),
             fmt::format("{:.1f} %", 100 * result.fraction_of_ideal()),
             format_time(result.stall_ns()), format_time(result.overlap_ns()),
             count_or_dash(stats.faults), count_or_dash(stats.late_prefetches),
             bytes_or_dash(stats.moved(Tier::kHost, Tier::kDevice)),
             bytes_or_dash(stats.moved(Tier::kDevice, Tier::kHost)),
             bytes_or_dash(stats.moved(Tier::kStorage, Tier::kDevice)),
             bytes_or_dash(stats.moved(Tier::kDevice, Tier::kStorage)),
             bytes_or_dash(stats.saved_by_discard_bytes),
             fmt::format("{:.2f} s", report.outcome->wall_s)});
}

std::string heading(const SimulationReport& report) {
  const TraceFacts& trace = *report.outcome->trace;
  return fmt::format("{}\n{}: {} kernels, {} ideal; machine {}\n", report.trace_file,
                     model_and_batch(trace.model, trace.batch_size),
                     trace.kernel_durations_ns.size(), format_time(trace.ideal_ns),
                     report.job->machine.name);
}

}  // namespace

std::string simulation_json(const SimulationReport& report) {
  const TraceFacts& trace = *report.outcome->trace;
  const SimulationResult* result = report.outcome->result ? &*report.outcome->result : nullptr;
  Json json{
      {"trace", report.trace_file},
      {"model", trace.model},
      {"batch_size", trace.batch_size},
      {"policy", report.job->policy->name},
      {"machine", report.job->machine.name},
      {"iteration_s",
       seconds_or_null(result, [](const SimulationResult& r) { return r.iteration_ns; })},
      {"ideal_s", to_seconds(trace.ideal_ns)},
      {"fraction_of_ideal", result == nullptr ? Json(nullptr) : Json(result->fraction_of_ideal())},
      {"stall_s", seconds_or_null(result, [](const SimulationResult& r) { return r.stall_ns(); })},
      {"overlap_s",
       seconds_or_null(result, [](const SimulationResult& r) { return r.overlap_ns(); })},
  };
  if (result == nullptr) {
    for (const char* key : {"faults", "late_prefetches", "prefetches", "updates", "traffic_bytes",
                            "write_amplification", "storage_lifetime_years"}) {
      json[key] = nullptr;
    }
    json["cannot_run"] = reason(report);
  } else {
    json["faults"] = result->stats.faults;
    json["late_prefetches"] = result->stats.late_prefetches;
    json["prefetches"] = {{"used", result->stats.prefetches_used},
                          {"wasted", result->stats.prefetches_wasted}};
    json["updates"] = result->stats.updates;
    json["traffic_bytes"] = traffic(result->stats);
    json["write_amplification"] = result->write_amplification;
    json["storage_lifetime_years"] =
        result->storage_lifetime_years ? Json(*result->storage_lifetime_years) : Json(nullptr);
  }
  json["simulation_s"] = report.outcome->wall_s;
  // Names come from files and may not be UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string simulation_tables(std::span<const SimulationReport> reports) {
  std::string out;
  for (std::size_t first = 0; first < reports.size();) {
    TextTable table = empty_table();
    std::size_t i = first;
    for (; i < reports.size() && reports[i].job->trace == reports[first].job->trace; ++i) {
      add_row(table, reports[i]);
    }
    if (first != 0) {
      out += '\n';
    }
    out += heading(reports[first]);
    out += table.text("  ");
    first = i;
  }
  return out;
}

}  // namespace spillway
