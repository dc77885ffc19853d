// What memory is left, read from files as the kernel writes them: of the machine, of control groups
// of both versions, and of those above them.
#include "platform/common/process/memory_room.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace spillway {
namespace {

namespace fs = std::filesystem;

// A machine of 16 GiB of which 12 are available.
class MemoryLimitsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) / fmt::format("memory-room-{}", ::getpid());
    write("/proc/meminfo", fmt::format("MemTotal:       {} kB\nMemFree:  1 kB\n"
                                       "MemAvailable:   {} kB\nSwapFree: 999999999 kB\n",
                                       16 * kGiB / kKiB, 12 * kGiB / kKiB));
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path.substr(1)).parent_path());
    std::ofstream(root_ / path.substr(1)) << text;
  }
  // Version 2, mounted as a whole, with this process in `path`.
  void in_group(const std::string& path) const {
    write("/proc/self/cgroup", "0::" + path + "\n");
    write("/proc/self/mountinfo",
          "31 23 0:28 / / rw - ext4 /dev/vda rw\n"
          "41 31 0:38 / /sys/fs/cgroup rw,relatime shared:5 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  struct Group {
    std::string max = "max";
    Bytes current_bytes = 0;
    std::string stat = "anon 1\n";
    std::string high = "max";
  };
  void group(const std::string& path, const Group& group) const {
    const std::string folder = "/sys/fs/cgroup" + path;
    write(folder + "/memory.max", group.max + "\n");
    write(folder + "/memory.high", group.high + "\n");
    write(folder + "/memory.current", fmt::format("{}\n", group.current_bytes));
    write(folder + "/memory.stat", group.stat);
  }
  [[nodiscard]] MemoryRoom room() const { return MemoryLimits(root_.string()).room(); }

  fs::path root_;
};

std::string bytes(Bytes bytes) { return fmt::format("{}", bytes); }

TEST_F(MemoryLimitsTest, OfAMachineItIsWhatIsAvailable) {
  const MemoryRoom left = room();
  EXPECT_EQ(left.limit_bytes, 16 * kGiB);
  EXPECT_EQ(left.left_bytes, 12 * kGiB);
  EXPECT_EQ(left.whose, "this machine");
  EXPECT_EQ(left.text(), "12 GiB of the 16 GiB of this machine are left");
  EXPECT_EQ(left.text_with_kept(),
            "12 GiB of the 16 GiB of this machine are left, of which 2 GiB stay for the program "
            "itself");
}

TEST_F(MemoryLimitsTest, OfAGroupItIsTheLimitLessWhatIsUsed) {
  in_group("/user/job");
  group("/user/job", {.max = bytes(8 * kGiB), .current_bytes = 3 * kGiB});
  const MemoryRoom left = room();
  EXPECT_EQ(left.limit_bytes, 8 * kGiB);
  EXPECT_EQ(left.left_bytes, 5 * kGiB);
  EXPECT_EQ(left.whose, "control group /user/job");
}

// Pages of files go as soon as they are wanted; those that are to be written first do not.
TEST_F(MemoryLimitsTest, PagesOfFilesAreNotInUse) {
  in_group("/job");
  group("/job",
        {.max = bytes(8 * kGiB),
         .current_bytes = 7 * kGiB,
         .stat = fmt::format("anon 99\nfile 5\ninactive_file {}\nactive_file {}\nfile_dirty {}\n"
                             "file_writeback {}\nworkingset_refault_file 77\n",
                             3 * kGiB, kGiB, 256 * kMiB, 256 * kMiB)});
  EXPECT_EQ(room().left_bytes, 8 * kGiB - (7 * kGiB - 4 * kGiB + 512 * kMiB));
}

TEST_F(MemoryLimitsTest, TheNearestLimitingAncestorCounts) {
  in_group("/slice/user/job");
  group("/slice/user/job", {.max = "max", .current_bytes = kGiB});
  group("/slice/user", {.max = bytes(6 * kGiB), .current_bytes = 2 * kGiB});
  group("/slice", {.max = bytes(14 * kGiB), .current_bytes = 3 * kGiB});
  EXPECT_EQ(room().whose, "control group /slice/user");
  EXPECT_EQ(room().left_bytes, 4 * kGiB);
  // Others below it have used what there was.
  group("/slice", {.max = bytes(14 * kGiB), .current_bytes = 13 * kGiB});
  EXPECT_EQ(room().whose, "control group /slice");
  EXPECT_EQ(room().left_bytes, kGiB);
}

TEST_F(MemoryLimitsTest, AMachineWithLessThanTheGroupCounts) {
  in_group("/job");
  group("/job", {.max = bytes(64 * kGiB), .current_bytes = 0});
  EXPECT_EQ(room().whose, "this machine");
  EXPECT_EQ(room().left_bytes, 12 * kGiB);
}

