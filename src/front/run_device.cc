// See run_device.h.
#include "front/run_device.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "front/jax_allocator.h"
#include "platform/common/say.h"
#include "platform/cuda/driver.h"
#include "runtime/cuda/cuda_space.h"

namespace spillway {

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
  return facts;
}

Result<bool> runs_on_gpu(const std::string& device) {
  if (device == "host") {
    return false;
  }
  if (device != "auto" && device != "cuda") {
    return make_error(ErrorCode::kInvalidInput, "--device: '{}' is none of auto, cuda and host",
                      device);
  }
  const Result<GpuFacts> gpu = first_gpu();
  if (!gpu && device == "cuda") {
    return tl::unexpected<Error>(gpu.error());
  }
  return gpu.has_value();
}

std::string why_gpu_is_not_used() {
  const bool seems_there =
      std::getenv(cuda::kDriverVariable) != nullptr || ::access("/dev/nvidia0", F_OK) == 0;
  const Result<GpuFacts> gpu = seems_there ? first_gpu() : GpuFacts{};
  return gpu ? std::string()
             : fmt::format(
                   "the GPU is not used, and the budgets are of this machine's own memory: "
                   "{}; --device host says the same without this line",
                   gpu.error().message);
}

Result<Environment> gpu_environment(const std::string& library) {
  const Result<GpuFacts> gpu = first_gpu();
  if (!gpu) {
    return tl::unexpected<Error>(gpu.error());
  }
  const Result<SpaceOptions> options = cuda_options_from_environment(gpu->memory_bytes);
  if (!options) {
    return tl::unexpected<Error>(options.error());
  }
  if (const Status fine = check_cuda_policy(*options); !fine) {
    return tl::unexpected<Error>(fine.error());
  }
  if (const MemoryRoom room = MemoryLimits().room();
      options->storage_path.empty() && room.to_promise_bytes() < kBlockBytes) {
    say(
        fmt::format("there is no memory to move data to: {}; what exceeds --device-memory will be "
                    "refused: name a place to swap to with --storage",
                    room.text_with_kept()));
  }
  Environment environment{{"LD_PRELOAD", library}, {"SPILLWAY_DEVICE", "cuda"}};
  choose_jax_allocator(environment);
  return environment;
}

}  // namespace spillway
