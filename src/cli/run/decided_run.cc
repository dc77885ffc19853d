// See decided_run.h.
#include "cli/run/decided_run.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "cli/run/run_environment.h"
#include "cli/run/run_without_effect.h"
#include "platform/common/process/memory_room.h"
#include "runtime/cuda/cuda_space.h"

namespace spillway {
namespace {

// An option has been put into its variable.
std::string from(const char* option, const std::string& text, const char* variable) {
  const char* const value = std::getenv(variable);
  return !text.empty() ? option : value != nullptr && *value != '\0' ? variable : kDefault;
}

SettingsFrom settings_from(const RunOptions& options) {
  return {.device = options.device == "auto" ? kDefault : "--device " + options.device,
          .device_memory = from("--device-memory", options.device_memory, "SPILLWAY_DEVICE_MEMORY"),
          .host_memory = from("--host-memory", options.host_memory, "SPILLWAY_HOST_MEMORY"),
          .storage = from("--storage", options.storage, "SPILLWAY_STORAGE"),
          .policy = from("--policy", options.policy, "SPILLWAY_POLICY")};
}

// Of this machine's own memory. `then`: what comes of it.
void warn_of_too_much(std::vector<std::string>& warnings, const MemoryRoom& room,
                      const char* option, const std::string& text, const char* then) {
  const Result<Bytes> bytes = parse_bytes(text);
  if (bytes && *bytes > room.limit_bytes) {
    warnings.push_back(fmt::format("{}: {} is more than {} has, {}: {}", option, text, room.whose,
                                   format_bytes(room.limit_bytes), then));
  } else if (bytes && *bytes > room.to_promise_bytes()) {
    warnings.push_back(
        fmt::format("{}: {} is more than can be had now, {}: {}", option, text, room.text(), then));
  }
}

void fit_into_machine(DecidedRun& run, const RunOptions& options, const MemoryRoom& room) {
  if (!run.gpu) {
    warn_of_too_much(run.warnings, room, "--device-memory", options.device_memory,
                     "nothing will have to move before memory is short");
  }
  warn_of_too_much(run.warnings, room, "--host-memory", options.host_memory,
                   "memory will be short before that is full");
  if (!run.gpu) {
    if (std::string lowered = fit_into(room, run.space); !lowered.empty()) {
      run.warnings.push_back(std::move(lowered));
    }
  } else if (run.space.storage_path.empty() && room.to_promise_bytes() < kBlockBytes) {
    run.warnings.push_back(
        fmt::format("there is no memory to move data to: {}; what exceeds --device-memory will be "
                    "refused: name a place to swap to with --storage",
                    room.text_with_kept()));
  }
}

// On the host a space reserves eight addresses for each byte, and twice so many for host memory; a
// process has 2^47.
Status check_addresses(const SpaceOptions& space) {
  constexpr Bytes kMostBytes = Bytes{1} << 44U;
  return space.device_bytes + 2 * space.host_bytes <= kMostBytes
             ? Status()
             : make_error(ErrorCode::kInvalidInput,
                          "device memory of {} and host memory of {} are more than a process has "
                          "addresses for: the first and twice the second can be {} together; ask "
                          "for less",
                          format_bytes(space.device_bytes), format_bytes(space.host_bytes),
                          format_bytes(kMostBytes));
}

}  // namespace

Result<DecidedRun> decide_run(const RunOptions& options) {
  if (const Status valid = check_values(options); !valid) {
    return tl::unexpected<Error>(valid.error());
  }
  Result<RunDevice> found = find_device(options.device);
  if (!found) {
    return tl::unexpected<Error>(found.error());
  }
  RunDevice device = *std::move(found);
  set_variables(options);
  const MemoryRoom room = MemoryLimits().room();
  Result<SpaceOptions> space = space_options_from_environment(
      device.gpu ? gpu_defaults(room, device.gpu->memory_bytes) : host_defaults(room));
  if (!space) {
    return tl::unexpected<Error>(space.error());
  }
  const Result<const PolicyInfo*> policy = find_policy(space->policy);
  if (!policy) {
    return tl::unexpected<Error>(policy.error());
  }
  if (const Status enough = check_addresses(*space); !device.gpu && !enough) {
    return tl::unexpected<Error>(enough.error());
  }
  DecidedRun run{.gpu = std::move(device.gpu),
                 .space = *std::move(space),
                 .traits = (*policy)->traits,
                 .from = settings_from(options),
                 .near_optimizer = {},
                 .without_effect = {},
                 .warnings = {}};
  run.near_optimizer = choose_near(options.near_optimizer, run.gpu, run.space.link);
  run.without_effect = without_effect(
      options, {.gpu = run.gpu.has_value(), .policy = run.space.policy, .traits = run.traits});
  if (!device.why_gpu_is_not_used.empty()) {
    run.without_effect.push_back(std::move(device.why_gpu_is_not_used));
  }
  if (const Result<std::string> hook = python_hook(); !hook) {
    const std::string missing =
        "nothing is known of PyTorch's operators and optimizers: " + hook.error().message;
    run.near_optimizer.on = false;
    if (options.near_optimizer == "on") {
      run.without_effect.push_back("--near-optimizer on has no effect, and " + missing);
    } else {
      run.warnings.push_back(missing);
    }
  }
  // A person may set the variable for all runs.
  if (!run.without_effect.empty() &&
      (options.strict || std::getenv("SPILLWAY_STRICT") != nullptr)) {
    return make_error(ErrorCode::kInvalidInput, "{} (--strict)", run.without_effect.front());
  }
  fit_into_machine(run, options, room);
  return run;
}

}  // namespace spillway
