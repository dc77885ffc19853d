// See pressure_device.h.
#include "bench/pressure_device.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>

namespace spillway::cuda {
namespace {

constexpr double kLinkBytesPerS = 50e9;  // each way, both busy

std::uint64_t word_of(const FakeCudaLaunch* launch, std::size_t index) {
  std::uint64_t word = 0;
  std::memcpy(&word, static_cast<const char*>(launch->parameters) + 8 * index, sizeof word);
  return word;
}

}  // namespace

FakeCudaConfig device_like_an_h200(int slower) {
  FakeCudaConfig config;
  fake_cuda_default_config(&config);
  config.device_bytes = 140 * kGiB;
  config.poison_handles = 0;
  config.copies_move_nothing = 1;
  config.stuck_after_ns = 60'000'000'000;
  config.copy_ns = 8'000;
  config.copy_bytes_per_s = kLinkBytesPerS / slower;
  config.create_ns = 10'000;
  config.release_ns = 20'000;
  config.access_ns = 35'000;
  config.access_waits_ns = 950'000;
  config.unmap_ns = 22'000;
  for (std::int64_t* const time_ns :
       {&config.copy_ns, &config.create_ns, &config.release_ns, &config.access_ns,
        &config.access_waits_ns, &config.unmap_ns}) {
    *time_ns *= slower;
  }
  return config;
}

CuFunction make_kernel() {
  std::array<std::size_t, kKernelWords> offsets{};
  std::array<std::size_t, kKernelWords> bytes{};
  for (std::size_t i = 0; i < kKernelWords; ++i) {
    offsets[i] = 8 * i;
    bytes[i] = 8;
  }
  const FakeCudaKernel kernel{
      "compute",
      offsets.data(),
      bytes.data(),
      kKernelWords,
      [](const FakeCudaLaunch* launch) {
        std::this_thread::sleep_for(std::chrono::nanoseconds(word_of(launch, 0)));
      },
      nullptr};
  return static_cast<CuFunction>(fake_cuda_register_kernel(&kernel));
}

}  // namespace spillway::cuda
