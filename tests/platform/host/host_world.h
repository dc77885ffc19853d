// A host platform with real memory, for tests: patterns that differ from block to block and from
// version to version, and what came of them. Skips where userfaultfd is not to be had.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "platform/host/host_platform.h"
#include "policy/base_uvm.h"

namespace spillway::host {

// Every eighth byte of a pattern that differs from block to block and from version to version.
inline std::uint64_t word(std::uint64_t buffer, std::uint64_t version, std::size_t at) {
  return (buffer << 48U) ^ (version << 32U) ^ (at * 0x9e3779b97f4a7c15ULL);
}

inline void fill(std::span<std::uint64_t> words, std::uint64_t buffer, std::uint64_t version) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = word(buffer, version, i);
  }
}

inline std::size_t mismatches(std::span<const std::uint64_t> words, std::uint64_t buffer,
                              std::uint64_t version) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    wrong += words[i] == word(buffer, version, i) ? 0U : 1U;
  }
  return wrong;
}

inline ProgramOperand operand(std::span<std::uint64_t> words, AccessMode mode) {
  return {.start = words.data(), .bytes = words.size_bytes(), .mode = mode};
}

class HostPlatformTest : public ::testing::Test {
 protected:
  void open(Bytes device, Bytes host, Bytes storage, HostOptions options = {}) {
    const UserfaultSupport support = userfault_support();
    if (!support.write_protection || !support.kernel_faults) {
      GTEST_SKIP() << support.reason;
    }
    options.device_bytes = device;
    options.host_bytes = host;
    std::optional<SwapFile> file;
    if (storage > 0) {
      Result<SwapFile> opened = SwapFile::open(swap_folder(), storage);
      ASSERT_TRUE(opened) << opened.error().message;
      file.emplace(std::move(*opened));
    }
    Result<std::unique_ptr<HostPlatform>> made =
        HostPlatform::create(options, std::move(file), policy_);
    ASSERT_TRUE(made) << made.error().message;
    platform_ = std::move(*made);
  }

  static std::string swap_folder() { return SPILLWAY_SOURCE_DIR; }

  std::span<std::uint64_t> allocate(Bytes bytes) {
    const Result<void*> start = platform_->allocate(bytes);
    EXPECT_TRUE(start) << start.error().message;
    return {static_cast<std::uint64_t*>(*start), bytes / sizeof(std::uint64_t)};
  }

  // Of buffers that have been filled once, by their numbers: each holds what it should, three
  // times.
  void read_and_rewrite(const std::vector<std::span<std::uint64_t>>& buffers) {
    for (std::uint64_t round = 1; round < 4; ++round) {
      for (std::uint64_t i = 0; i < buffers.size(); ++i) {
        ASSERT_EQ(mismatches(buffers[i], i, round), 0U) << i;
        fill(buffers[i], i, round + 1);
        ASSERT_LE(platform_->stats().used_bytes[0], platform_->capacity_bytes(Tier::kDevice));
      }
      ASSERT_TRUE(platform_->check_invariants()) << platform_->check_invariants().error().message;
    }
  }

  BaseUvm policy_;
  std::unique_ptr<HostPlatform> platform_;
};

}  // namespace spillway::host
