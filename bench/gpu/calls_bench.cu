// What the driver's calls for a handle of 40 MiB cost, and what makes them dearer: handles are
// made, mapped side by side, given access, unmapped and released, in a context of their own, alone
// and beside what a program does in its own: launches, launches with gates and tickets, a device
// that is busy with memory, copies out of several lengths, one at a time. Access and unmap singly,
// and for eight handles in a row by one call.
//
//   nvcc -std=c++20 -O2 -o calls_bench bench/gpu/calls_bench.cu -lcuda && ./calls_bench
//
// Takes 4 GiB of the device and 16 MiB of the host. CUDA 13.
#include <cuda.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kHandleBytes = 40 * kMiB;
constexpr size_t kHandles = 64;
constexpr int kRounds = 12;
constexpr size_t kLongestCopyBytes = 16 * kMiB;
constexpr size_t kBusyBytes = 1024 * kMiB;

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
          must(cuCtxSynchronize(), "to wait for its end");
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

// Of each call, for each handle, in us.
struct Calls {
  std::vector<double> create, map, access, unmap, release;
};

class Bench {
 public:
  Bench() {
    must(cuInit(0), "to begin");
    must(cuDeviceGet(&device_, 0), "to find a device");
    must(cuDevicePrimaryCtxRetain(&program_, device_), "to make the program's context");
    must(cuCtxSetCurrent(program_), "to use it");
    must(cuModuleLoadData(&module_, kEmptyKernel), "to load a kernel");
    must(cuModuleGetFunction(&kernel_, module_, "empty"), "to find it");
    must(cuStreamCreate(&launches_, CU_STREAM_NON_BLOCKING), "to make a stream");
    must(cuMemAlloc(&busy_, kBusyBytes), "to have memory");
    must(cuMemHostAlloc(reinterpret_cast<void**>(&words_), 16, 0), "to pin memory");
    words_[0] = words_[1] = 0;
    must(cuCtxCreate(&own_, nullptr, 0, device_), "to make a context");
    must(cuStreamCreate(&copies_, CU_STREAM_NON_BLOCKING), "to make a stream");
    must(cuMemAlloc(&from_, kLongestCopyBytes), "to have memory");
    must(cuMemHostAlloc(&to_, kLongestCopyBytes, 0), "to pin memory");
    must(cuMemAddressReserve(&addresses_, kHandles * kHandleBytes, 0, 0, 0),
         "to reserve addresses");
  }

  void all() {
    std::printf("us for each handle of %zu MiB, the median of %d rounds of %zu\n",
                kHandleBytes / kMiB, kRounds, kHandles);
    rows("alone");
    {
      const Beside launching(program_, [this] { launch(); });
      rows("launches");
    }
    {
      uint32_t number = 0;
      const CUdeviceptr gate = reinterpret_cast<CUdeviceptr>(words_);
      const Beside launching(program_, [this, &number, gate] {
        must(cuStreamWaitValue32(launches_, gate, 0, CU_STREAM_WAIT_VALUE_GEQ), "to gate");
        launch();
        must(cuStreamWriteValue32(launches_, gate + 4, ++number, 0), "to have a ticket");
      });
      rows("gates and tickets");
    }
    {
      const Beside busy(program_, [this] {
        for (int i = 0; i < 16; ++i) {
          must(cuMemsetD32Async(busy_, 0, kBusyBytes / 4, launches_), "to fill");
        }
        must(cuStreamSynchronize(launches_), "to wait for fills");
      });
      rows("a busy device");
    }
    for (const size_t copy_bytes : {16 * kMiB, 8 * kMiB, 4 * kMiB, 2 * kMiB}) {
      const Beside copying(own_, [this, copy_bytes] {
        must(cuMemcpyDtoHAsync(to_, from_, copy_bytes, copies_), "to copy");
        must(cuStreamSynchronize(copies_), "to wait for a copy");
      });
      const Clock::time_point start = Clock::now();
      const std::string name = "copies of " + std::to_string(copy_bytes / kMiB) + " MiB";
      rows(name.c_str());
      std::printf("  which came to %.1f GB/s\n",
                  double(copying.times()) * double(copy_bytes) / us_since(start) / 1e3);
    }
  }

 private:
  void launch() {
    must(cuLaunchKernel(kernel_, 1, 1, 1, 1, 1, 1, 0, launches_, nullptr, nullptr), "to launch");
  }

  void rows(const char* when) {
    for (const size_t together : {1, 8}) {
      Calls calls;
      for (int round = 0; round < kRounds; ++round) {
        one_round(together, calls);
      }
      std::printf(
          "%-18s %zu together: create %5.1f, map %5.1f, access %5.1f, unmap %5.1f, "
          "release %5.1f\n",
          when, together, median(calls.create), median(calls.map), median(calls.access),
          median(calls.unmap), median(calls.release));
      std::fflush(stdout);
    }
  }

  void one_round(size_t together, Calls& calls) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device_;
    CUmemAccessDesc description{};
    description.location = properties.location;
    description.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    timed(calls.create, 1, [&](size_t i) {
      must(cuMemCreate(&handles_[i], kHandleBytes, &properties, 0), "to make a handle");
    });
    timed(calls.map, 1, [&](size_t i) {
      must(cuMemMap(addresses_ + i * kHandleBytes, kHandleBytes, 0, handles_[i], 0), "to map");
    });
    timed(calls.access, together, [&](size_t i) {
      must(cuMemSetAccess(addresses_ + i * kHandleBytes, together * kHandleBytes, &description, 1),
           "to give access");
    });
    timed(calls.unmap, together, [&](size_t i) {
      must(cuMemUnmap(addresses_ + i * kHandleBytes, together * kHandleBytes), "to unmap");
    });
    timed(calls.release, 1,
          [&](size_t i) { must(cuMemRelease(handles_[i]), "to release a handle"); });
  }

  template <typename Call>
  static void timed(std::vector<double>& us, size_t together, const Call& call) {
    const Clock::time_point start = Clock::now();
    for (size_t i = 0; i < kHandles; i += together) {
      call(i);
    }
    us.push_back(us_since(start) / kHandles);
  }

  static double median(std::vector<double>& all) {
    std::sort(all.begin(), all.end());
    return all[all.size() / 2];
  }

  CUdevice device_ = 0;
  CUcontext program_ = nullptr;
  CUcontext own_ = nullptr;
  CUdeviceptr addresses_ = 0;
  std::array<CUmemGenericAllocationHandle, kHandles> handles_{};
  CUmodule module_ = nullptr;
  CUfunction kernel_ = nullptr;
  CUstream launches_ = nullptr;
  CUstream copies_ = nullptr;
  CUdeviceptr busy_ = 0;
  CUdeviceptr from_ = 0;
  void* to_ = nullptr;
  uint32_t* words_ = nullptr;  // a gate that is open, and a ticket
};

}  // namespace

int main() {
  Bench bench;
  bench.all();
  return 0;
}
