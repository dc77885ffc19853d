// What one call of the driver for several handles in a row would save: handles of 40 MiB are mapped
// side by side, given access and unmapped, each by its own call or some by one; alone, beside a
// thread that launches without pause, and beside copies out of 8 MiB, one at a time.
//
//   nvcc -std=c++20 -O2 -o calls_bench bench/gpu/calls_bench.cu -lcuda && ./calls_bench
//
// Takes 3 GiB of the device and 8 MiB of the host.
#include <cuda.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kHandleBytes = 40 * kMiB;
constexpr size_t kHandles = 64;
constexpr int kRounds = 20;

// Does nothing.
constexpr const char* kEmptyKernel =
    ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry empty() { ret; }\n";

void must(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS) {
    const char* text = nullptr;
    cuGetErrorString(result, &text);
    std::fprintf(stderr, "calls_bench: %s: %s\n", what, text == nullptr ? "unknown error" : text);
    std::exit(1);
  }
}

using Clock = std::chrono::steady_clock;
double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// Something that a thread does again and again while it lives.
class Beside {
 public:
  template <typename Again>
  Beside(CUcontext context, const Again& again)
      : thread_([this, context, again] {
          must(cuCtxSetCurrent(context), "to use the context");
          while (!stop_) {
            again();
            ++times_;
          }
        }) {}
  ~Beside() {
    stop_ = true;
    thread_.join();
  }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;
  [[nodiscard]] long times() const { return times_; }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<long> times_{0};
  std::thread thread_;
};

class Bench {
 public:
  Bench() {
    must(cuInit(0), "to begin");
    must(cuDeviceGet(&device_, 0), "to find a device");
    must(cuDevicePrimaryCtxRetain(&context_, device_), "to make a context");
    must(cuCtxSetCurrent(context_), "to use the context");
    must(cuMemAddressReserve(&addresses_, kHandles * kHandleBytes, 0, 0, 0),
         "to reserve addresses");
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device_;
    for (CUmemGenericAllocationHandle& handle : handles_) {
      must(cuMemCreate(&handle, kHandleBytes, &properties, 0), "to make a handle");
    }
    must(cuModuleLoadData(&module_, kEmptyKernel), "to load a kernel");
    must(cuModuleGetFunction(&kernel_, module_, "empty"), "to find it");
    must(cuStreamCreate(&launches_, CU_STREAM_NON_BLOCKING), "to make a stream");
    must(cuStreamCreate(&copies_, CU_STREAM_NON_BLOCKING), "to make a stream");
    must(cuMemAlloc(&from_, kCopyBytes), "to have memory");
    must(cuMemHostAlloc(&to_, kCopyBytes, 0), "to pin memory");
  }

  void all() {
    std::printf("us for each handle of %zu MiB, the median of %d rounds of %zu\n",
                kHandleBytes / kMiB, kRounds, kHandles);
    rows("alone");
    {
      const Beside launching(context_, [this] {
        must(cuLaunchKernel(kernel_, 1, 1, 1, 1, 1, 1, 0, launches_, nullptr, nullptr),
             "to launch");
      });
      rows("beside launches");
    }
    must(cuStreamSynchronize(launches_), "to wait for launches");
    {
      const Beside copying(context_, [this] {
        must(cuMemcpyDtoHAsync(to_, from_, kCopyBytes, copies_), "to copy");
        must(cuStreamSynchronize(copies_), "to wait for a copy");
      });
      const Clock::time_point start = Clock::now();
      rows("beside copies out");
      std::printf("  which came to %.1f GB/s\n",
                  double(copying.times()) * kCopyBytes / us_since(start) / 1e3);
    }
  }

 private:
  static constexpr size_t kCopyBytes = 8 * kMiB;

  void rows(const char* when) {
    for (const size_t together : {1, 2, 4, 8}) {
      std::vector<double> map;
      std::vector<double> access;
      std::vector<double> unmap;
      for (int round = 0; round < kRounds; ++round) {
        one_round(together, map, access, unmap);
      }
      std::printf("%-18s %zu together: map %5.1f, access %5.1f, unmap %5.1f\n", when, together,
                  median(map), median(access), median(unmap));
    }
  }

  void one_round(size_t together, std::vector<double>& map, std::vector<double>& access,
                 std::vector<double>& unmap) {
    CUmemAccessDesc description{};
    description.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    description.location.id = device_;
    description.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    double map_us = 0;
    double access_us = 0;
    for (size_t first = 0; first < kHandles; first += together) {
      Clock::time_point start = Clock::now();
      for (size_t i = first; i < first + together; ++i) {
        must(cuMemMap(addresses_ + i * kHandleBytes, kHandleBytes, 0, handles_[i], 0), "to map");
      }
      map_us += us_since(start);
      start = Clock::now();
      must(cuMemSetAccess(addresses_ + first * kHandleBytes, together * kHandleBytes, &description,
                          1),
           "to give access");
      access_us += us_since(start);
    }
    const Clock::time_point start = Clock::now();
    for (size_t first = 0; first < kHandles; first += together) {
      must(cuMemUnmap(addresses_ + first * kHandleBytes, together * kHandleBytes), "to unmap");
    }
    map.push_back(map_us / kHandles);
    access.push_back(access_us / kHandles);
    unmap.push_back(us_since(start) / kHandles);
  }

  static double median(std::vector<double>& all) {
    std::sort(all.begin(), all.end());
    return all[all.size() / 2];
  }

  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUdeviceptr addresses_ = 0;
  std::array<CUmemGenericAllocationHandle, kHandles> handles_{};
  CUmodule module_ = nullptr;
  CUfunction kernel_ = nullptr;
  CUstream launches_ = nullptr;
  CUstream copies_ = nullptr;
  CUdeviceptr from_ = 0;
  void* to_ = nullptr;
};

}  // namespace

int main() {
  Bench bench;
  bench.all();
  return 0;
}
