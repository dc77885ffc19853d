// See run_summary.h.
#include "front/run_summary.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace spillway {

namespace {

std::string plan_text(const nlohmann::json& plan) {
  if (const std::string error = plan.value("error", ""); !error.empty()) {
    return fmt::format("  plan       none: {}\n", error);
  }
  const auto bytes = [&](const char* name) { return format_bytes(plan.value(name, Bytes{0})); };
  const auto number = plan.value("number", 1);
  const std::string anew =
      number > 1 ? fmt::format("; number {}, since the program has changed", number) : "";
  return fmt::format(
      "  plan       {} launches, {} tensors, {} alive at once; an iteration moves {} to host "
      "memory "
      "and {} to storage, and takes {:.2f} s instead of {:.2f} s{}\n",
      plan.value("launches", 0), plan.value("tensors", 0), bytes("peak_bytes"),
      bytes("to_host_bytes"), bytes("to_storage_bytes"), plan.value("estimated_s", 0.0),
      plan.value("computation_s", 0.0), anew);
}

}  // namespace

std::string summary_text(const std::string& record_json) {
  const nlohmann::json record = nlohmann::json::parse(record_json, nullptr, false);
  if (!record.is_object() || !record.contains("moved_bytes")) {
    return "spillway: the run left no readable record\n";
  }
  const auto bytes = [&](const char* group, const char* name) {
    return format_bytes(record[group].value(name, Bytes{0}));
  };
  const auto count = [&](const char* name) { return record.value(name, std::uint64_t{0}); };
  std::string text = fmt::format(
      "spillway: {} for {:.1f} s, stalled {:.2f} s ({:.1f} %)\n", record.value("policy", ""),
      record.value("elapsed_s", 0.0), record.value("stalled_s", 0.0),
      100 * record.value("stalled_s", 0.0) / std::max(record.value("elapsed_s", 0.0), 1e-9));
  text +=
      fmt::format("  peak       {} with {} of device memory, {} of host memory, {} of storage\n",
                  format_bytes(count("peak_bytes")), bytes("budget_bytes", "device"),
                  bytes("budget_bytes", "host"), bytes("budget_bytes", "storage"));
  text += fmt::format("  faults     {} on missing blocks, {} on first writes\n",
                      count("page_faults"), count("write_faults"));
  text += fmt::format("  prefetches {} blocks: {} used, {} came too late, {} left again unused\n",
                      count("prefetched_blocks"), count("prefetches_used"),
                      count("prefetches_late"), count("prefetches_wasted"));
  text += fmt::format(
      "  moved      {} in from host, {} out; {} in from storage, {} out\n",
      bytes("moved_bytes", "host_to_device"), bytes("moved_bytes", "device_to_host"),
      bytes("moved_bytes", "storage_to_device"), bytes("moved_bytes", "device_to_storage"));
  text += fmt::format("  not moved  {} that were dead\n",
                      format_bytes(count("saved_by_discard_bytes")));
  if (record.contains("plan")) {
    text += plan_text(record["plan"]);
  }
  return text;
}

Status summarize_run(const std::string& folder, bool json) {
  std::error_code error;
  std::size_t found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".json") {
      continue;
    }
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    ++found;
    if (json) {
      std::fputs((text + "\n").c_str(), stdout);
    } else {
      std::fputs(summary_text(text).c_str(), stderr);
    }
  }
  if (found == 0) {
    std::fputs(
        "spillway: no large allocation was made, or the program ended without its exit "
        "handlers: there is nothing to report\n",
        stderr);
  }
  return {};
}

}  // namespace spillway
