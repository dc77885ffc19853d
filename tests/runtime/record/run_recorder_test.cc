// The recorder beside a space that really pages: what it shows while the space is used, and the
// record that it makes in the end.
#include "runtime/record/run_recorder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "platform/host/faults/userfault.h"

namespace spillway {
namespace {

using ::testing::Le;
using ::testing::SizeIs;

class RunRecorderTest : public ::testing::Test {
 protected:
  static constexpr Bytes kArrayBytes = 8 * kMiB;
  static constexpr std::size_t kArrays = 8;  // twice what the device holds

  void SetUp() override {
    if (const host::UserfaultSupport support = host::userfault_support();
        !support.write_protection || !support.kernel_faults) {
      GTEST_SKIP() << support.reason;
    }
    SpaceOptions options;
    options.device_bytes = 32 * kMiB;
    options.host_bytes = 256 * kMiB;
    options.policy = "base_uvm";
    Result<std::unique_ptr<ProgramSpace>> space = ProgramSpace::open(options);
    ASSERT_TRUE(space) << space.error().message;
    space_ = std::move(*space);
    for (char*& array : arrays_) {
      array = static_cast<char*>(space_->platform().allocate(kArrayBytes).value_or(nullptr));
      ASSERT_NE(array, nullptr);
    }
    live_file_ = std::filesystem::path(testing::TempDir()) /
                 fmt::format("spillway-live-{}-{}", ::getpid(),
                             testing::UnitTest::GetInstance()->current_test_info()->name());
  }
  void TearDown() override { std::filesystem::remove(live_file_); }

  // A launch over each of the arrays, `kinds` different ones.
  void use_all(std::size_t kinds) {
    for (std::size_t i = 0; i < std::max(kinds, kArrays); ++i) {
      char* const array = arrays_[i % kArrays];
      const std::array operand{
          ProgramOperand{.start = array, .bytes = kArrayBytes, .mode = AccessMode::kReadWrite}};
      const LaunchId launch =
          space_->platform().begin_launch(fmt::format("kernel {}", i % kinds), operand);
      touch(array);
      space_->platform().end_launch(launch);
    }
  }
  // The same without launches, so that threads stop at what is not there.
  void touch_all() {
    for (char* const array : arrays_) {
      touch(array);
    }
  }
  static void touch(char* array) {
    for (Bytes page = 0; page < kArrayBytes; page += kPageBytes) {
      ++array[page];
    }
  }

