// See random_kernels.h.
#include "random_kernels.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>

#include "launch_words.h"

namespace spillway::cuda::test {
namespace {

constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15ULL;

std::atomic<std::uint64_t> first_failed{0};
std::uint64_t seed_to_tell = 0;

void run_mix(const FakeCudaLaunch* launch) {
  mix_words(words_at(parameter(launch, 0)), words_at(parameter(launch, 1)),
            words_at(parameter(launch, 2)), parameter(launch, 3), parameter(launch, 4));
}
std::size_t mix_ranges(const FakeCudaLaunch* launch, FakeCudaRange* ranges, std::size_t) {
  const std::uint64_t bytes = 8 * parameter(launch, 3);
  ranges[0] = {parameter(launch, 0), bytes, 1};
  std::size_t count = 1;
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    if (parameter(launch, i) != 0) {
      ranges[count++] = {parameter(launch, i), bytes, 0};
    }
  }
  return count;
}

void run_fill(const FakeCudaLaunch* launch) {
  fill_words(words_at(parameter(launch, 0)), parameter(launch, 1), parameter(launch, 2));
}
std::size_t fill_ranges(const FakeCudaLaunch* launch, FakeCudaRange* ranges, std::size_t) {
  ranges[0] = {parameter(launch, 0), 8 * parameter(launch, 1), 1};
  return 1;
}

void run_check(const FakeCudaLaunch* launch) {
  if (digest_of(words_at(parameter(launch, 0)), parameter(launch, 1)) != parameter(launch, 2)) {
    std::uint64_t none = 0;
    first_failed.compare_exchange_strong(none, parameter(launch, 3));
  }
}
std::size_t check_ranges(const FakeCudaLaunch* launch, FakeCudaRange* ranges, std::size_t) {
  ranges[0] = {parameter(launch, 0), 8 * parameter(launch, 1), 0};
  return 1;
}

// (int count, a functor without members, std::array<char*, N> data).
std::uint64_t pointwise_count(const FakeCudaLaunch* launch) {
  std::uint32_t words = 0;
  std::memcpy(&words, launch->parameters, sizeof words);
  return words;
}
void run_pointwise(const FakeCudaLaunch* launch) {
  pointwise_words(words_at(parameter(launch, 1)), words_at(parameter(launch, 2)),
                  launch->parameter_bytes > 24 ? words_at(parameter(launch, 3)) : nullptr,
                  pointwise_count(launch));
}
std::size_t pointwise_ranges(const FakeCudaLaunch* launch, FakeCudaRange* ranges, std::size_t) {
  const std::size_t pointers = launch->parameter_bytes / 8 - 1;
  for (std::size_t i = 0; i < pointers; ++i) {
    ranges[i] = {parameter(launch, 1 + i), 8 * pointwise_count(launch), i == 0 ? 1 : 0};
  }
  return pointers;
}

void run_listed(const FakeCudaLaunch* launch) {
  const std::uint64_t* const table = words_at(parameter(launch, 0));
  for (std::uint64_t i = 0; i < parameter(launch, 1); ++i) {
    mix_words(words_at(table[i]), nullptr, nullptr, parameter(launch, 2), parameter(launch, 3));
  }
}
void run_nested(const FakeCudaLaunch* launch) {
  const std::uint64_t* const outer = words_at(parameter(launch, 0));
  for (std::uint64_t i = 0; i < parameter(launch, 1); ++i) {
    const std::uint64_t* const table = words_at(outer[i]);
    for (std::uint64_t j = 0; j < parameter(launch, 2); ++j) {
      mix_words(words_at(table[j]), nullptr, nullptr, parameter(launch, 3), parameter(launch, 4));
    }
  }
}
// What a table names cannot be told before it is there; what is not mapped ends in a crash.
std::size_t table_range(const FakeCudaLaunch* launch, FakeCudaRange* ranges, std::size_t) {
  ranges[0] = {parameter(launch, 0), 8 * parameter(launch, 1), 0};
  return 1;
}

void tell_of_crash(int /*signal*/, siginfo_t* info, void* /*context*/) {
  char line[120];
  const int length =
      std::snprintf(line, sizeof line, "random %llu: wrong: a kernel reached for %p\n",
                    static_cast<unsigned long long>(seed_to_tell), info->si_addr);
  (void)!::write(STDOUT_FILENO, line, static_cast<std::size_t>(std::max(length, 0)));
  ::_exit(6);
}

}  // namespace

void mix_words(std::uint64_t* to, const std::uint64_t* a, const std::uint64_t* b,
               std::uint64_t words, std::uint64_t key) {
  for (std::uint64_t i = 0; i < words; ++i) {
    to[i] = to[i] * kOdd + key + i + (a != nullptr ? a[i] : 0) + (b != nullptr ? 3 * b[i] : 0);
  }
}

void fill_words(std::uint64_t* to, std::uint64_t words, std::uint64_t key) {
  for (std::uint64_t i = 0; i < words; ++i) {
    to[i] = key * kOdd + i;
  }
}

void pointwise_words(std::uint64_t* to, const std::uint64_t* a, const std::uint64_t* b,
                     std::uint64_t words) {
  for (std::uint64_t i = 0; i < words; ++i) {
    to[i] = a[i] + (b != nullptr ? b[i] : 1);
  }
}

