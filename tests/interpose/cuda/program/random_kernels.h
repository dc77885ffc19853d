// Kernels of the random scenario. What they do to words stands in functions that its model on the
// host uses as well. Test program.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "driver_ways.h"

namespace spillway::cuda::test {

// to[i] becomes a mixture of itself, a[i], b[i] and the key; a and b may be nullptr.
void mix_words(std::uint64_t* to, const std::uint64_t* a, const std::uint64_t* b,
               std::uint64_t words, std::uint64_t key);
void fill_words(std::uint64_t* to, std::uint64_t words, std::uint64_t key);
// to[i] = a[i] + 1, or a[i] + b[i].
void pointwise_words(std::uint64_t* to, const std::uint64_t* a, const std::uint64_t* b,
                     std::uint64_t words);
[[nodiscard]] std::uint64_t digest_of(const std::uint64_t* words, std::uint64_t count);

// How a kernel is launched: one of the driver's ways.
struct LaunchWay {
  CuStream stream = nullptr;
  unsigned way = 0;      // parameters, a block of them, or cuLaunchKernelEx
  bool refused = false;  // with a grid that the driver refuses
};

// Addresses are the device's. Each gives what the driver gave. Thread-safe.
class RandomKernels {
 public:
  explicit RandomKernels(const Calls& calls);

  [[nodiscard]] CuResult mix(const LaunchWay& how, CuAddress to, CuAddress a, CuAddress b,
                             std::uint64_t words, std::uint64_t key) const;
  [[nodiscard]] CuResult fill(const LaunchWay& how, CuAddress to, std::uint64_t words,
                              std::uint64_t key) const;
  // As PyTorch's: of what it only reads the name tells.
  [[nodiscard]] CuResult pointwise(const LaunchWay& how, CuAddress to, CuAddress a, CuAddress b,
                                   std::uint64_t words) const;
  // Mixes what the first `count` entries of a table name, or what the first `inner` entries of
  // those do.
  [[nodiscard]] CuResult listed(const LaunchWay& how, CuAddress table, std::uint64_t count,
                                std::uint64_t words, std::uint64_t key) const;
  [[nodiscard]] CuResult nested(const LaunchWay& how, CuAddress table, std::uint64_t count,
                                std::uint64_t inner, std::uint64_t words, std::uint64_t key) const;
  // Only reads. `step` is what is told if the words are others.
  [[nodiscard]] CuResult check(const LaunchWay& how, CuAddress at, std::uint64_t words,
                               std::uint64_t digest, std::uint64_t step) const;

  // The step of the first check that failed, if one has.
  [[nodiscard]] static std::uint64_t failed_step();
  // In one line before the process ends, if a kernel reaches for what is not there.
  static void tell_of_crashes(std::uint64_t seed);

 private:
  [[nodiscard]] CuResult launch(CuFunction function, const LaunchWay& how,
                                std::array<std::uint64_t, 6> words, std::size_t count) const;
  [[nodiscard]] CuResult launch_block(CuFunction function, const LaunchWay& how, void** parameters,
                                      void* block, std::size_t bytes) const;

  const Calls& calls_;
  CuFunction mix_ = nullptr;
  CuFunction fill_ = nullptr;
  CuFunction pointwise2_ = nullptr;
  CuFunction pointwise3_ = nullptr;
  CuFunction listed_ = nullptr;
  CuFunction nested_ = nullptr;
  CuFunction check_ = nullptr;
};

}  // namespace spillway::cuda::test
