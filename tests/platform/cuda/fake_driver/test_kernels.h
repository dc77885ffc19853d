// Kernels that tests launch on the fake driver.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "fake_cuda.h"
#include "launch_words.h"
#include "platform/cuda/driver/driver_types.h"

namespace spillway::cuda::test {

// All parameters are 64 bits, so a launch is given an array of them.
template <std::size_t N>
struct Parameters {
  std::array<std::uint64_t, N> values;
  std::array<void*, N> pointers{};

  explicit Parameters(const std::array<std::uint64_t, N>& all) : values(all) {
    for (std::size_t i = 0; i < N; ++i) {
      pointers[i] = &values[i];
    }
  }
  Parameters(const Parameters&) = delete;
  Parameters& operator=(const Parameters&) = delete;
};
template <typename... Values>
Parameters<sizeof...(Values)> parameters(Values... values) {
  return Parameters<sizeof...(Values)>({static_cast<std::uint64_t>(values)...});
}

struct Kernels {
  CuFunction fill;     // (to, words, seed): the pattern
  CuFunction rewrite;  // (at, words, old seed, new seed, wrong): counts words that are not the old
                       // pattern in the atomic at `wrong`, writes the new one
  CuFunction add;      // (to, from, words): to[i] += from[i]
  CuFunction verify;   // (at, words, seed, wrong): counts as `rewrite` does, and writes nothing
  CuFunction derive;  // (to, from, words, seed of from, seed, wrong): writes the pattern of `seed`,
                      // counts words at `from` that are not its own as `rewrite` does
  CuFunction mix;     // (to, from, words): to[0] is a number that any change of a word changes
  CuFunction wait;    // (flag): ends when the atomic at `flag` is not 0
};

namespace detail {

inline std::size_t one_range(const FakeCudaLaunch* launch, FakeCudaRange* ranges, std::size_t) {
  ranges[0] = {parameter(launch, 0), 8 * parameter(launch, 1), 1};
  return 1;
}

inline void add_wrong(std::uint64_t counter, std::uint64_t wrong) {
  *reinterpret_cast<std::atomic<std::uint64_t>*>(words_at(counter)) += wrong;
}

inline CuFunction make(const char* name, std::size_t count, void (*run)(const FakeCudaLaunch*),
                       std::size_t (*ranges)(const FakeCudaLaunch*, FakeCudaRange*, std::size_t)) {
  std::array<std::size_t, 8> offsets{};
  std::array<std::size_t, 8> bytes{};
  for (std::size_t i = 0; i < count; ++i) {
    offsets[i] = 8 * i;
    bytes[i] = 8;
  }
  const FakeCudaKernel kernel{name, offsets.data(), bytes.data(), count, run, ranges};
  return static_cast<CuFunction>(fake_cuda_register_kernel(&kernel));
}

}  // namespace detail

// Registers them once.
inline const Kernels& kernels() {
  static const Kernels all{
      .fill = detail::make(
          "fill", 3,
          [](const FakeCudaLaunch* launch) {
            write_pattern(words_at(parameter(launch, 0)), parameter(launch, 1),
                          parameter(launch, 2));
          },
          detail::one_range),
      .rewrite = detail::make(
          "rewrite", 5,
          [](const FakeCudaLaunch* launch) {
            std::uint64_t* const at = words_at(parameter(launch, 0));
            const std::uint64_t words = parameter(launch, 1);
            detail::add_wrong(parameter(launch, 4), count_wrong(at, words, parameter(launch, 2)));
            write_pattern(at, words, parameter(launch, 3));
          },
          detail::one_range),
      .add = detail::make(
          "add", 3,
          [](const FakeCudaLaunch* launch) {
            std::uint64_t* to = words_at(parameter(launch, 0));
            const std::uint64_t* from = words_at(parameter(launch, 1));
            const std::uint64_t words = parameter(launch, 2);
            for (std::uint64_t i = 0; i < words; ++i) {
              to[i] += from[i];
            }
          },
          [](const FakeCudaLaunch* launch, FakeCudaRange* ranges, std::size_t) -> std::size_t {
            const std::uint64_t bytes = 8 * parameter(launch, 2);
            ranges[0] = {parameter(launch, 0), bytes, 1};
            ranges[1] = {parameter(launch, 1), bytes, 0};
            return 2;
          }),
      .verify = detail::make(
          "verify", 4,
          [](const FakeCudaLaunch* launch) {
            detail::add_wrong(parameter(launch, 3),
                              count_wrong(words_at(parameter(launch, 0)), parameter(launch, 1),
                                          parameter(launch, 2)));
          },
          [](const FakeCudaLaunch* launch, FakeCudaRange* ranges, std::size_t) -> std::size_t {
            ranges[0] = {parameter(launch, 0), 8 * parameter(launch, 1), 0};
            return 1;
          }),
      .derive = detail::make(
          "derive", 6,
          [](const FakeCudaLaunch* launch) {
            const std::uint64_t words = parameter(launch, 2);
            detail::add_wrong(parameter(launch, 5), count_wrong(words_at(parameter(launch, 1)),
                                                                words, parameter(launch, 3)));
            write_pattern(words_at(parameter(launch, 0)), words, parameter(launch, 4));
          },
          [](const FakeCudaLaunch* launch, FakeCudaRange* ranges, std::size_t) -> std::size_t {
            const std::uint64_t bytes = 8 * parameter(launch, 2);
            ranges[0] = {parameter(launch, 0), bytes, 1};
            ranges[1] = {parameter(launch, 1), bytes, 0};
            return 2;
          }),
      .mix = detail::make(
          "mix", 3,
          [](const FakeCudaLaunch* launch) {
            const std::uint64_t* from = words_at(parameter(launch, 1));
            const std::uint64_t words = parameter(launch, 2);
            std::uint64_t mixed = 0;
            for (std::uint64_t i = 0; i < words; ++i) {
              mixed += pattern(from[i], i);
            }
            words_at(parameter(launch, 0))[0] = mixed;
          },
          [](const FakeCudaLaunch* launch, FakeCudaRange* ranges, std::size_t) -> std::size_t {
            ranges[0] = {parameter(launch, 1), 8 * parameter(launch, 2), 0};
            return 1;
          }),
      .wait = detail::make(
          "wait", 1,
          [](const FakeCudaLaunch* launch) {
            const auto* flag =
                reinterpret_cast<std::atomic<std::uint64_t>*>(words_at(parameter(launch, 0)));
            while (flag->load() == 0) {
            }
          },
          [](const FakeCudaLaunch*, FakeCudaRange*, std::size_t) -> std::size_t { return 0; })};
  return all;
}

}  // namespace spillway::cuda::test