  std::optional<RunRecord> shown() {
    std::ifstream file(live_file_);
    return parse_run_record({std::istreambuf_iterator<char>(file), {}});
  }
  // Waits, a few seconds at most, for something to be shown that is as it should be.
  template <typename As>
  bool shows(As as) {
    for (int i = 0; i < 500; ++i) {
      if (const std::optional<RunRecord> live = shown(); live && as(*live)) {
        return true;
      }
      ::usleep(10'000);
    }
    return false;
  }

  std::unique_ptr<ProgramSpace> space_;
  std::array<char*, kArrays> arrays_{};
  std::filesystem::path live_file_;
};

// A sampler that has looked, and is held up until the end has been shown.
TEST_F(RunRecorderTest, NothingOlderIsShownBehindTheEnd) {
  const std::thread::id here = std::this_thread::get_id();
  std::atomic<bool> looked = false;
  std::atomic<bool> held = true;
  double end_s = 0;
  {
    RunRecorder recorder({.platform = space_->platform(),
                          .policy = "base_uvm",
                          .plan_report = nullptr,
                          .complete =
                              [&](RunRecord&) {
                                looked = looked || std::this_thread::get_id() != here;
                                while (held && std::this_thread::get_id() != here) {
                                  ::usleep(1000);
                                }
                              }},
                         live_file_);
    while (!looked) {
      ::usleep(1000);
    }
    use_all(3);
    end_s = recorder.finish("").times.elapsed_s;
    held = false;
  }
  ASSERT_TRUE(shown());
  EXPECT_GE(shown()->times.elapsed_s, end_s);
}

TEST_F(RunRecorderTest, RecordsWhatHappened) {
  RunRecorder recorder(*space_, "");
  use_all(3);
  use_all(3);
  touch_all();
  space_->platform().wait_until_idle();
  const RunRecord record = recorder.finish("./program --with options");
  EXPECT_EQ(record.version, RunRecord::kVersion);
  EXPECT_EQ(record.command, "./program --with options");
  EXPECT_EQ(record.pid, static_cast<std::uint64_t>(::getpid()));
  EXPECT_EQ(record.policy, "base_uvm");
  EXPECT_EQ(record.memory.budget_bytes, (TierBytes{32 * kMiB, 256 * kMiB, 0}));
  EXPECT_EQ(record.memory.peak_bytes, kArrays * kArrayBytes);
  EXPECT_EQ(record.work.launches, 2 * kArrays);
  EXPECT_GT(record.work.page_faults, 0U);
  EXPECT_GE(record.moved(Tier::kDevice, Tier::kHost), kArrays * kArrayBytes - 32 * kMiB);
  EXPECT_GT(record.moved(Tier::kHost, Tier::kDevice), 0U);
  EXPECT_EQ(record.moved(Tier::kDevice, Tier::kStorage), 0U);
  EXPECT_GT(record.times.stalled_s, 0);
  EXPECT_LE(record.times.stalled_s, record.times.elapsed_s);
  EXPECT_EQ(record.plan, std::nullopt) << "base_uvm does not plan";
  EXPECT_EQ(space_->platform().stats().page_faults, record.work.page_faults);
}

TEST_F(RunRecorderTest, NamesTheLaunchesThatWaitedLongest) {
  RunRecorder recorder(*space_, "");
  use_all(20);
  use_all(20);
  const RunRecord record = recorder.finish("");
  ASSERT_THAT(record.longest_waits, SizeIs(10));
  for (std::size_t i = 0; i < record.longest_waits.size(); ++i) {
    const RunWait& wait = record.longest_waits[i];
    EXPECT_TRUE(wait.name.starts_with("kernel ")) << wait.name;
    EXPECT_EQ(wait.launches, 2U);
    EXPECT_GT(wait.wait_s, 0);
    if (i > 0) {
      EXPECT_LE(wait.wait_s, record.longest_waits[i - 1].wait_s);
    }
  }
}

TEST_F(RunRecorderTest, ItsTimelineReachesTheEnd) {
  RunRecorder recorder(*space_, "");
  use_all(3);
  ::usleep(250'000);
  touch_all();
  space_->platform().wait_until_idle();
  const RunRecord record = recorder.finish("");
  ASSERT_GE(record.timeline.size(), 3U);
  for (std::size_t i = 1; i < record.timeline.size(); ++i) {
    EXPECT_THAT(record.timeline[i - 1].at_s, Le(record.timeline[i].at_s));
    EXPECT_THAT(record.timeline[i - 1].page_faults, Le(record.timeline[i].page_faults));
    EXPECT_THAT(record.timeline[i - 1].stalled_s, Le(record.timeline[i].stalled_s));
  }
  const RunSample& last = record.timeline.back();
  EXPECT_EQ(last.at_s, record.times.elapsed_s);
  EXPECT_EQ(last.page_faults, record.work.page_faults);
  EXPECT_EQ(last.moved_bytes, record.moves.bytes);
  EXPECT_EQ(last.used_bytes, record.memory.used_bytes);
  EXPECT_EQ(last.live_bytes, kArrays * kArrayBytes);
}

TEST_F(RunRecorderTest, ShowsHowThingsStandUntilItEnds) {
  {
    const RunRecorder recorder(*space_, live_file_);
    EXPECT_TRUE(shows([](const RunRecord& live) {
      return live.memory.budget_bytes == TierBytes{32 * kMiB, 256 * kMiB, 0} &&
             live.work.page_faults == 0 && live.memory.live_bytes == kArrays * kArrayBytes;
    }));
    touch_all();
    EXPECT_TRUE(shows([](const RunRecord& live) {
      return live.work.page_faults > 0 && live.memory.used_bytes[index_of(Tier::kHost)] > 0;
    }));
  }
  std::filesystem::remove(live_file_);
  ::usleep(250'000);
  EXPECT_FALSE(std::filesystem::exists(live_file_)) << "nobody writes it any more";
}

TEST_F(RunRecorderTest, WhatItShowsIsTheRecordSoFar) {
  RunRecorder recorder(*space_, live_file_);
  use_all(3);
  space_->platform().wait_until_idle();
  const RunRecord before = recorder.so_far();
  EXPECT_EQ(before.work.launches, kArrays);
  EXPECT_TRUE(shows([](const RunRecord& live) { return live.work.launches == kArrays; }));
  use_all(3);
  space_->platform().wait_until_idle();
  const RunRecord record = recorder.finish("");
  const std::optional<RunRecord> live = shown();
  ASSERT_TRUE(live.has_value());
  EXPECT_EQ(live->work.launches, 2 * kArrays) << "the last of it is the end";
  EXPECT_EQ(live->moves.bytes, record.moves.bytes);
  EXPECT_EQ(live->pid, static_cast<std::uint64_t>(::getpid()));
}

TEST_F(RunRecorderTest, APlaceThatCannotBeWrittenHarmsNothing) {
  RunRecorder recorder(*space_, "/no/such/folder/live");
  touch_all();
  EXPECT_GT(recorder.finish("").work.page_faults, 0U);
}

}  // namespace
}  // namespace spillway
