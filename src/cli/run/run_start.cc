// See run_start.h. Nothing here decides anything.
#include "cli/run/run_start.h"

#include <fmt/format.h>
#include <unistd.h>

#include <string>

#include "cli/version.h"
#include "platform/cuda/driver/cufile.h"
#include "policy/registry.h"

namespace spillway {
namespace {

Bytes memory_of_machine() {
  return static_cast<Bytes>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<Bytes>(::sysconf(_SC_PAGESIZE));
}

// On what it runs, for the line.
std::string fill_in_device(RunStart& start, const DecidedRun& run) {
  if (!run.gpu) {
    start.device.name = "host";
    start.memory_bytes = memory_of_machine();
    return fmt::format("this machine's own memory ({}; {})", format_bytes(start.memory_bytes),
                       start.device.from == kDefault ? "no GPU was found" : start.device.from);
  }
  const GpuFacts& gpu = *run.gpu;
  start.device.name = "cuda";
  start.gpu = gpu.name;
  start.memory_bytes = gpu.memory_bytes;
  return fmt::format(
      "{} ({}{})", gpu.name, format_bytes(gpu.memory_bytes),
      gpu.count == 1 ? "" : fmt::format("; of {} devices the first that it uses", gpu.count));
}

// What runs could do and this one does not; what turns out only once the program runs is said then.
std::vector<RunSwitchedOff> switched_off(const RunStart& start, const PolicyTraits& traits,
                                         bool slow_link) {
  std::vector<RunSwitchedOff> all;
  if (start.gpu.empty()) {
    return all;
  }
  if (!traits.recomputes) {
    all.push_back(
        {.what = "recomputation", .why = fmt::format("the policy {} has none", start.policy.name)});
  }
  if (slow_link) {  // docs/cuda.md, "A slower link"
    all.push_back({.what = "host-mapped memory", .why = "--link-bandwidth cannot hold it back"});
  }
  if (start.storage.name.empty()) {
    return all;
  }
  if (const cuda::CuFileNeeds needs = cuda::cufile_needs({}); slow_link) {
    all.push_back({.what = "direct storage", .why = "--link-bandwidth cannot hold it back"});
  } else if (!needs.all()) {
    all.push_back({.what = "direct storage", .why = cuda::missing_text(needs)});
  }
  return all;
}

// --- The line -----------------------------------------------------------------------------------

std::string device_text(const RunStart& start, bool unlimited) {
  const RunBudget& budget = start.device_memory;
  if (unlimited && start.gpu.empty()) {
    return fmt::format("unlimited device memory (policy {})", start.policy.name);
  }
  if (budget.from != kDefault) {
    return fmt::format("{} of device memory ({})", format_bytes(budget.bytes), budget.from);
  }
  return start.gpu.empty()
             ? fmt::format("{} of device memory (default: three quarters of what is available)",
                           format_bytes(budget.bytes))
             : fmt::format(
                   "at most {} of device memory (default: nine tenths of what is free when "
                   "it is first used)",
                   format_bytes(budget.bytes));
}

std::string host_text(const RunStart& start) {
  const RunBudget& budget = start.host_memory;
  if (budget.bytes == 0) {
    return fmt::format("no host memory ({})",
                       budget.from.empty() ? "policy " + start.policy.name : budget.from);
  }
  return fmt::format("{} of host memory ({}{}{})", format_bytes(budget.bytes), budget.from,
                     budget.from == kDefault ? ": at most half of what is available" : "",
                     start.gpu.empty() ? "" : "; pinned as it is used");
}

std::string storage_text(const RunStart& start) {
  if (start.storage.name.empty()) {
    return "no storage";
  }
  return start.storage_bytes == 0
             ? fmt::format("storage in {} as far as there is room ({})", start.storage.name,
                           start.storage.from)
             : fmt::format("{} of storage in {} ({})", format_bytes(start.storage_bytes),
                           start.storage.name, start.storage.from);
}

std::string line_of(const RunStart& start, const std::string& where, bool unlimited) {
  std::string line = fmt::format("{}{}: {}, {}, {}; policy {} ({})", kStartLineBegin, where,
                                 device_text(start, unlimited), host_text(start),
                                 storage_text(start), start.policy.name, start.policy.from);
  if (!start.gpu.empty()) {
    if (start.near_optimizer.name == "on") {
      line += fmt::format("; optimizer updates at the host where that is faster ({})",
                          start.near_optimizer.from);
    }
    line += start.switched_off.empty() ? "; nothing is switched off" : "; switched off: ";
    for (std::size_t i = 0; i < start.switched_off.size(); ++i) {
      const RunSwitchedOff& off = start.switched_off[i];
      line += fmt::format("{}{} ({})", i == 0 ? "" : ", ", off.what, off.why);
    }
  }
  return line;
}

}  // namespace

RunStart run_start(const DecidedRun& run) {
  const SpaceOptions& space = run.space;
  RunStart start;
  start.version = version();
  start.commit = commit();
  start.device.from = run.from.device;
  const std::string where = fill_in_device(start, run);
  start.policy = {.name = space.policy, .from = run.from.policy};
  start.near_optimizer = {.name = run.near_optimizer.on ? "on" : "off",
                          .from = run.near_optimizer.from};
  start.device_memory = {.bytes = space.device_bytes, .from = run.from.device_memory};
  start.host_memory = {.bytes = run.traits.uses_host ? space.host_bytes : 0,
                       .from = run.traits.uses_host ? run.from.host_memory : ""};
  start.pinned_at_most_bytes = run.gpu ? start.host_memory.bytes : 0;
  if (!space.storage_path.empty()) {
    start.storage = {.name = space.storage_path, .from = run.from.storage};
    start.storage_bytes = space.storage_bytes;
  }
  start.switched_off = switched_off(start, run.traits, space.link.limited());
  start.without_effect = run.without_effect;
  start.line = line_of(start, where, run.traits.unlimited_device);
  return start;
}

}  // namespace spillway
