// Small programs under `spillway run`, one for each kind of device: the only test that leaves
// nothing out. See doctor_checks.h and doctor_trial.h.
#include "cli/doctor/doctor_trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "base/units.h"
#include "cli/complain.h"
#include "cli/doctor/doctor_checks.h"
#include "cli/doctor/doctor_child.h"
#include "cli/run/run_device.h"
#include "cli/run/run_start.h"
#include "platform/cuda/driver/driver.h"

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

// Large enough to be Spillway's, in either trial.
constexpr Bytes kTriedBytes = 8 * kMiB;
// Of which so many are more than the budget on a GPU: what they hold has to leave and come back.
constexpr std::size_t kTriedOnGpu = 12;
constexpr const char* kBudget = "64MiB";

// What our own program says is wrong, or else the last line of all.
std::string complaint_in(std::string text) {
  constexpr std::string_view kOurs = "spillway: ";
  text.erase(text.find_last_not_of('\n') + 1);
  std::size_t at = text.find(kOurs);
  if (at != std::string::npos && text.substr(at + kOurs.size()).starts_with(kStartLineBegin)) {
    at = text.find(kOurs, at + 1);
  }
  return at == std::string::npos
             ? text.substr(text.find_last_of('\n') + 1)
             : text.substr(at + kOurs.size(), text.find('\n', at) - at - kOurs.size());
}

// The record tells whether the program's memory was Spillway's, and whether it had to move.
Status try_run(const std::string& device, const std::vector<std::string>& program) {
  constexpr std::chrono::seconds kTime{30};
  std::vector<std::string> words{"/proc/self/exe",
                                 "run",
                                 "--json",
                                 "-",
                                 "--device",
                                 device,
                                 "--device-memory",
                                 kBudget,
                                 "--host-memory",
                                 kBudget,
                                 "--threshold",
                                 "1MiB",
                                 "--"};
  words.insert(words.end(), program.begin(), program.end());
  const Result<ChildOutcome> outcome = run_child(std::move(words), kTime);
  if (!outcome) {
    return tl::unexpected<Error>(outcome.error());
  }
  if (outcome->status != 0) {
    return make_error(ErrorCode::kUnsupported, "{}", complaint_in(outcome->err));
  }
  const Json record = Json::parse(outcome->out, nullptr, false);
  if (!record.is_object() || record.value("peak_bytes", Bytes{0}) < kTriedBytes) {
    return make_error(ErrorCode::kUnsupported,
                      "the program ran, but none of its memory was Spillway's: is its library the "
                      "one that was built with it?");
  }
  if (device == "cuda" && record["moved_bytes"].value("host_to_device", Bytes{0}) == 0) {
    return make_error(ErrorCode::kUnsupported,
                      "the program used more than its {} of device memory, and nothing moved",
                      kBudget);
  }
  return {};
}

Fact trial(const char* key, const std::string& device, const std::vector<std::string>& program,
           const std::string& again) {
  const Status works = try_run(device, program);
  return {.key = key,
          .mark = works ? Mark::kOk : Mark::kMissing,
          .text = works ? fmt::format("a small program ran with its memory under Spillway{} "
                                      "(--device {})",
                                      device == "cuda" ? ", more than it had of the device" : "",
                                      device)
                        : fmt::format("a small program could not be run with --device {}: {}",
                                      device, works.error().message),
          .advice = works ? "" : fmt::format("`{}` shows it again", again),
          .value = works.has_value()};
}

// dd reads into its buffer inside a system call, so this needs everything that a run does.
Fact host_trial() {
  return trial("host_trial", "host",
               {"dd", "if=/dev/zero", "of=/dev/null", fmt::format("bs={}", kTriedBytes), "count=2"},
               "spillway run --device host --device-memory 64MiB -- dd if=/dev/zero of=/dev/null "
               "bs=8M count=2");
}

Fact gpu_trial() {
  return trial("gpu_trial", "cuda", {"/proc/self/exe", "gpu-trial"},
               "spillway run --device cuda --device-memory 64MiB -- spillway gpu-trial");
}

unsigned char byte_of(std::size_t number) {
  constexpr unsigned char kFirst = 0x51;
  return static_cast<unsigned char>(kFirst + number);
}

// In a program under `spillway run`, the driver's functions that `open_driver` finds are those that
// stand in front of them.
Status use_device_memory() {
  const Result<cuda::Driver> driver = cuda::open_driver();
  if (!driver) {
    return tl::unexpected<Error>(driver.error());
  }
  cuda::CuDevice device = 0;
  cuda::CuContext context = nullptr;
  std::array<cuda::CuAddress, kTriedOnGpu> memory{};
  std::vector<unsigned char> seen(kTriedBytes);
  bool held = true;
  Status ok = cuda::check(*driver, "cuInit", driver->init(0));
  if (ok) ok = cuda::check(*driver, "cuDeviceGet", driver->device_get(&device, 0));
  if (ok)
    ok = cuda::check(*driver, "cuDevicePrimaryCtxRetain",
                     driver->primary_context_retain(&context, device));
  if (ok) ok = cuda::check(*driver, "cuCtxSetCurrent", driver->context_set_current(context));
  for (std::size_t i = 0; ok && i < memory.size(); ++i) {
    ok = cuda::check(*driver, "cuMemAlloc", driver->memory_alloc(&memory[i], kTriedBytes));
    if (ok)
      ok = cuda::check(*driver, "cuMemsetD8Async",
                       driver->set_bytes(memory[i], byte_of(i), kTriedBytes, nullptr));
  }
  for (std::size_t i = 0; ok && i < memory.size(); ++i) {
    ok = cuda::check(*driver, "cuMemcpyDtoHAsync",
                     driver->copy_out(seen.data(), memory[i], kTriedBytes, nullptr));
    if (ok) ok = cuda::check(*driver, "cuStreamSynchronize", driver->stream_synchronize(nullptr));
    held = held && std::all_of(seen.begin(), seen.end(),
                               [i](unsigned char byte) { return byte == byte_of(i); });
  }
  for (std::size_t i = 0; ok && i < memory.size(); ++i) {
    ok = cuda::check(*driver, "cuMemFree", driver->memory_free(memory[i]));
  }
  if (!ok) {
    return ok;
  }
  return held ? Status()
              : make_error(ErrorCode::kUnsupported,
                           "device memory did not hold what had been written to it");
}

}  // namespace

FactGroup check_trial() {
  FactGroup group{.key = "run", .title = "spillway run", .facts = {}};
  // What `spillway run` would take by itself comes first.
  const Result<RunDevice> device = find_device("auto");
  if (device && device->gpu) {
    group.facts.push_back(gpu_trial());
  }
  group.facts.push_back(host_trial());
  if (device && !device->reason.empty()) {
    group.facts.push_back(
        {.key = "gpu_trial",
         .mark = Mark::kMissing,
         .text = "no program could be tried with --device cuda: " + device->reason,
         .advice = "`spillway run --device cuda -- true` shows it again",
         .value = false});
  }
  return group;
}

void add_gpu_trial_command(CLI::App& app, int& exit_code) {
  CLI::App* const command =
      app.add_subcommand("gpu-trial", "Use a little device memory, as doctor's trial does");
  command->group("");
  command->callback([&exit_code] {
    const Status works = use_device_memory();
    exit_code = works ? 0 : complain(works.error());
  });
}

}  // namespace spillway
