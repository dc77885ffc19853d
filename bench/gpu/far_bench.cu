// What a GPU does with host memory that is mapped at addresses of its own (docs/cuda.md): reads,
// writes, both, a step of Adam whose states lie there, rows that are looked up and added to.
//
//   nvcc -std=c++20 -O2 -arch=native -o far_bench bench/gpu/far_bench.cu -lcuda && ./far_bench
//
// Takes 5 GiB of the device and 6 GiB of the host.
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr int kThreads = 512;

void must(int result, const char* what) {
  if (result != 0) {
    std::fprintf(stderr, "far_bench: %s failed with CUDA error %d\n", what, result);
    std::exit(1);
  }
}

// Memory of one handle, of the device or of the host next to it, at an address of its own.
class Space {
 public:
  Space() {
    must(cudaFree(nullptr), "to begin");
    must(cuDeviceGetAttribute(&node_, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 0), "to ask for the node");
    must(cuMemAddressReserve(&next_, size_t{1} << 40, 0, 0, 0), "to reserve addresses");
  }
  // bytes: a multiple of 2 MiB.
  float* take(size_t bytes, bool on_host) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type =
        on_host ? CU_MEM_LOCATION_TYPE_HOST_NUMA : CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = on_host ? std::max(node_, 0) : 0;
    CUmemGenericAllocationHandle handle = 0;
    must(cuMemCreate(&handle, bytes, &properties, 0), "to make a handle");
    must(cuMemMap(next_, bytes, 0, handle, 0), "to map");
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    must(cuMemSetAccess(next_, bytes, &access, 1), "to give access");
    auto* const taken = reinterpret_cast<float*>(next_);
    must(cudaMemset(taken, 0, bytes), "to clear");
    next_ += bytes;
    return taken;
  }

 private:
  int node_ = -1;
  CUdeviceptr next_ = 0;
};

// The least of three times, in ms.
template <typename Launch>
float milliseconds(const Launch& launch) {
  cudaEvent_t from = nullptr;
  cudaEvent_t to = nullptr;
  must(cudaEventCreate(&from) | cudaEventCreate(&to), "to make events");
  float least = 1e9F;
  for (int i = 0; i < 3; ++i) {
    must(cudaEventRecord(from), "to record");
    launch();
    must(cudaEventRecord(to), "to record");
    must(cudaDeviceSynchronize(), "a kernel");
    float ms = 0;
    must(cudaEventElapsedTime(&ms, from, to), "to read a time");
    least = std::min(least, ms);
  }
  return least;
}

enum class How { kRead, kWrite, kBoth };

__global__ void use(float4* words, size_t count, How how, float* sink) {
  float sum = 0;
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
       i += size_t{gridDim.x} * blockDim.x) {
    float4 word = how == How::kWrite ? make_float4(1, 2, 3, 4) : words[i];
    sum += word.x + word.y + word.z + word.w;
    word.x += 1;
    if (how != How::kRead) {
      words[i] = word;
    }
  }
  if (sum == 1.2345F) {
    *sink = sum;
  }
}

__global__ void adam(float4* p, const float4* g, float4* m, float4* v, size_t count) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
       i += size_t{gridDim.x} * blockDim.x) {
    float4 parameter = p[i];
    const float4 gradient = g[i];
    float4 first = m[i];
    float4 second = v[i];
    const auto step = [](float& a, float b, float& c, float& d) {
      c = 0.9F * c + 0.1F * b;
      d = 0.999F * d + 0.001F * b * b;
      a -= 1e-4F * c / (sqrtf(d) + 1e-8F);
    };
    step(parameter.x, gradient.x, first.x, second.x);
    step(parameter.y, gradient.y, first.y, second.y);
    step(parameter.z, gradient.z, first.z, second.z);
    step(parameter.w, gradient.w, first.w, second.w);
    p[i] = parameter;
    m[i] = first;
    v[i] = second;
  }
}

