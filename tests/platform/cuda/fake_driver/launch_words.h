// What kernels on the fake driver are made of: their parameters, words on the device, and a pattern
// that gives each word of a buffer a value of its own. Words are 64 bits.
#pragma once

#include <cstdint>
#include <cstring>

#include "fake_cuda.h"

namespace spillway::cuda::test {

inline std::uint64_t pattern(std::uint64_t seed, std::uint64_t word) {
  return seed * 0x9e3779b97f4a7c15ULL + word;
}

inline std::uint64_t* words_at(std::uint64_t address) {
  return reinterpret_cast<std::uint64_t*>(address);  // NOLINT(performance-no-int-to-ptr)
}

// Of a kernel all of whose parameters are 64 bits.
inline std::uint64_t parameter(const FakeCudaLaunch* launch, std::size_t index) {
  std::uint64_t value = 0;
  std::memcpy(&value, static_cast<const char*>(launch->parameters) + 8 * index, sizeof value);
  return value;
}

// Loops over words know nothing of launches: most of the time of the tests goes here, above all
// with sanitizers.
inline void write_pattern(std::uint64_t* to, std::uint64_t words, std::uint64_t seed) {
  for (std::uint64_t i = 0; i < words; ++i) {
    to[i] = pattern(seed, i);
  }
}

// Words that are not the pattern's.
inline std::uint64_t count_wrong(const std::uint64_t* at, std::uint64_t words, std::uint64_t seed) {
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < words; ++i) {
    wrong += at[i] == pattern(seed, i) ? 0U : 1U;
  }
  return wrong;
}

}  // namespace spillway::cuda::test
