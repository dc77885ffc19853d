// See run_without_effect.h.
#include "cli/run/run_without_effect.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "cli/nearest_name.h"
#include "cli/run/run_program.h"

namespace spillway {
namespace {

using Lines = std::vector<std::string>;

// Settings of a space, as options and as variables.
struct Setting {
  const char* option;
  const char* variable;
};
constexpr Setting kHostMemory{"--host-memory", "SPILLWAY_HOST_MEMORY"};
constexpr Setting kDeviceMemory{"--device-memory", "SPILLWAY_DEVICE_MEMORY"};
constexpr Setting kFaultLatency{"--fault-latency", "SPILLWAY_FAULT_LATENCY"};
constexpr Setting kThreshold{"--threshold", "SPILLWAY_THRESHOLD"};
constexpr Setting kPrefetchDegree{"--prefetch-degree", "SPILLWAY_PREFETCH_DEGREE"};

// All that anything here reads: settings, what is for tests and measurements, and what one part of
// Spillway tells another.
constexpr std::array<std::string_view, 28> kVariables{
    "SPILLWAY_DEVICE_MEMORY",  "SPILLWAY_HOST_MEMORY",
    "SPILLWAY_STORAGE",        "SPILLWAY_POLICY",
    "SPILLWAY_LINK_BANDWIDTH", "SPILLWAY_FAULT_LATENCY",
    "SPILLWAY_THRESHOLD",      "SPILLWAY_PREFETCH_DEGREE",
    "SPILLWAY_STRICT",         "SPILLWAY_CUDA_DRIVER",
    "SPILLWAY_NVML",           "SPILLWAY_CUFILE",
    "SPILLWAY_NVIDIA_FS",      "SPILLWAY_NVIDIA_FS_NODE",
    "SPILLWAY_WORK_TIMES",     "SPILLWAY_VERBOSE",
    "SPILLWAY_MODULE_NAMES",   "SPILLWAY_TRACE_EVENTS",
    "SPILLWAY_BUILD",          "SPILLWAY_RECORD",
    "SPILLWAY_DEVICE",         "SPILLWAY_OPERATORS",
    "SPILLWAY_CAPTURE",        "SPILLWAY_CAPTURE_WARM_UP",
    "SPILLWAY_SEED",           "SPILLWAY_PROGRAM",
    "SPILLWAY_EVENTS",         "SPILLWAY_NEAR_OPTIMIZER"};

std::string value_of(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

// As the person has set it.
std::optional<std::string> as_set(const Setting& setting, const std::string& option) {
  const std::string value = value_of(setting.variable);
  return !option.empty() ? std::optional(fmt::format("{} {}", setting.option, option))
         : value.empty() ? std::nullopt
                         : std::optional(fmt::format("{}={}", setting.variable, value));
}

void add(Lines& lines, const std::optional<std::string>& set, std::string_view why) {
  if (set) {
    lines.push_back(fmt::format("{} has no effect: {}", *set, why));
  }
}

// --- Options -------------------------------------------------------------------------------------

void add_for_gpu(Lines& lines, const RunOptions& options) {
  add(lines, as_set(kFaultLatency, options.fault_latency),
      "on a GPU nothing moves by page faults; leave it out, or use --device host");
  add(lines, as_set(kThreshold, options.threshold),
      "on a GPU every allocation of device memory is served, whatever its size; leave it out, or "
      "use --device host");
}

void add_for_policy(Lines& lines, const RunOptions& options, const RunKind& run) {
  const auto& [gpu, policy, traits] = run;
  if (!policy.starts_with("deepum")) {
    add(lines, as_set(kPrefetchDegree, options.prefetch_degree),
        fmt::format("the policy {} has no such degree; it is for --policy deepum and deepum_plus",
                    policy));
  }
  if (!traits.uses_host) {
    add(lines, as_set(kHostMemory, options.host_memory),
        fmt::format("the policy {} moves data to storage only; leave it out, or take another "
                    "--policy",
                    policy));
  }
  if (traits.unlimited_device && !gpu) {
    add(lines, as_set(kDeviceMemory, options.device_memory),
        fmt::format("the policy {} stands for unlimited device memory; take another --policy for "
                    "a budget",
                    policy));
  }
}

// --- Variables -----------------------------------------------------------------------------------

std::string advice_for(std::string_view name) {
  const std::string_view nearest = nearest_name(name, kVariables);
  return nearest.empty() ? "docs/commands.md has the names" : fmt::format("is {} meant?", nearest);
}

void add_unknown_variables(Lines& lines) {
  constexpr std::string_view kOurs = "SPILLWAY_";
  constexpr std::string_view kForTests = "SPILLWAY_TEST_";
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view entry(*at);
    const std::string_view name = entry.substr(0, entry.find('='));
    if (name.starts_with(kOurs) && !name.starts_with(kForTests) &&
        std::find(kVariables.begin(), kVariables.end(), name) == kVariables.end()) {
      lines.push_back(
          fmt::format("{} has no effect: nothing reads it; {}", name, advice_for(name)));
    }
  }
}

// What one part of Spillway tells another, and what others are told with: a person's is replaced.
// In a run inside a run it is ours already.
void add_replaced_variables(Lines& lines, bool on_gpu) {
  if (std::getenv("SPILLWAY_RECORD") != nullptr) {
    return;
  }
  if (const std::string device = value_of("SPILLWAY_DEVICE"); !device.empty()) {
    lines.push_back(fmt::format(
        "SPILLWAY_DEVICE={} has no effect: it is what a run tells its program; use --device",
        device));
  }
  for (const char* const name : {"INTEL_LIBITTNOTIFY64", "INTEL_ITTNOTIFY_GROUPS"}) {
    if (const std::string value = value_of(name); !value.empty() && !on_gpu) {
      lines.push_back(fmt::format(
          "{}={} has no effect: operators of PyTorch tell one listener, which is Spillway now; run "
          "the other one without `spillway run`",
          name, value));
    }
  }
}

// What libraries are told of device memory, and what it means with a budget.
void add_variables_of_libraries(Lines& lines) {
  if (const std::string value = value_of("TF_FORCE_UNIFIED_MEMORY");
      !value.empty() && value != "0") {
    lines.push_back(
        fmt::format("the device budget has no effect on what XLA allocates: "
                    "TF_FORCE_UNIFIED_MEMORY={} makes it managed memory, which the driver moves "
                    "by itself; unset it",
                    value));
  }
  if (const std::string value = value_of("CUDA_LAUNCH_BLOCKING"); value == "1") {
    lines.push_back(
        "the policy has no effect ahead of need: with CUDA_LAUNCH_BLOCKING=1 each launch is waited "
        "for before the next is known; unset it");
  }
}

// --- The program ---------------------------------------------------------------------------------

void add_for_program(Lines& lines, const RunOptions& options) {
  if (const std::string why = why_not_preloaded(options.command.front()); !why.empty()) {
    lines.push_back(
        fmt::format("{}: the budgets have no effect on it, only on programs that it "
                    "starts",
                    why));
  }
  if (const std::string flag = flag_that_keeps_hook_out(options.command); !flag.empty()) {
    lines.push_back(
        fmt::format("{} {} keeps Spillway's hook out of Python: PyTorch's operators and modules "
                    "are not told of; leave that flag out",
                    options.command.front(), flag));
  }
}

}  // namespace

std::vector<std::string> without_effect(const RunOptions& options, const RunKind& run) {
  Lines lines;
  if (run.gpu) {
    add_for_gpu(lines, options);
    add_variables_of_libraries(lines);
  }
  add_for_policy(lines, options, run);
  add_unknown_variables(lines);
  add_replaced_variables(lines, run.gpu);
  add_for_program(lines, options);
  return lines;
}

}  // namespace spillway
