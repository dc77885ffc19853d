// See fingerprint_kernel.h.
#include "interpose/cuda/kernels/fingerprint_kernel.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "interpose/cuda/hooks/hook_table.h"
#include "interpose/cuda/kernels/own_kernels.h"

namespace spillway::cuda {
namespace {

// The kernel does with any number of blocks, and with threads that are whole warps.
struct FingerprintGrid {
  unsigned blocks;
  unsigned threads;
};
constexpr FingerprintGrid kFingerprintGrid{.blocks = kFingerprintWords, .threads = 1024};

CuResult launch_fingerprint_as(CuFunction function, const FingerprintGrid& grid, CuAddress from,
                               std::uint64_t bytes, std::uint64_t* to, CuStream stream) {
  std::array<void*, 3> parameters = {&from, &bytes, &to};
  return real().cuLaunchKernel(function, grid.blocks, 1, 1, grid.threads, 1, 1, 0, stream,
                               parameters.data(), nullptr);
}

// The last step of splitmix64: no two words give the same.
std::uint64_t mixed_word(std::uint64_t word) {
  word ^= word >> 30U;
  word *= 0xBF58476D1CE4E5B9;
  word ^= word >> 27U;
  word *= 0x94D049BB133111EB;
  return word ^ word >> 31U;
}

// Whether it says of some bytes what the host says: of parts of a piece, of more pieces than
// threads, and of none for most blocks.
bool fingerprint_works(CuFunction function, const KernelTrial& trial) {
  constexpr std::size_t kWordsBytes = kFingerprintWords * sizeof(std::uint64_t);
  constexpr std::uint64_t kNotWritten = 0x5A5A5A5A5A5A5A5A;
  auto* const words = reinterpret_cast<std::uint64_t*>(trial.memory);
  unsigned char* const bytes = trial.memory + kWordsBytes;
  for (std::size_t i = 0; i < KernelTrial::kBytes - kWordsBytes; ++i) {
    bytes[i] = static_cast<unsigned char>(mixed_word(i + 1));
  }
  struct Case {
    std::size_t bytes;
    FingerprintGrid grid;
  };
  const std::array cases = {Case{1, kFingerprintGrid}, Case{8, kFingerprintGrid},
                            Case{29, kFingerprintGrid}, Case{2048, kFingerprintGrid},
                            Case{2043, {.blocks = 2, .threads = 32}}};
  return std::all_of(cases.begin(), cases.end(), [&](const Case& one) {
    std::fill_n(words, kFingerprintWords, 0);
    std::fill_n(words, one.grid.blocks, kNotWritten);
    return launch_fingerprint_as(function, one.grid, reinterpret_cast<CuAddress>(bytes), one.bytes,
                                 words, trial.stream) == CuResult::kSuccess &&
           ends_soon(trial.stream) &&
           fingerprint_of(words) == fingerprint_on_host(bytes, one.bytes);
  });
}

}  // namespace

constinit OwnKernel fingerprint_kernel{
    .name = "spillway_fingerprint", .source = kFingerprintPtx, .works = fingerprint_works};

bool has_fingerprint_kernel() { return has(fingerprint_kernel); }

CuResult launch_fingerprint(CuAddress from, std::size_t bytes, std::uint64_t* to, CuStream stream) {
  return launch_fingerprint_as(fingerprint_kernel.function, kFingerprintGrid, from, bytes, to,
                               stream);
}

std::uint64_t fingerprint_of(const std::uint64_t* words) {
  return std::accumulate(words, words + kFingerprintWords, std::uint64_t{0});
}

// As the kernel does it (fingerprint_ptx.cc).
std::uint64_t fingerprint_on_host(const void* from, std::size_t bytes) {
  constexpr std::uint64_t kApart = 0x9E3779B97F4A7C15;
  constexpr std::size_t kPieceBytes = 16;
  std::uint64_t sum = 0;
  std::uint64_t apart = 0;
  for (std::size_t at = 0; at < bytes; at += kPieceBytes) {
    std::array<std::uint64_t, 2> piece{};
    std::memcpy(piece.data(), static_cast<const unsigned char*>(from) + at,
                std::min(kPieceBytes, bytes - at));
    for (const std::uint64_t word : piece) {
      apart += kApart;
      sum += mixed_word(word + apart);
    }
  }
  return sum;
}

}  // namespace spillway::cuda
