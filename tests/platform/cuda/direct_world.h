// A CUDA platform with a swap file on the fake driver and the fake libcufile, and what tests of
// direct storage do on it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "platform/cuda/cuda_world.h"
#include "platform/cuda/fake_cufile/fake_cufile.h"

namespace spillway::cuda {

inline constexpr Bytes kTrialBytes = kBlockBytes;  // each way

class DirectStorageOnFakes : public CudaWorld {
 protected:
  DirectStorageOnFakes() {
    fake_cufile_default_config(&files);
    options.device_bytes = 8 * kMiB;
    options.host_bytes = 0;
    options.cufile = {.library = FAKE_CUFILE_LIBRARY, .module = ".", .node = "/dev/null"};
    ::setenv(kCuFileCompatibilityVariable, "false", 1);
  }
  ~DirectStorageOnFakes() override { ::unsetenv(kCuFileCompatibilityVariable); }
  void open_direct() {
    reset_files(&files);
    open(base_uvm, 128 * kMiB);
  }
  // Whether memory that has just been used is of a kind that a disk may reach.
  int disk_may_reach_handles() {
    Buffer buffer = allocate(6 * kMiB);
    const CuStream on = stream();
    fill(on, buffer, 1);
    synchronize(on);
    return fake_cuda_is_for_rdma(buffer.address);
  }
  // As much as needs the swap file, in several rounds.
  void rewrite_all(std::uint64_t rounds = 2) {
    const CuStream on = stream();
    if (buffers.empty()) {
      for (int i = 0; i < 10; ++i) {
        buffers.push_back(allocate(2 * kMiB));
        fill(on, buffers.back(), 1);
      }
    }
    for (std::uint64_t round = 2; round < 2 + rounds; ++round) {
      for (Buffer& buffer : buffers) {
        rewrite(on, buffer, round);
      }
    }
    synchronize(on);
    platform->wait_until_idle();
    EXPECT_EQ(wrong_words(), 0U);
    whole();
  }
  void TearDown() override {
    CudaWorld::TearDown();
    EXPECT_EQ(seen().handles, 0U);
    EXPECT_EQ(seen().wrong_calls, 0U);
  }
  [[nodiscard]] FakeCuFileCounters seen() const {
    FakeCuFileCounters counters;
    count_files(&counters);
    return counters;
  }
  [[nodiscard]] std::uint64_t count(std::string_view name) const {
    for (const CudaPlatform::Work& work : platform->work()) {
      if (work.name == name) {
        return work.count;
      }
    }
    return 0;
  }

  FakeCuFileConfig files{};
  // Of the library that is used: the linked one, or a copy.
  decltype(&fake_cufile_reset) reset_files = fake_cufile_reset;
  decltype(&fake_cufile_counters) count_files = fake_cufile_counters;
  std::vector<Buffer> buffers;
};

}  // namespace spillway::cuda
