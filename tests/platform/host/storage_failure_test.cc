// A swap file that stops working while a program lives on it: nothing is lost where the data still
// has a place, and nobody reads wrong bytes where it has none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "platform/common/process/say.h"
#include "platform/host/host_platform.h"
#include "policy/base_uvm.h"

namespace spillway::host {
namespace {

// A disk that has room for so much, and that can break.
struct Disk {
  std::atomic<Bytes> room_bytes{kGiB};
  std::atomic<bool> reads{true};
  std::atomic<int> refused{0};
};

class FaultyIo final : public BlockIo {
 public:
  FaultyIo(std::unique_ptr<BlockIo> real, Disk& disk) : real_(std::move(real)), disk_(&disk) {}
  void submit(IoRequest request) override {
    int error = 0;
    if (request.write && request.offset + request.bytes > disk_->room_bytes) {
      error = ENOSPC;
    } else if (!request.write && !disk_->reads) {
      error = EIO;
    }
    if (error == 0) {
      real_->submit(std::move(request));
      return;
    }
    ++disk_->refused;
    std::thread([done = std::move(request.done), error] { done(error); }).detach();
  }

 private:
  std::unique_ptr<BlockIo> real_;
  Disk* disk_;
};

class StorageFailureTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const UserfaultSupport support = userfault_support();
    if (!support.write_protection || !support.kernel_faults) {
      GTEST_SKIP() << support.reason;
    }
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    Result<SwapFile> file = SwapFile::open(SPILLWAY_SOURCE_DIR, 128 * kMiB);
    ASSERT_TRUE(file) << file.error().message;
    HostOptions options;
    options.device_bytes = 16 * kMiB;
    options.host_bytes = 24 * kMiB;
    options.wrap_io = [this](std::unique_ptr<BlockIo> real) {
      return std::make_unique<FaultyIo>(std::move(real), disk_);
    };
    Result<std::unique_ptr<HostPlatform>> made =
        HostPlatform::create(options, std::move(*file), policy_);
    ASSERT_TRUE(made) << made.error().message;
    platform_ = std::move(*made);
  }
  std::span<std::uint64_t> allocate(Bytes bytes) {
    const Result<void*> start = platform_->allocate(bytes);
    EXPECT_TRUE(start);
    return {static_cast<std::uint64_t*>(*start), bytes / sizeof(std::uint64_t)};
  }
  static void fill(std::span<std::uint64_t> words, std::uint64_t key) {
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = key * 1'000'003 + i;
  }
  static std::size_t wrong(std::span<const std::uint64_t> words, std::uint64_t key) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < words.size(); ++i) {
      count += words[i] == key * 1'000'003 + i ? 0U : 1U;
    }
    return count;
  }

  // Adds one to every word, 4 MiB after 4 MiB: next to its data, or where the platform says that it
  // had better be there.
  void update(std::span<std::uint64_t> words) {
    constexpr std::size_t kWords = 4 * kMiB / sizeof(std::uint64_t);
    const auto add_one = [](std::span<std::uint64_t> part) {
      for (std::uint64_t& word : part) ++word;
    };
    for (std::size_t at = 0; at < words.size(); at += kWords) {
      const std::span<std::uint64_t> part = words.subspan(at, std::min(kWords, words.size() - at));
      const ProgramOperand operand{
          .start = part.data(), .bytes = part.size_bytes(), .mode = AccessMode::kReadWrite};
      const std::optional<UpdateId> update = platform_->begin_update(std::span(&operand, 1));
      const std::vector<Extents> extents =
          update ? platform_->update_extents(*update) : std::vector<Extents>{};
      for (const Extent& extent : extents.empty() ? Extents{} : extents.front()) {
        add_one(
            {reinterpret_cast<std::uint64_t*>(extent.at), extent.bytes / sizeof(std::uint64_t)});
      }
      if (update) platform_->end_update(*update);
      if (extents.empty()) add_one(part);
    }
  }

  Disk disk_;
  BaseUvm policy_;
  std::unique_ptr<HostPlatform> platform_;
};

// The disk takes 10 MiB of the 128 that the file may have. What it refuses stays where it was.
TEST_F(StorageFailureTest, ADiskThatIsFullTakesNothingMoreAndLosesNothing) {
  disk_.room_bytes = 10 * kMiB;
  const auto words = allocate(46 * kMiB);
  for (std::uint64_t round = 1; round < 4; ++round) {
    fill(words, round);
    ASSERT_EQ(wrong(words, round), 0U);
  }
  EXPECT_GT(disk_.refused, 0);
  EXPECT_TRUE(platform_->check_invariants());
  EXPECT_LE(platform_->capacity_bytes(Tier::kStorage), 10 * kMiB);
}

TEST_F(StorageFailureTest, AReadErrorEndsTheRunWithTheFileTheOffsetAndTheError) {
  const auto words = allocate(64 * kMiB);
  fill(words, 1);
  EXPECT_EXIT(
      {
        // The child of a death test starts anew: it fills memory of its own.
        disk_.reads = false;
        std::exit(wrong(words, 1) == 0 ? 0 : 3);
      },
      testing::ExitedWithCode(kOwnFailureStatus),
      "spillway: .*cannot read [0-9]+ bytes at offset [0-9]+: Input/output error; stopping before "
      "data is lost");
}

// Nobody sees states of which some are of this step: what the program has saved is the last one.
TEST_F(StorageFailureTest, AReadErrorInAnUpdateEndsTheRunInIt) {
  const auto words = allocate(64 * kMiB);
  EXPECT_EXIT(
      {
        fill(words, 1);
        update(words);
        const bool updates_at_host = platform_->stats().engine.updates > 0;
        disk_.reads = false;
        update(words);
        std::exit(updates_at_host ? 3 : 4);
      },
      testing::ExitedWithCode(kOwnFailureStatus),
      "spillway: .*cannot read [0-9]+ bytes at offset [0-9]+: Input/output error; stopping before "
      "data is lost");
}

// What the disk refuses stays where it was, and each word is updated once.
TEST_F(StorageFailureTest, ADiskThatIsFullDuringUpdatesLosesNoneOfThem) {
  disk_.room_bytes = 10 * kMiB;
  const auto words = allocate(46 * kMiB);
  fill(words, 1);
  for (std::uint64_t step = 1; step < 4; ++step) {
    update(words);
    for (std::size_t i = 0; i < words.size(); i += 64) {
      ASSERT_EQ(words[i], 1'000'003 + i + step) << i;
    }
  }
  EXPECT_GT(disk_.refused, 0);
  EXPECT_GT(platform_->stats().engine.updates, 0U);
  EXPECT_TRUE(platform_->check_invariants());
}

// Every tier is full, and the program still writes.
TEST_F(StorageFailureTest, NoPlaceLeftEndsTheRunBeforeAnythingIsLost) {
  disk_.room_bytes = 4 * kMiB;
  const auto words = allocate(64 * kMiB);
  EXPECT_EXIT(
      {
        fill(words, 1);
        std::exit(0);
      },
      testing::ExitedWithCode(kOwnFailureStatus), "spillway: .*(No space left|out of memory)");
}

}  // namespace
}  // namespace spillway::host
