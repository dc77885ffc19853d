// Modules: code is not run here, so what a module holds is known by the names of its kernels.
// Fake driver.
#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "launch_words.h"
#include "world.h"

namespace fake_cuda {
namespace {

// As the interposer's own source says it (src/interpose/cuda/kernels/fill_ptx.cc).
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

// The same of src/interpose/cuda/kernels/fingerprint_ptx.cc: (from, bytes, to).
std::uint64_t mixed(std::uint64_t word) {
  word = (word ^ (word >> 30U)) * 0xBF58476D1CE4E5B9;
  word = (word ^ (word >> 27U)) * 0x94D049BB133111EB;
  return word ^ (word >> 31U);
}

void run_fingerprint(const FakeCudaLaunch* launch) {
  constexpr std::uint64_t kWordBytes = sizeof(std::uint64_t);
  const std::uint64_t from = test::parameter(launch, 0);
  const std::uint64_t bytes = test::parameter(launch, 1);
  std::uint64_t* const sums = test::words_at(test::parameter(launch, 2));
  std::fill_n(sums, launch->grid[0], 0);
  const std::uint64_t pieces = launch->block[0];
  const std::uint64_t blocks = launch->grid[0];
  // Two words a piece, two for the last one as well.
  const std::uint64_t words = (bytes + 2 * kWordBytes - 1) / (2 * kWordBytes) * 2;
  std::array<std::uint64_t, 512> some{};
  for (std::uint64_t i = 0; i < words; ++i) {
    if (i % some.size() == 0) {
      some.fill(0);
      std::memcpy(some.data(), pointer(from + i * kWordBytes),
                  std::min(some.size() * kWordBytes, bytes - i * kWordBytes));
    }
    sums[i / 2 / pieces % blocks] += mixed(some[i % some.size()] + (i + 1) * 0x9E3779B97F4A7C15);
  }
}

std::size_t fingerprint_ranges(const FakeCudaLaunch* launch, FakeCudaRange* ranges,
                               std::size_t room) {
  if (room > 1) {
    ranges[0] = {test::parameter(launch, 0), test::parameter(launch, 1), 0};
    ranges[1] = {test::parameter(launch, 2), sizeof(std::uint64_t) * launch->grid[0], 1};
  }
  return 2;
}

void run_copy(const FakeCudaLaunch* launch) {
  std::memcpy(pointer(test::parameter(launch, 1)), pointer(test::parameter(launch, 0)),
              test::parameter(launch, 2));
}

std::size_t copy_ranges(const FakeCudaLaunch* launch, FakeCudaRange* ranges, std::size_t room) {
  if (room > 1) {
    ranges[0] = {test::parameter(launch, 0), test::parameter(launch, 2), 0};
    ranges[1] = {test::parameter(launch, 1), test::parameter(launch, 2), 1};
  }
  return 2;
}

CuFunction made(const FakeCudaKernel& kernel) {
  return static_cast<CuFunction>(fake_cuda_register_kernel(&kernel));
}

// nullptr if there is none of that name.
CuFunction kernel_of_module(std::string_view name) {
  static const std::array<std::size_t, 3> offsets = {0, 8, 16};
  static const std::array<std::size_t, 3> fill_bytes = {8, 8, 4};
  static const std::array<std::size_t, 3> words_bytes = {8, 8, 8};
  if (name == "spillway_fill") {
    static const CuFunction fill = made({"spillway_fill", offsets.data(), fill_bytes.data(),
                                         offsets.size(), run_fill, fill_ranges});
    return fill;
  }
  if (name == "spillway_fingerprint") {
    static const CuFunction fingerprint =
        made({"spillway_fingerprint", offsets.data(), words_bytes.data(), offsets.size(),
              run_fingerprint, fingerprint_ranges});
    return fingerprint;
  }
  if (name == "spillway_copy") {
    static const CuFunction copy = made({"spillway_copy", offsets.data(), words_bytes.data(),
                                         offsets.size(), run_copy, copy_ranges});
    return copy;
  }
  return nullptr;
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
  *function = kernel_of_module(name);
  return *function != nullptr ? CuResult::kSuccess : CuResult::kNotFound;
}

}  // namespace fake_cuda