std::uint64_t digest_of(const std::uint64_t* words, std::uint64_t count) {
  std::uint64_t sum = count;
  for (std::uint64_t i = 0; i < count; ++i) {
    sum = (sum ^ words[i]) * kOdd;
  }
  return sum;
}

RandomKernels::RandomKernels(const Calls& calls) : calls_(calls) {
  const auto kernel =
      [&calls](const char* name, std::size_t count, void (*run)(const FakeCudaLaunch*),
               std::size_t (*ranges)(const FakeCudaLaunch*, FakeCudaRange*, std::size_t)) {
        const std::size_t offsets[] = {0, 8, 16, 24, 32, 40};
        const std::size_t bytes[] = {8, 8, 8, 8, 8, 8};
        const FakeCudaKernel made{name, offsets, bytes, count, run, ranges};
        return static_cast<CuFunction>(calls.register_kernel(&made));
      };
  mix_ = kernel("mix", 5, run_mix, mix_ranges);
  fill_ = kernel("fill_words", 3, run_fill, fill_ranges);
  check_ = kernel("check_words", 4, run_check, check_ranges);
  listed_ = kernel("mix_listed", 4, run_listed, table_range);
  nested_ = kernel("mix_nested", 5, run_nested, table_range);
  const auto pointwise = [&calls](const char* name, std::size_t pointers) {
    const std::size_t offsets[] = {0, 4, 8};
    const std::size_t bytes[] = {4, 1, 8 * pointers};
    const FakeCudaKernel made{name, offsets, bytes, 3, run_pointwise, pointwise_ranges};
    return static_cast<CuFunction>(calls.register_kernel(&made));
  };
  pointwise2_ = pointwise(
      "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_4MoreESt5arrayIPcLm2EEEEviT0_T1_", 2);
  pointwise3_ = pointwise(
      "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_3SumESt5arrayIPcLm3EEEEviT0_T1_", 3);
}

CuResult RandomKernels::launch_block(CuFunction function, const LaunchWay& how, void** parameters,
                                     void* block, std::size_t bytes) const {
  const unsigned grid = how.refused ? 0 : 1;
  if (how.way == 1) {
    void* extra[] = {
        reinterpret_cast<void*>(kCuExtraBuffer), block,        // NOLINT(performance-no-int-to-ptr)
        reinterpret_cast<void*>(kCuExtraBufferBytes), &bytes,  // NOLINT(performance-no-int-to-ptr)
        reinterpret_cast<void*>(kCuExtraEnd)};                 // NOLINT(performance-no-int-to-ptr)
    return calls_.cuLaunchKernel(function, grid, 1, 1, 1, 1, 1, 0, how.stream, nullptr, extra);
  }
  if (how.way == 2) {
    const CuLaunchConfig config = one_thread(how.stream, grid);
    return calls_.cuLaunchKernelEx(&config, function, parameters, nullptr);
  }
  return calls_.cuLaunchKernel(function, grid, 1, 1, 1, 1, 1, 0, how.stream, parameters, nullptr);
}

CuResult RandomKernels::launch(CuFunction function, const LaunchWay& how,
                               std::array<std::uint64_t, 6> words, std::size_t count) const {
  std::array<void*, 6> pointers{};
  for (std::size_t i = 0; i < count; ++i) {
    pointers[i] = &words[i];
  }
  return launch_block(function, how, pointers.data(), words.data(), 8 * count);
}

CuResult RandomKernels::mix(const LaunchWay& how, CuAddress to, CuAddress a, CuAddress b,
                            std::uint64_t words, std::uint64_t key) const {
  return launch(mix_, how, {to, a, b, words, key}, 5);
}

CuResult RandomKernels::fill(const LaunchWay& how, CuAddress to, std::uint64_t words,
                             std::uint64_t key) const {
  return launch(fill_, how, {to, words, key}, 3);
}

CuResult RandomKernels::pointwise(const LaunchWay& how, CuAddress to, CuAddress a, CuAddress b,
                                  std::uint64_t words) const {
  struct Block {
    std::uint32_t count;
    std::uint32_t functor;
    std::array<CuAddress, 3> data;
  } block{static_cast<std::uint32_t>(words), 0, {to, a, b}};
  void* parameters[] = {&block.count, &block.functor, block.data.data()};
  return launch_block(b != 0 ? pointwise3_ : pointwise2_, how, parameters, &block,
                      b != 0 ? 32 : 24);
}

CuResult RandomKernels::listed(const LaunchWay& how, CuAddress table, std::uint64_t count,
                               std::uint64_t words, std::uint64_t key) const {
  return launch(listed_, how, {table, count, words, key}, 4);
}

CuResult RandomKernels::nested(const LaunchWay& how, CuAddress table, std::uint64_t count,
                               std::uint64_t inner, std::uint64_t words, std::uint64_t key) const {
  return launch(nested_, how, {table, count, inner, words, key}, 5);
}

CuResult RandomKernels::check(const LaunchWay& how, CuAddress at, std::uint64_t words,
                              std::uint64_t digest, std::uint64_t step) const {
  return launch(check_, how, {at, words, digest, step}, 4);
}

std::uint64_t RandomKernels::failed_step() { return first_failed.load(); }

void RandomKernels::tell_of_crashes(std::uint64_t seed) {
  seed_to_tell = seed;
  struct sigaction action {};
  action.sa_sigaction = tell_of_crash;
  action.sa_flags = SA_SIGINFO;
  (void)::sigaction(SIGSEGV, &action, nullptr);
  (void)::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace spillway::cuda::test