// Beyond memory.high nobody is ended, and nothing runs either.
TEST_F(MemoryLimitsTest, WhereTheKernelSlowsDownIsALimitAsWell) {
  in_group("/job");
  group("/job", {.max = bytes(8 * kGiB), .current_bytes = kGiB, .high = bytes(4 * kGiB)});
  EXPECT_EQ(room().limit_bytes, 4 * kGiB);
  EXPECT_EQ(room().left_bytes, 3 * kGiB);
}

TEST_F(MemoryLimitsTest, MoreInUseThanTheLimitLeavesNothing) {
  in_group("/job");
  group("/job", {.max = bytes(kGiB), .current_bytes = 2 * kGiB});
  EXPECT_EQ(room().left_bytes, 0U);
  EXPECT_EQ(room().to_take_bytes(), 0U);
}

class VersionOne : public MemoryLimitsTest {
 protected:
  void mounted(const std::string& own, const std::string& root) const {
    write("/proc/self/cgroup", "5:devices:/\n4:cpu,memory:" + own + "\n0::/elsewhere\n");
    write("/proc/self/mountinfo",
          "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
          "35 31 0:32 " +
              root +
              " /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,cpu,memory\n"
              "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n");
  }
  void group(const std::string& path, Bytes limit_bytes, Bytes used_bytes, Bytes file_bytes) const {
    const std::string folder = "/sys/fs/cgroup/memory" + path;
    write(folder + "/memory.limit_in_bytes", bytes(limit_bytes) + "\n");
    write(folder + "/memory.usage_in_bytes", bytes(used_bytes) + "\n");
    write(folder + "/memory.stat",
          fmt::format("inactive_file 7\ntotal_inactive_file {}\ntotal_dirty 0\n", file_bytes));
  }
};

TEST_F(VersionOne, HasItsOwnNames) {
  mounted("/docker/abc", "/");
  group("/docker/abc", 4 * kGiB, 3 * kGiB, kGiB);
  EXPECT_EQ(room().limit_bytes, 4 * kGiB);
  EXPECT_EQ(room().left_bytes, 2 * kGiB);
  EXPECT_EQ(room().whose, "control group /docker/abc");
}

TEST_F(VersionOne, WritesANumberWhereThereIsNoLimit) {
  mounted("/docker/abc", "/");
  group("/docker/abc", 9223372036854771712U, 3 * kGiB, 0);
  group("/docker", 2 * kGiB, kGiB, 0);
  EXPECT_EQ(room().whose, "control group /docker");
  EXPECT_EQ(room().left_bytes, kGiB);
}

// A container is told its place in the whole, and sees only its own part.
TEST_F(VersionOne, InAContainerTheOwnPartIsMountedAlone) {
  mounted("/docker/abc", "/docker/abc");
  group("", 4 * kGiB, kGiB, 0);
  EXPECT_EQ(room().left_bytes, 3 * kGiB);
  EXPECT_EQ(room().whose, "control group /");
}

TEST_F(VersionOne, WhatIsNotThereToBeSeenIsTheMountItself) {
  mounted("/../elsewhere", "/");
  group("", 4 * kGiB, kGiB, 0);
  EXPECT_EQ(room().left_bytes, 3 * kGiB);
}

TEST_F(MemoryLimitsTest, APlaceWithASpace) {
  write("/proc/self/cgroup", "0::/a job\n");
  write("/proc/self/mountinfo", "41 31 0:38 / /control\\040groups rw - cgroup2 cgroup2 rw\n");
  write("/control groups/a job/memory.max", bytes(kGiB));
  EXPECT_EQ(room().limit_bytes, kGiB);
  EXPECT_EQ(room().whose, "control group /a job");
}

TEST(MemoryRoom, KeepsAPartForTheProgram) {
  const MemoryRoom little{.limit_bytes = 16 * kGiB, .left_bytes = 5 * kGiB, .whose = {}};
  EXPECT_EQ(little.kept_bytes(), 2 * kGiB);
  EXPECT_EQ(little.to_promise_bytes(), 3 * kGiB);
  EXPECT_EQ(little.to_take_bytes(), 4 * kGiB);
  EXPECT_EQ(MemoryRoom::kept_bytes(64 * kGiB), 8 * kGiB);
  EXPECT_EQ(MemoryRoom::kept_bytes(2048 * kGiB), 8 * kGiB);
  const MemoryRoom none{.limit_bytes = 16 * kGiB, .left_bytes = kGiB, .whose = {}};
  EXPECT_EQ(none.to_promise_bytes(), 0U);
  EXPECT_EQ(none.to_take_bytes(), 0U);
}

// This very process, wherever it runs.
TEST(MemoryRoom, IsSomewhereBetweenNothingAndAll) {
  const MemoryRoom here = MemoryLimits().room();
  EXPECT_GT(here.left_bytes, 0U);
  EXPECT_LE(here.left_bytes, here.limit_bytes);
}

}  // namespace
}  // namespace spillway
