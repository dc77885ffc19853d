// Blocks to the swap file and back, over io_uring and over threads.
#include "platform/common/storage/block_io.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "platform/common/storage/slot_pool.h"

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Free {
  void operator()(void* memory) const { std::free(memory); }  // NOLINT(*-no-malloc)
};
using Page = std::unique_ptr<char, Free>;

Page pages(Bytes bytes) { return Page(static_cast<char*>(std::aligned_alloc(kPageBytes, bytes))); }

// Writes `count` blocks, each full of its number from 1 on, clears the memory and reads them. Says
// which block has just been submitted for writing; no request may fail.
using Blocks = std::vector<Page>;
Blocks there_and_back(BlockIo& io, int count, const std::function<void(int)>& submitted) {
  Blocks memory;
  std::atomic<int> errors{0};
  for (const bool write : {true, false}) {
    std::latch done(count);
    for (int i = 0; i < count; ++i) {
      if (write) {
        memory.push_back(pages(kBlockBytes));
      }
      char* const block = memory[static_cast<std::size_t>(i)].get();
      std::memset(block, write ? i + 1 : 0, kBlockBytes);
      io.submit({.write = write,
                 .memory = block,
                 .bytes = kBlockBytes,
                 .offset = static_cast<std::uint64_t>(i) * kBlockBytes,
                 .done = [&](int error) {
                   errors += error == 0 ? 0 : 1;
                   done.count_down();
                 }});
      if (write) {
        submitted(i);
      }
    }
    done.wait();
  }
  EXPECT_EQ(errors, 0);
  return memory;
}

using MakeIo = std::unique_ptr<BlockIo> (*)(const SwapFile&, unsigned);
class BlockIoTest : public ::testing::TestWithParam<MakeIo> {};

TEST_P(BlockIoTest, BlocksComeBackAsTheyWent) {
  Result<SwapFile> file = SwapFile::open(SPILLWAY_SOURCE_DIR, 64 * kMiB);
  ASSERT_TRUE(file) << file.error().message;
  const std::unique_ptr<BlockIo> io = GetParam()(*file, 4);
  const Blocks blocks = there_and_back(*io, 20, [](int) {});
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(blocks[i].get()[0], static_cast<char>(i + 1));
    EXPECT_EQ(blocks[i].get()[kBlockBytes - 1], static_cast<char>(i + 1));
  }
}

// Where the file ends there is nothing to read: an error, not a wait for ever, and not zeros.
TEST_P(BlockIoTest, AReadBehindTheEndFails) {
  Result<SwapFile> file = SwapFile::open(SPILLWAY_SOURCE_DIR, 64 * kMiB);
  ASSERT_TRUE(file) << file.error().message;
  const std::unique_ptr<BlockIo> io = GetParam()(*file, 4);
  const Page memory = pages(kPageBytes);
  int answer = 0;
  std::latch done(1);
  io->submit({.write = false,
              .memory = memory.get(),
              .bytes = kPageBytes,
              .offset = 32 * kMiB,
              .done = [&](int error) {
                answer = error;
                done.count_down();
              }});
  done.wait();
  EXPECT_NE(answer, 0);
}

// The kernel gives what there is first: a short transfer, and the rest of it is not there.
TEST_P(BlockIoTest, AReadAcrossTheEndFails) {
  Result<SwapFile> file = SwapFile::open(SPILLWAY_SOURCE_DIR, 64 * kMiB);
  ASSERT_TRUE(file) << file.error().message;
  const std::unique_ptr<BlockIo> io = GetParam()(*file, 4);
  const Page memory = pages(kBlockBytes);
  std::memset(memory.get(), 7, kBlockBytes);
  std::vector<int> answers;
  for (const bool write : {true, false}) {
    std::latch done(1);
    io->submit({.write = write,
                .memory = memory.get(),
                .bytes = write ? kBlockBytes / 2 : kBlockBytes,
                .offset = 32 * kMiB,
                .done = [&](int error) {
                  answers.push_back(error);
                  done.count_down();
                }});
    done.wait();
  }
  EXPECT_EQ(answers[0], 0);
  EXPECT_NE(answers[1], 0);
}

