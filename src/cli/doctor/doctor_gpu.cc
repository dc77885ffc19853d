// What the GPU and its driver offer, as the driver tells it: opened at run time, initialized, and
// asked; we make no context, so nothing is taken from the device. See doctor_checks.h.
#include <fmt/format.h>
#include <sys/resource.h>

#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "cli/doctor/doctor_checks.h"
#include "platform/cuda/driver/cufile.h"
#include "platform/cuda/driver/driver.h"

namespace spillway {
namespace {

using cuda::CuAttribute;
using Json = nlohmann::ordered_json;

class Device {
 public:
  Device(const cuda::Driver& driver, cuda::CuDevice device) : driver_(driver), device_(device) {}

  [[nodiscard]] int attribute(CuAttribute which) const {
    int value = 0;
    return driver_.device_attribute(&value, which, device_) == cuda::CuResult::kSuccess ? value : 0;
  }
  [[nodiscard]] std::string name() const {
    const std::string name = cuda::device_name(driver_, device_);
    return name.empty() ? "unknown" : name;
  }
  [[nodiscard]] Bytes memory_bytes() const {
    std::size_t bytes = 0;
    (void)driver_.device_total_memory(&bytes, device_);
    return bytes;
  }

 private:
  const cuda::Driver& driver_;
  cuda::CuDevice device_;
};

// Needed, or there is no `spillway run --device cuda`.
Fact needed(const Device& device, const char* key, CuAttribute attribute, const char* what) {
  const bool there = device.attribute(attribute) != 0;
  return {.key = key,
          .mark = there ? Mark::kOk : Mark::kMissing,
          .text = there ? fmt::format("{}", what)
                        : fmt::format("no {}: `spillway run --device cuda` needs it", what),
          .advice = there ? "" : "a newer driver may have it; older cards have not",
          .value = there};
}

Fact handle_types(const Device& device) {
  std::vector<std::string> types;
  for (const auto& [attribute, name] :
       {std::pair(CuAttribute::kHandleTypeFileDescriptor, "file descriptor"),
        std::pair(CuAttribute::kHandleTypeFabric, "fabric")}) {
    if (device.attribute(attribute) != 0) {
      types.emplace_back(name);
    }
  }
  return {.key = "handle_types",
          .mark = Mark::kOk,
          .text = types.empty() ? "memory handles cannot be exported to other processes"
                                : fmt::format("memory handles can be exported as: {}",
                                              fmt::join(types, ", ")),
          .advice = "",
          .value = types};
}

Fact copy_engines(const Device& device) {
  const int count = device.attribute(CuAttribute::kAsyncEngineCount);
  const bool both_ways = count >= 2;
  return {.key = "copy_engines",
          .mark = both_ways ? Mark::kOk : Mark::kSlow,
          .text = fmt::format("{} copy engines{}", count,
                              both_ways ? "" : ": data does not move both ways at once"),
          .advice = "",
          .value = count};
}

Fact pinned_memory(const Device& device) {
  rlimit limit{};
  (void)::getrlimit(RLIMIT_MEMLOCK, &limit);
  const bool there = device.attribute(CuAttribute::kHostRegisterSupported) != 0;
  const bool unlimited = limit.rlim_cur == RLIM_INFINITY;
  return {.key = "pinned_memory",
          .mark = there ? Mark::kOk : Mark::kMissing,
          .text = !there ? "host memory cannot be pinned: `spillway run --device cuda` needs it"
                  : unlimited
                      ? "host memory can be pinned; no limit on locked memory"
                      : fmt::format("host memory can be pinned; locked memory is limited to {}",
                                    format_bytes(limit.rlim_cur)),
          .advice = "",
          .value = {{"supported", there},
                    {"locked_memory_limit_bytes", unlimited ? Json() : Json(limit.rlim_cur)}}};
}

// libcufile is a run's to open: what else is found out needs a swap file and memory on the device.
Fact gpudirect_storage() {
  const cuda::CuFileNeeds needs = cuda::cufile_needs({});
  std::vector<std::string> advice;
  if (!needs.module) {
    advice.emplace_back("load nvidia-fs (GPUDirect Storage)");
  } else if (!needs.node) {
    advice.emplace_back("let this user read and write /dev/nvidia-fs0");
  }
  if (!needs.word) {
    advice.push_back(fmt::format("set {}=false for runs", cuda::kCuFileCompatibilityVariable));
  }
  return {.key = "gpudirect_storage",
          .mark = needs.all() ? Mark::kOk : Mark::kMissing,
          .text = needs.all()
                      ? "GPUDirect Storage: a run tries it on its swap file, and uses it between "
                        "device and storage if it works there"
                      : fmt::format("no GPUDirect Storage, so storage is reached through pinned "
                                    "memory: {}",
                                    cuda::missing_text(needs)),
          .advice = fmt::format("{}", fmt::join(advice, "; ")),
          .value = {{"nvidia_fs", needs.module},
                    {"device_node", needs.node},
                    {"compatibility_mode_off", needs.word},
                    {"tried_by_runs", needs.all()}}};
}

void add_device(const cuda::Driver& driver, cuda::CuDevice ordinal, FactGroup& group) {
  const Device device(driver, ordinal);
  const auto add = [&group](const char* key, std::string text, Json value) {
    group.facts.push_back({.key = key,
                           .mark = Mark::kOk,
                           .text = std::move(text),
                           .advice = "",
                           .value = std::move(value)});
  };
  const std::string capability =
      fmt::format("{}.{}", device.attribute(CuAttribute::kComputeCapabilityMajor),
                  device.attribute(CuAttribute::kComputeCapabilityMinor));
  add("name", fmt::format("{}, compute capability {}", device.name(), capability), device.name());
  add("memory_bytes", fmt::format("{} of device memory", format_bytes(device.memory_bytes())),
      device.memory_bytes());
  group.facts.push_back(needed(device, "virtual_memory", CuAttribute::kVirtualMemoryManagement,
                               "mapping of memory by the program"));
  group.facts.push_back(needed(device, "stream_values", CuAttribute::kStreamMemoryOperations64,
                               "waits for values on streams"));
  group.facts.push_back(needed(device, "unified_addressing", CuAttribute::kUnifiedAddressing,
                               "one address space with the host"));
  const bool backs = device.attribute(CuAttribute::kHostNumaVirtualMemory) != 0;
  group.facts.push_back(
      {.key = "host_backing",
       .mark = backs ? Mark::kOk : Mark::kSlow,
       .text = backs ? "host memory behind device addresses, for launches larger than the budget"
                     : "no host memory behind device addresses: a launch larger than the budget "
                       "cannot run",
       .advice = "",
       .value = backs});
  group.facts.push_back(handle_types(device));
  group.facts.push_back(copy_engines(device));
  group.facts.push_back(pinned_memory(device));
}

}  // namespace

void add_driver_facts(FactGroup& group) {
  const Result<cuda::Driver> driver = cuda::open_driver();
  Status ok = driver ? cuda::check(*driver, "cuInit", driver->init(0))
                     : tl::unexpected<Error>(driver.error());
  int version = 0;
  int count = 0;
  if (ok) ok = cuda::check(*driver, "cuDriverGetVersion", driver->driver_version(&version));
  if (ok) ok = cuda::check(*driver, "cuDeviceGetCount", driver->device_count(&count));
  if (!ok) {
    group.facts.push_back({.key = "cuda",
                           .mark = Mark::kMissing,
                           .text = ok.error().message,
                           .advice = "",
                           .value = nullptr});
    return;
  }
  constexpr int kMajor = 1000;
  constexpr int kMinor = 10;
  group.facts.push_back(
      {.key = "cuda",
       .mark = Mark::kOk,
       .text = fmt::format("the driver offers CUDA {}.{}; {} device{}", version / kMajor,
                           version % kMajor / kMinor, count, count == 1 ? "" : "s"),
       .advice = "",
       .value = {{"version", version}, {"devices", count}}});
  cuda::CuDevice first = 0;
  if (count > 0 && driver->device_get(&first, 0) == cuda::CuResult::kSuccess) {
    add_device(*driver, first, group);
    group.facts.push_back(gpudirect_storage());
  }
}

}  // namespace spillway
