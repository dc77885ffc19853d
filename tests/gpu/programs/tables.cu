// Tables of pointers that come to the device in ways that are not seen from outside: rows of 16 MiB,
// each a cudaMalloc of its own, which kernels reach through the table alone.
// tables kernel|large|pinned|anew prints a digest of what all rows hold, and their bytes.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorName(error));
    std::exit(1);
  }
}

__host__ __device__ std::uint32_t mixed(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= x >> 15;
  x *= 0x846ca68bU;
  return x ^ (x >> 16);
}

__global__ void fill(std::uint32_t* row, std::size_t words, std::uint32_t seed) {
  for (std::size_t i = blockIdx.x * std::size_t(blockDim.x) + threadIdx.x; i < words;
       i += std::size_t(gridDim.x) * blockDim.x) {
    row[i] = mixed(std::uint32_t(i) + seed * 0x9e3779b9U);
  }
}

__global__ void enter(std::uint32_t** table, int at, std::uint32_t* row) { table[at] = row; }

// Each of the first `count` rows that the table names, by a block of its own and those behind it.
__global__ void advance(std::uint32_t* const* table, int count, std::size_t words,
                        std::uint32_t round) {
  for (int row = 0; row < count; ++row) {
    std::uint32_t* const here = table[row];
    for (std::size_t i = blockIdx.x * std::size_t(blockDim.x) + threadIdx.x; i < words;
         i += std::size_t(gridDim.x) * blockDim.x) {
      here[i] = mixed(here[i] + 3 * round);
    }
  }
}

constexpr int kRows = 96;
constexpr int kBatch = 16;
constexpr std::size_t kWords = std::size_t{4} << 20U;  // 16 MiB

void advance_all(std::uint32_t* const* table, int count, std::uint32_t round) {
  advance<<<264, 256>>>(table, count, kWords, round);
  check(cudaGetLastError(), "a launch");
}

}  // namespace

int main(int count, char** arguments) {
  const std::string how = count > 1 ? arguments[1] : "";
  std::vector<std::uint32_t*> rows(kRows);
  for (int i = 0; i < kRows; ++i) {
    check(cudaMalloc(&rows[i], kWords * 4), "a row");
    fill<<<264, 256>>>(rows[i], kWords, i);
  }
  std::uint32_t** table = nullptr;
  if (how == "kernel") {  // one for each batch
    for (int first = 0; first < kRows; first += kBatch) {
      check(cudaMalloc(&table, kBatch * sizeof *table), "a table");
      for (int i = 0; i < kBatch; ++i) {
        enter<<<1, 1>>>(table, i, rows[first + i]);
      }
      for (std::uint32_t round = 0; round < 10; ++round) {
        advance_all(table, kBatch, round);
      }
    }
  } else if (how == "large") {  // of 1 MiB, with the rows at its end
    constexpr std::size_t kEntries = 131072;
    for (int first = 0; first < kRows; first += kBatch) {
      std::vector<std::uint32_t*> entries(kEntries);
      for (int i = 0; i < kBatch; ++i) {
        entries[kEntries - kBatch + i] = rows[first + i];
      }
      check(cudaMalloc(&table, kEntries * sizeof *table), "a table");
      check(cudaMemcpy(table, entries.data(), kEntries * sizeof *table, cudaMemcpyHostToDevice),
            "a copy of a table");
      for (std::uint32_t round = 0; round < 10; ++round) {
        advance_all(table + kEntries - kBatch, kBatch, round);
      }
    }
  } else if (how == "pinned") {  // in an arena of 16 MiB
    constexpr std::size_t kEntries = std::size_t{2} << 20U;
    check(cudaMallocHost(&table, kEntries * sizeof *table), "an arena");
    for (std::size_t i = 0; i < kEntries; ++i) {
      table[i] = nullptr;
    }
    std::uint32_t** const here = table + 777'777;
    for (std::uint32_t round = 0; round < 60; ++round) {
      for (int i = 0; i < kBatch; ++i) {
        here[i] = rows[(round * kBatch + i) % kRows];
      }
      advance_all(here, kBatch, round / 6);
      check(cudaDeviceSynchronize(), "a launch");
    }
  } else if (how == "anew") {
    check(cudaMalloc(&table, kBatch * sizeof *table), "a table");
    for (std::uint32_t round = 0; round < 60; ++round) {
      std::vector<std::uint32_t*> batch(kBatch);
      for (int i = 0; i < kBatch; ++i) {
        batch[i] = rows[(round * kBatch + i) % kRows];
      }
      check(cudaMemcpy(table, batch.data(), kBatch * sizeof *table, cudaMemcpyHostToDevice),
            "a copy of a table");
      advance_all(table, kBatch, round / 6);
    }
  } else {
    std::fprintf(stderr, "tables kernel|large|pinned|anew\n");
    return 2;
  }
  check(cudaDeviceSynchronize(), "the last launch");
  std::uint64_t digest = 0x243f6a8885a308d3U;
  std::vector<std::uint32_t> host(kWords);
  for (std::uint32_t* const row : rows) {
    check(cudaMemcpy(host.data(), row, kWords * 4, cudaMemcpyDeviceToHost), "a copy of a row");
    for (const std::uint32_t word : host) {
      digest = (digest ^ word) * 0x9e3779b97f4a7c15U;
      digest ^= digest >> 29U;
    }
  }
  std::printf("{\"digest\": \"%016llx\", \"peak_bytes\": %llu}\n",
              static_cast<unsigned long long>(digest),
              static_cast<unsigned long long>(kRows * kWords * 4));
  return 0;
}
