// See run_device.h.
#include "cli/run/run_device.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "platform/cuda/driver/driver.h"
#include "platform/cuda/driver/pcie_link.h"

namespace spillway {
namespace {

cuda::PciAddress pci_address(const cuda::Driver& driver, cuda::CuDevice device) {
  cuda::PciAddress address;
  (void)driver.device_attribute(&address.domain, cuda::CuAttribute::kPciDomainId, device);
  (void)driver.device_attribute(&address.bus, cuda::CuAttribute::kPciBusId, device);
  (void)driver.device_attribute(&address.device, cuda::CuAttribute::kPciDeviceId, device);
  return address;
}

Result<GpuFacts> first_gpu() {
  const Result<cuda::Driver> driver = cuda::open_driver();
  if (!driver) {
    return tl::unexpected<Error>(driver.error());
  }
  GpuFacts facts;
  Status ok = cuda::check(*driver, "cuInit", driver->init(0));
  if (ok) ok = cuda::check(*driver, "cuDeviceGetCount", driver->device_count(&facts.count));
  if (!ok) {
    return tl::unexpected<Error>(ok.error());
  }
  if (facts.count == 0) {
    return make_error(ErrorCode::kUnsupported,
                      "no GPU is visible: look at nvidia-smi and CUDA_VISIBLE_DEVICES");
  }
  cuda::CuDevice device = 0;
  std::size_t bytes = 0;
  ok = cuda::check(*driver, "cuDeviceGet", driver->device_get(&device, 0));
  if (ok)
    ok = cuda::check(*driver, "cuDeviceTotalMem", driver->device_total_memory(&bytes, device));
  if (!ok) {
    return tl::unexpected<Error>(ok.error());
  }
  facts.name = cuda::device_name(*driver, device);
  facts.memory_bytes = bytes;
  facts.link_bytes_per_s = cuda::pcie_bytes_per_s(pci_address(*driver, device)).value_or(0);
  return facts;
}

bool seems_to_have_gpu() {
  return std::getenv(cuda::kDriverVariable) != nullptr || ::access("/dev/nvidia0", F_OK) == 0;
}

}  // namespace

Result<RunDevice> find_device(const std::string& device) {
  if (device == "host") {
    return RunDevice{};
  }
  Result<GpuFacts> gpu = first_gpu();
  RunDevice found;
  if (gpu) {
    found.gpu = *std::move(gpu);
  } else if (device == "cuda") {
    return tl::unexpected<Error>(gpu.error());
  } else if (seems_to_have_gpu()) {
    found.reason = gpu.error().message;
    found.why_gpu_is_not_used = fmt::format(
        "the GPU is not used, and the budgets are of this machine's own memory: {}; --device host "
        "says the same without this line",
        found.reason);
  }
  return found;
}

}  // namespace spillway
