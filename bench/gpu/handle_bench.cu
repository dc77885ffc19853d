// What it costs that other processes could open a handle: handles are made, mapped, given access,
// unmapped and released, with and without that, of 2, 32 and 64 MiB, by turns. Medians, in us.
//
//   nvcc -std=c++20 -O2 -o handle_bench bench/gpu/handle_bench.cu -lcuda && ./handle_bench
//
// Takes 1 GiB of the device. CUDA 12.
#include <cuda.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kHandles = 16;  // at once
constexpr int kRounds = 20;
constexpr std::array kCalls{"create", "map", "access", "unmap", "release"};

void must(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS) {
    std::fprintf(stderr, "handle_bench: %s: error %d\n", what, result);
    std::exit(1);
  }
}

using Times = std::array<std::vector<double>, kCalls.size()>;

template <typename Call>
void time_each(Times& times, size_t which, const Call& call) {
  for (size_t i = 0; i < kHandles; ++i) {
    const auto start = std::chrono::steady_clock::now();
    must(call(i), kCalls[which]);
    times[which].push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
            .count());
  }
}

void run_round(CUdeviceptr at, size_t bytes, CUmemAllocationHandleType type, Times& times) {
  const CUmemLocation device{.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
  const CUmemAllocationProp properties{
      .type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = type, .location = device};
  const CUmemAccessDesc access{.location = device, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  std::array<CUmemGenericAllocationHandle, kHandles> all{};
  time_each(times, 0, [&](size_t i) { return cuMemCreate(&all[i], bytes, &properties, 0); });
  time_each(times, 1, [&](size_t i) { return cuMemMap(at + i * bytes, bytes, 0, all[i], 0); });
  time_each(times, 2, [&](size_t i) { return cuMemSetAccess(at + i * bytes, bytes, &access, 1); });
  time_each(times, 3, [&](size_t i) { return cuMemUnmap(at + i * bytes, bytes); });
  time_each(times, 4, [&](size_t i) { return cuMemRelease(all[i]); });
}

double median(std::vector<double>& values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

}  // namespace

int main() {
  CUcontext context = nullptr;
  must(cuInit(0), "cuInit");
  must(cuDevicePrimaryCtxRetain(&context, 0), "a context");
  must(cuCtxSetCurrent(context), "a context");
  for (const size_t bytes : {2 * kMiB, 32 * kMiB, 64 * kMiB}) {
    CUdeviceptr at = 0;
    must(cuMemAddressReserve(&at, kHandles * bytes, bytes, 0, 0), "addresses");
    std::array<Times, 2> times;  // of our own, and exportable
    for (int round = 0; round < kRounds; ++round) {
      run_round(at, bytes, CU_MEM_HANDLE_TYPE_NONE, times[0]);
      run_round(at, bytes, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, times[1]);
    }
    for (size_t i = 0; i < kCalls.size(); ++i) {
      std::printf("%2zu MiB %-8s %8.1f us, exportable %8.1f\n", bytes / kMiB, kCalls[i],
                  median(times[0][i]), median(times[1][i]));
    }
    must(cuMemAddressFree(at, kHandles * bytes), "addresses");
  }
}