constexpr int kRowWords = 128;
constexpr int kPerBag = 8;
constexpr int kBags = 8192;

__global__ void look_up(const float* table, const int* rows, float* sums) {
  const int bag = blockIdx.x * blockDim.y + threadIdx.y;
  for (int word = threadIdx.x; word < kRowWords; word += 32) {
    float sum = 0;
    for (int i = 0; i < kPerBag; ++i) {
      sum += table[size_t(rows[bag * kPerBag + i]) * kRowWords + word];
    }
    sums[size_t(bag) * kRowWords + word] = sum;
  }
}

__global__ void add(float* table, const int* rows, const float* sums) {
  constexpr size_t kWords = size_t{kBags} * kPerBag * kRowWords;
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < kWords;
       i += size_t{gridDim.x} * blockDim.x) {
    const size_t row = i / kRowWords;
    const size_t word = i % kRowWords;
    atomicAdd(table + size_t(rows[row]) * kRowWords + word, sums[row / kPerBag * kRowWords + word]);
  }
}

void streams(Space& space, float* sink) {
  constexpr size_t kBytes = 1024 * kMiB;
  constexpr size_t kCount = kBytes / sizeof(float4);
  auto* const words = reinterpret_cast<float4*>(space.take(kBytes, true));
  for (const auto& [how, name] : {std::pair(How::kRead, "read"), std::pair(How::kWrite, "write"),
                                  std::pair(How::kBoth, "read and write, each way")}) {
    const float ms = milliseconds([&] { use<<<2112, kThreads>>>(words, kCount, how, sink); });
    std::printf("%-28s %6.1f GB/s\n", name, kBytes / ms / 1e6);
  }
}

void optimizer(Space& space) {
  constexpr size_t kBytes = 512 * kMiB;
  constexpr size_t kCount = kBytes / sizeof(float4);
  for (const bool far : {false, true}) {
    auto* const p = reinterpret_cast<float4*>(space.take(kBytes, false));
    auto* const g = reinterpret_cast<float4*>(space.take(kBytes, false));
    auto* const m = reinterpret_cast<float4*>(space.take(kBytes, far));
    auto* const v = reinterpret_cast<float4*>(space.take(kBytes, far));
    const float ms = milliseconds([&] { adam<<<2112, kThreads>>>(p, g, m, v, kCount); });
    std::printf("Adam, both states %-10s %6.2f ms (%.1f GB/s of them each way)\n",
                far ? "far" : "near", ms, 2 * kBytes / ms / 1e6);
  }
}

void tables(Space& space, float* sums) {
  constexpr size_t kBytes = 512 * kMiB;
  std::mt19937 random(1);
  std::vector<int> chosen(size_t{kBags} * kPerBag);
  std::generate(chosen.begin(), chosen.end(),
                [&] { return int(random() % (kBytes / sizeof(float) / kRowWords)); });
  auto* const rows = reinterpret_cast<int*>(space.take(2 * kMiB, false));
  must(cudaMemcpy(rows, chosen.data(), chosen.size() * sizeof(int), cudaMemcpyHostToDevice),
       "to copy");
  for (const bool far : {false, true}) {
    float* const table = space.take(kBytes, far);
    const float read_ms =
        milliseconds([&] { look_up<<<kBags / 8, dim3(32, 8)>>>(table, rows, sums); });
    const float add_ms = milliseconds([&] { add<<<1056, 128>>>(table, rows, sums); });
    const double bytes = double(kBags) * kPerBag * kRowWords * sizeof(float);
    std::printf(
        "a table that is %-5s looked up %.3f ms (%.1f GB/s), added to %.3f ms (%.1f GB/s)\n",
        far ? "far:" : "near:", read_ms, bytes / read_ms / 1e6, add_ms, bytes / add_ms / 1e6);
  }
}

}  // namespace

int main() {
  Space space;
  float* const sums = space.take(8 * kMiB, false);
  streams(space, sums);
  optimizer(space);
  tables(space, sums);
  return 0;
}
