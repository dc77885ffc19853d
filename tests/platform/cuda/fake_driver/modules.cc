// Modules: code is not run here, so what a module holds is known by the names of its kernels.
// Fake driver.
#include <array>
#include <cstring>
#include <string_view>

#include "world.h"

namespace fake_cuda {
namespace {

// As the interposer's own source says it (src/front/cuda/fill_ptx.cc).
struct FillParameters {
  std::uint64_t to;
  std::uint64_t bytes;
  std::uint32_t pattern;
};

FillParameters fill_parameters(const FakeCudaLaunch* launch) {
  FillParameters fill{};
  std::memcpy(&fill, launch->parameters, launch->parameter_bytes);
  return fill;
}

void run_fill(const FakeCudaLaunch* launch) {
  const FillParameters fill = fill_parameters(launch);
  for (std::uint64_t at = fill.to; at < fill.to + fill.bytes; ++at) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    *reinterpret_cast<std::uint8_t*>(at) =
        static_cast<std::uint8_t>(fill.pattern >> (8 * (at % sizeof fill.pattern)));
  }
}

std::size_t fill_ranges(const FakeCudaLaunch* launch, FakeCudaRange* ranges, std::size_t room) {
  const FillParameters fill = fill_parameters(launch);
  if (room > 0) {
    ranges[0] = {fill.to, fill.bytes, 1};
  }
  return 1;
}

CuFunction fill_kernel() {
  static const std::array<std::size_t, 3> offsets = {0, 8, 16};
  static const std::array<std::size_t, 3> bytes = {8, 8, 4};
  static void* const made = [] {
    const FakeCudaKernel kernel{"spillway_fill", offsets.data(), bytes.data(),
                                offsets.size(),  run_fill,       fill_ranges};
    return fake_cuda_register_kernel(&kernel);
  }();
  return static_cast<CuFunction>(made);
}

}  // namespace

// Waits for everything, and others on the context for it (docs/gpu.md section 4).
CuResult cuModuleLoadData(CuModule* module, const void* image) {
  return call("cuModuleLoadData", Needs::kContext, text("{}", image),
              [&](World& w, Caller& caller) {
                const CuResult result = w.drain(caller, *caller.context, true);
                *module = reinterpret_cast<CuModule>(const_cast<void*>(image));
                return result;
              });
}

CuResult cuModuleGetFunction(CuFunction* function, CuModule, const char* name) {
  if (std::string_view(name) != "spillway_fill") {
    return CuResult::kNotFound;
  }
  *function = fill_kernel();
  return CuResult::kSuccess;
}

}  // namespace fake_cuda
