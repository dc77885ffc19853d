// Starts a Python under stand-ins for its GPU, and reads what it leaves. See record_without_gpu.h.
#include "cli/trace/record_without_gpu.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "cli/run/run_child.h"
#include "cli/run/run_environment.h"
#include "cli/run/run_program.h"
#include "platform/common/process/say.h"
#include "trace/read.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

constexpr double kTenths = 10;

Status says_how_fast(const Machine& machine) {
  const DeviceTier& device = machine.device;
  if (device.memory_bandwidth_bytes_per_s <= 0 || device.bf16_flops_per_s <= 0 ||
      device.tf32_flops_per_s <= 0 || device.fp32_flops_per_s <= 0 || device.processors == 0 ||
      device.compute_capability <= 0) {
    return make_error(
        ErrorCode::kInvalidInput,
        "--machine {}: it does not say how fast its GPU is; set device.memory_bandwidth, "
        "flops_bf16, flops_tf32, flops_fp32, processors and compute_capability in its file",
        machine.name);
  }
  return {};
}

// As python/spillway/without_gpu/target.py reads it.
nlohmann::json machine_json(const Machine& machine) {
  const auto capability = std::lround(machine.device.compute_capability * kTenths);
  return {{"name", machine.name},
          {"memory_bytes", machine.device.capacity_bytes},
          {"memory_bandwidth", machine.device.memory_bandwidth_bytes_per_s},
          {"link_bandwidth", machine.link.to_device_bytes_per_s},
          {"bf16", machine.device.bf16_flops_per_s},
          {"tf32", machine.device.tf32_flops_per_s},
          {"fp32", machine.device.fp32_flops_per_s},
          {"processors", machine.device.processors},
          {"capability", {capability / 10, capability % 10}}};
}

Result<Environment> environment_of(const WithoutGpu& what, const std::string& file) {
  const Result<std::string> hook = python_hook();
  if (!hook) {
    return tl::unexpected<Error>(hook.error());
  }
  nlohmann::json others = nlohmann::json::array();
  for (const Machine& machine : what.others) {
    others.push_back(machine_json(machine));
  }
  Environment environment{put_first("PYTHONPATH", *hook),
                          {"SPILLWAY_WITHOUT_GPU", file},
                          {"SPILLWAY_WITHOUT_GPU_MACHINE", machine_json(what.machine).dump()},
                          {"SPILLWAY_WITHOUT_GPU_OTHERS", others.dump()},
                          {"SPILLWAY_CAPTURE_WARM_UP", std::to_string(what.warm_up)},
                          {"CUDA_VISIBLE_DEVICES", ""},  // a build with CUDA must not find one
                          {"PYTORCH_JIT", "0"}};  // scripted functions would not come to Python
  if (what.keeps_output) {
    environment.emplace_back("SPILLWAY_WITHOUT_GPU_PROGRESS", "1");
  }
  return environment;
}

// As python/spillway/without_gpu/trace_file.py names them.
Result<WithoutGpuEnd> read_recorded(const std::string& folder, std::size_t others) {
  WithoutGpuEnd end;
  for (std::size_t place = 0; place <= others; ++place) {
    Result<Trace> trace = read_trace(place == 0 ? folder + "/trace.json"
                                                : fmt::format("{}/trace-{}.json", folder, place));
    if (!trace) {
      return tl::unexpected<Error>(trace.error());
    }
    (place == 0 ? end.trace : end.others.emplace_back()) = std::move(*trace);
  }
  return end;
}

}  // namespace

Status check_without_gpu(const WithoutGpu& what) {
  for (const Machine& machine : what.others) {
    if (Status possible = says_how_fast(machine); !possible) {
      return possible;
    }
  }
  if (Status possible = says_how_fast(what.machine); !possible) {
    return possible;
  }
  if (const std::string flag = flag_that_keeps_hook_out(what.command); !flag.empty()) {
    return make_error(ErrorCode::kInvalidInput,
                      "{} keeps Spillway out of Python: leave it out to record", flag);
  }
  return {};
}

Result<WithoutGpuEnd> record_without_gpu(const WithoutGpu& what) {
  if (const Status possible = check_without_gpu(what); !possible) {
    return tl::unexpected<Error>(possible.error());
  }
  const RecordFolder records;
  if (const Status made = records.made(); !made) {
    return tl::unexpected<Error>(made.error());
  }
  const std::string file = records.path() + "/trace.json";
  const Result<Environment> environment = environment_of(what, file);
  if (!environment) {
    return tl::unexpected<Error>(environment.error());
  }
  const Result<ProgramEnd> end = run_program({.command = what.command,
                                              .environment = *environment,
                                              .records = records.path(),
                                              .out = what.keeps_output ? STDERR_FILENO : -1});
  if (!end) {
    return tl::unexpected<Error>(end.error());
  }
  std::error_code error;
  if (fs::exists(file, error)) {
    return read_recorded(records.path(), what.others.size());
  }
  constexpr int kSignal = 128;  // and from there on the signal's number
  if (end->status > kSignal) {
    say(fmt::format("nothing is recorded: signal {} ended the program", end->status - kSignal));
  }
  if (end->status != 0) {
    return WithoutGpuEnd{.trace = {}, .others = {}, .status = end->status};
  }
  return make_error(ErrorCode::kCannotRun,
                    "nothing is recorded: the program is no Python that imports torch");
}

}  // namespace spillway
