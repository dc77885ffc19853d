// Kernels of ours (src/interpose/cuda/kernels/own_kernels.h) on the fake driver: loaded, tried,
// used, lost.
#include "interpose/cuda/kernels/own_kernels.h"

#include <dlfcn.h>

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "interpose/cuda/hooks/hook_table.h"
#include "interpose/cuda/kernels/fill_kernel.h"
#include "interpose/cuda/kernels/fingerprint_kernel.h"
#include "platform/cuda/fake_device.h"

// Nothing is hooked here, and the driver's own functions are the fake driver's.
namespace spillway::cuda::detail {

constinit RealCalls real_calls;
constinit std::atomic<bool> real_calls_found{false};
void find_real_calls() {
  void* const library = ::dlopen(FAKE_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
#define SPILLWAY_FIND_FAKE(symbol, parameters) \
  *reinterpret_cast<void**>(&real_calls.symbol) = ::dlsym(library, #symbol);
  SPILLWAY_HOOKED_CALLS(SPILLWAY_FIND_FAKE)
  SPILLWAY_ASKED_CALLS(SPILLWAY_FIND_FAKE)
#undef SPILLWAY_FIND_FAKE
  real_calls_found = true;
}

}  // namespace spillway::cuda::detail

namespace spillway::cuda {
namespace {

class OwnKernels : public FakeDevice {
 protected:
  void TearDown() override {
    forget_own_kernels(primary);
    (void)take_lost_own_kernels();
    FakeDevice::TearDown();
  }
  std::uint64_t fingerprint(CuAddress from, std::size_t bytes) const {
    std::uint64_t* const words = pinned(kFingerprintWords);
    const CuStream on = stream();
    EXPECT_EQ(launch_fingerprint(from, bytes, words, on), CuResult::kSuccess);
    EXPECT_EQ(driver.stream_synchronize(on), CuResult::kSuccess);
    return fingerprint_of(words);
  }
};

TEST_F(OwnKernels, AreThereInTheContextThatHasLoadedThem) {
  EXPECT_FALSE(has_fill_kernel() || has_fingerprint_kernel());
  load_own_kernels();
  EXPECT_TRUE(has_fill_kernel() && has_fingerprint_kernel());
  (void)second_context();
  EXPECT_FALSE(has_fill_kernel() || has_fingerprint_kernel());
  // A page is all that stays of trying them.
  EXPECT_EQ(counters().pinned_bytes, KernelTrial::kBytes);
  EXPECT_EQ(counters().streams, 0U);
}

TEST_F(OwnKernels, AreLostWithThatContextAndLoadedAnewOnce) {
  load_own_kernels();
  const CuContext second = second_context();
  forget_own_kernels(second);
  EXPECT_FALSE(own_kernels_are_lost());
  forget_own_kernels(primary);
  EXPECT_TRUE(own_kernels_are_lost());
  EXPECT_TRUE(take_lost_own_kernels());
  EXPECT_FALSE(take_lost_own_kernels());
  load_own_kernels();
  EXPECT_TRUE(has_fill_kernel() && has_fingerprint_kernel());
  forget_own_kernels(second);
}

TEST_F(OwnKernels, AreNotThereWhereTheyCannotBeTried) {
  config.host_memory_fails = 1;
  fake_cuda_change(&config);
  load_own_kernels();
  EXPECT_FALSE(has_fill_kernel() || has_fingerprint_kernel());
  forget_own_kernels(primary);
  EXPECT_FALSE(own_kernels_are_lost());
}

TEST_F(OwnKernels, FingerprintsTellBytesApart) {
  load_own_kernels();
  constexpr std::size_t kMostBytes = 8 << 20U;  // two pieces a thread
  const CuAddress from = memory(kMostBytes);
  auto* const bytes = reinterpret_cast<unsigned char*>(test::words_at(from));
  for (std::size_t i = 0; i < kMostBytes / 8; ++i) {
    test::words_at(from)[i] = test::pattern(i, i);
  }
  for (const std::size_t size :
       std::initializer_list<std::size_t>{1, 7, 8, 9, 15, 16, 17, 4096, 100'003, kMostBytes - 5}) {
    const std::uint64_t before = fingerprint(from, size);
    EXPECT_EQ(before, fingerprint_on_host(bytes, size)) << size;
    EXPECT_EQ(before, fingerprint(from, size)) << size;
    for (const std::size_t at : {std::size_t{0}, size / 2, size - 1}) {
      bytes[at] ^= 0x10U;
      EXPECT_NE(before, fingerprint(from, size)) << size << " bytes, changed at " << at;
      bytes[at] ^= 0x10U;
    }
    // Not its bytes any more.
    bytes[size] ^= 0x10U;
    EXPECT_EQ(before, fingerprint(from, size)) << size;
    bytes[size] ^= 0x10U;
  }
}

TEST_F(OwnKernels, FingerprintsTellWhereWordsAre) {
  std::vector<std::uint64_t> words(1000);
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = test::pattern(1, i);
  }
  const std::uint64_t before = fingerprint_on_host(words.data(), 8 * words.size());
  std::swap(words[3], words[700]);
  EXPECT_NE(before, fingerprint_on_host(words.data(), 8 * words.size()));
  std::swap(words[3], words[700]);
  EXPECT_EQ(before, fingerprint_on_host(words.data(), 8 * words.size()));
  // Zeros count as well: there are more or fewer of them.
  std::fill(words.begin(), words.end(), 0);
  EXPECT_NE(fingerprint_on_host(words.data(), 4000), fingerprint_on_host(words.data(), 8000));
}

}  // namespace
}  // namespace spillway::cuda