// What becomes of requests when the ring's descriptor is gone, which a program may close with all
// others that it does not know: slower, not lost, and nobody waits for ever.
TEST(UringIo, GoesOnWithoutItsRing) {
  if (const Status supported = io_uring_support(); !supported) {
    GTEST_SKIP() << supported.error().message;
  }
  const auto rings = [] {
    std::vector<int> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
      if (target.find("[io_uring]") != std::string::npos) {
        found.push_back(std::stoi(entry.path().filename().string()));
      }
    }
    return found;
  };
  Result<SwapFile> file = SwapFile::open(SPILLWAY_SOURCE_DIR, 64 * kMiB);
  ASSERT_TRUE(file) << file.error().message;
  const std::unique_ptr<BlockIo> io = make_block_io(*file, 4);
  constexpr int kBlocks = 24;
  const Blocks blocks = there_and_back(*io, kBlocks, [&](int written) {
    if (written == kBlocks / 2) {
      for (const int fd : rings()) ::close(fd);
    }
  });
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(blocks[i].get()[kBlockBytes - 1], static_cast<char>(i + 1));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, BlockIoTest,
                         ::testing::Values(make_block_io, make_threaded_block_io));

TEST(SwapFile, LeavesNoNameBehind) {
  const std::filesystem::path folder =
      std::filesystem::path(SPILLWAY_SOURCE_DIR) / "build" / "swap-file-test";
  std::filesystem::create_directories(folder);
  {
    const Result<SwapFile> in_folder = SwapFile::open(folder, 4 * kMiB);
    const Result<SwapFile> by_name = SwapFile::open(folder / "name.swap", 4 * kMiB);
    EXPECT_TRUE(in_folder && by_name);
    EXPECT_TRUE(std::filesystem::is_empty(folder));
  }
  std::filesystem::remove(folder);
}

// A file of that name would lie on the disk of the folder above, where nobody wants it.
TEST(SwapFile, AMistypedFolderIsNoNewFile) {
  const std::filesystem::path folder =
      std::filesystem::path(SPILLWAY_SOURCE_DIR) / "build" / "mistyped-folder-test.d";
  std::filesystem::create_directories(folder);
  for (const char* const name : {"typo", "typo/", "typo.", ".typo"}) {
    const Result<SwapFile> file = SwapFile::open(folder.string() + "/" + name, 4 * kMiB);
    ASSERT_FALSE(file) << name;
    EXPECT_THAT(file.error().message,
                AllOf(HasSubstr("there is no such folder; --storage takes one that exists"),
                      HasSubstr("typo")));
  }
  std::filesystem::remove(folder);
}

TEST(SwapFile, RefusesWhatIsThereAndWhatIsTooLarge) {
  const Result<SwapFile> file = SwapFile::open(__FILE__, 4 * kMiB);
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message, HasSubstr("this file exists"));
  const Result<SwapFile> huge = SwapFile::open(SPILLWAY_SOURCE_DIR, Bytes{1} << 50U);
  ASSERT_FALSE(huge);
  EXPECT_THAT(huge.error().message, HasSubstr("asked for"));
}

TEST(SlotPool, PlacesNeverOverlapAndComeBack) {
  SlotPool pool(12 * kMiB);
  const std::vector<Bytes> sizes{kBlockBytes, 4 * kKiB, 12 * kKiB, kMiB, 5 * kKiB, kBlockBytes};
  for (int round = 0; round < 3; ++round) {
    std::vector<std::pair<std::uint64_t, Bytes>> taken;
    for (const Bytes bytes : sizes) {
      const std::optional<std::uint64_t> at = pool.take(bytes);
      ASSERT_TRUE(at);
      EXPECT_EQ(*at % kPageBytes, 0U);
      for (const auto& [other, other_bytes] : taken) {
        EXPECT_TRUE(*at + bytes <= other || other + other_bytes <= *at);
      }
      taken.emplace_back(*at, bytes);
    }
    for (const auto& [at, bytes] : taken) {
      pool.give_back(at, bytes);
    }
  }
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(pool.take(kBlockBytes));  // all of it is whole again
  }
  EXPECT_FALSE(pool.take(kPageBytes));
}

}  // namespace
}  // namespace spillway
