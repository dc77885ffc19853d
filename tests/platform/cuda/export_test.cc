// Memory that other processes use: it stays, they see what is written, and what is freed is not
// used for anything else. docs/interposer.md.
#include <optional>
#include <utility>
#include <vector>

#include "platform/cuda/cuda_world.h"

namespace spillway::cuda {
namespace {

class Export : public CudaWorld {
 protected:
  // As the interposer does it.
  Result<std::uint64_t> export_it(const Buffer& buffer) {
    if (const Status room = platform->exports().may_export(buffer.address); !room) {
      return tl::unexpected<Error>(room.error());
    }
    const CudaOperand it = operand(buffer, AccessMode::kReadWrite);
    std::optional<Result<std::uint64_t>> number;
    (void)issue(own, {&it, 1}, "export", true, [&] {
      number = platform->exports().export_memory(buffer.address);
      return CuResult::kSuccess;
    });
    return *number;
  }
  // What another process has of it: the same memory at addresses of its own, with its program's
  // handles, until `close`.
  struct There {
    CuAddress start = 0;
    Bytes bytes = 0;
    std::vector<std::pair<CuAddress, Bytes>> pieces;
    Buffer buffer;
  };
  There open_there(const Buffer& buffer, std::uint64_t number) const {
    There there;
    there.buffer = buffer;
    CuAddress at = 0;
    for (std::uint32_t i = 0; there.start == 0 || at < there.start + there.bytes; ++i) {
      const Result<ExportedPiece> piece = platform->exports().exported_piece(number, i);
      EXPECT_TRUE(piece) << piece.error().message;
      if (there.start == 0) {
        there.bytes = piece->all_bytes;
        there.start = at = reserve(there.bytes);
        there.buffer.address = there.start + piece->offset_bytes;
      }
      CuMemHandle handle = 0;
      // NOLINTNEXTLINE(performance-no-int-to-ptr): a descriptor
      auto* const fd = reinterpret_cast<void*>(std::intptr_t{piece->memory.get()});
      EXPECT_EQ(driver.memory_import(&handle, fd, CuHandleType::kFileDescriptor),
                CuResult::kSuccess);
      map(at, handle, piece->bytes);
      EXPECT_EQ(driver.memory_release(handle), CuResult::kSuccess);
      there.pieces.emplace_back(at, piece->bytes);
      at += piece->bytes;
    }
    EXPECT_FALSE(platform->exports().exported_piece(number, 1000));
    return there;
  }
  void close(const There& there) const {
    for (const auto& [at, bytes] : there.pieces) {
      EXPECT_EQ(driver.memory_unmap(at, bytes), CuResult::kSuccess);
    }
    EXPECT_EQ(driver.address_free(there.start, there.bytes), CuResult::kSuccess);
  }
  static std::vector<std::uint64_t> words(const Buffer& buffer) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the fake driver's memory
    const auto* const at = reinterpret_cast<const std::uint64_t*>(buffer.address);
    return {at, at + buffer.words};
  }
  // Others that have to make way for each other.
  void use_in_turn(std::vector<Buffer>& others, int rounds) {
    for (int round = 0; round < rounds; ++round) {
      for (Buffer& other : others) {
        rewrite(on, other, ++seed);
      }
    }
    synchronize(on);
  }
  void SetUp() override {
    options.block_bytes = 4 * kMiB;
    options.bypass_after = 4;
    options.bypass_after_at_most = 4;
    open(lookahead);
    on = stream();
    own = stream();
  }
  std::vector<Buffer> filled(std::size_t count, Bytes bytes) {
    std::vector<Buffer> buffers;
    for (std::size_t i = 0; i < count; ++i) {
      buffers.push_back(allocate(bytes));
      fill(on, buffers.back(), ++seed);
    }
    return buffers;
  }

  CuStream on = nullptr;
  CuStream own = nullptr;
  std::uint64_t seed = 0;
};

TEST_F(Export, BothSeeWhatIsWrittenWhileOthersMakeWay) {
  std::vector<Buffer> shared = filled(1, 8 * kMiB);
  std::vector<Buffer> others = filled(4, 4 * kMiB);
  EXPECT_FALSE(platform->exports().exported(shared[0].address));
  const Result<std::uint64_t> number = export_it(shared[0]);
  ASSERT_TRUE(number) << number.error().message;
  EXPECT_EQ(platform->exports().exported(shared[0].address), *number);
  const There there = open_there(shared[0], *number);
  const std::uint64_t* const seen = test::words_at(there.buffer.address);
  EXPECT_EQ(test::count_wrong(seen, shared[0].words, shared[0].seed), 0U);
  use_in_turn(others, 4);
  EXPECT_EQ(test::count_wrong(seen, shared[0].words, shared[0].seed), 0U);
  rewrite(on, shared[0], ++seed);
  use_in_turn(others, 1);
  EXPECT_EQ(test::count_wrong(seen, shared[0].words, shared[0].seed), 0U);
  // The other way round, by a launch of which the exporter hears nothing.
  shared[0].seed = ++seed;
  test::write_pattern(test::words_at(there.buffer.address), there.buffer.words, shared[0].seed);
  use_in_turn(others, 2);
  check(on, shared[0]);
  synchronize(on);
  EXPECT_EQ(wrong_words(), 0U);
  EXPECT_GT(platform->stats().engine.moved(Tier::kDevice, Tier::kHost), 0U);
  close(there);
  whole();
}

TEST_F(Export, WhatIsFreedIsNotUsedForAnythingElse) {
  std::vector<Buffer> shared = filled(1, 8 * kMiB);
  const Result<std::uint64_t> number = export_it(shared[0]);
  ASSERT_TRUE(number);
  synchronize(on);
  const There there = open_there(shared[0], *number);
  platform->memory().free(shared[0].address);
  EXPECT_FALSE(platform->exports().exported_piece(*number, 0));
  platform->wait_until_idle();
  std::vector<Buffer> others = filled(4, 4 * kMiB);
  use_in_turn(others, 1);
  EXPECT_EQ(
      test::count_wrong(test::words_at(there.buffer.address), there.buffer.words, shared[0].seed),
      0U);
  // Another allocation there is another number.
  const Buffer next = allocate(8 * kMiB);
  EXPECT_FALSE(platform->exports().exported(next.address));
  close(there);
  whole();
}

TEST_F(Export, MoreThanThreeQuartersOfTheBudgetAreRefused) {
  std::vector<Buffer> buffers = filled(4, 4 * kMiB);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(export_it(buffers[i]));
  }
  const Result<std::uint64_t> refused = export_it(buffers[3]);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, ::testing::HasSubstr("--device-memory"));
  platform->memory().free(buffers[0].address);
  platform->wait_until_idle();
  EXPECT_TRUE(export_it(buffers[3]));
  whole();
}

// A launch for which too little is left is as one that is larger than the budget.
TEST_F(Export, LaunchesThatNeedMoreThanIsLeftGoOn) {
  std::vector<Buffer> shared = filled(3, 4 * kMiB);
  for (const Buffer& buffer : shared) {
    EXPECT_TRUE(export_it(buffer));
  }
  std::vector<Buffer> large = filled(2, 8 * kMiB);
  use_in_turn(large, 3);
  use_in_turn(shared, 1);
  EXPECT_EQ(wrong_words(), 0U);
  EXPECT_THAT(warned, ::testing::ElementsAre(::testing::HasSubstr("other processes share")));
  whole();
}

// One that waits had counted on more.
TEST_F(Export, ALaunchThatWaitsMeanwhileGoesOn) {
  std::vector<Buffer> shared = filled(1, 8 * kMiB);
  Buffer large = allocate(12 * kMiB);
  const CudaOperand it = operand(shared[0], AccessMode::kReadWrite);
  (void)issue(own, {&it, 1}, "export", true, [&] {
    fill(on, large, ++seed);
    const Result<std::uint64_t> number = platform->exports().export_memory(shared[0].address);
    EXPECT_TRUE(number) << number.error().message;
    return CuResult::kSuccess;
  });
  check(on, large);
  check(on, shared[0]);
  synchronize(on);
  EXPECT_EQ(wrong_words(), 0U);
  whole();
}

TEST_F(Export, SmallOnesShareTheirFrame) {
  std::vector<Buffer> small = filled(2, 64 * kKiB);
  synchronize(on);
  const Result<std::uint64_t> number = export_it(small[1]);
  ASSERT_TRUE(number);
  const There there = open_there(small[1], *number);
  EXPECT_EQ(there.bytes, kTwoMiB);
  EXPECT_EQ(words(there.buffer), words(small[1]));
  std::vector<Buffer> others = filled(5, 4 * kMiB);
  use_in_turn(others, 2);
  rewrite(on, small[1], ++seed);
  synchronize(on);
  EXPECT_EQ(words(there.buffer), words(small[1]));
  // The frame may move from now on, for the sake of the other one; its memory here does not.
  platform->memory().free(small[1].address);
  use_in_turn(others, 2);
  rewrite(on, small[0], ++seed);
  use_in_turn(others, 2);
  EXPECT_EQ(
      test::count_wrong(test::words_at(there.buffer.address), there.buffer.words, small[1].seed),
      0U);
  EXPECT_EQ(wrong_words(), 0U);
  close(there);
  whole();
}

TEST_F(Export, WhileNobodyIsToldOfLaunches) {
  std::vector<Buffer> buffers = filled(3, 4 * kMiB);
  platform->wait_until_idle();
  for (int i = 0; i < 100 && platform->bypass().bypassed_calls() == 0; ++i) {
    rewrite(on, buffers[0], ++seed);
  }
  const std::uint64_t unseen = platform->bypass().bypassed_calls();
  EXPECT_GT(unseen, 0U);
  const Result<std::uint64_t> number = export_it(buffers[0]);
  ASSERT_TRUE(number);
  EXPECT_GT(platform->bypass().bypassed_calls(), unseen);
  std::vector<Buffer> others = filled(3, 4 * kMiB);  // which ends it
  use_in_turn(others, 2);
  use_in_turn(buffers, 1);
  EXPECT_EQ(wrong_words(), 0U);
  whole();
}

class NoExport : public Export {
 protected:
  void SetUp() override {}
};

TEST_F(NoExport, WhereTheDeviceCannot) {
  change_driver = [](Driver& platforms) {
    platforms.memory_export = [](void*, CuMemHandle, CuHandleType, unsigned long long) {
      return CuResult::kNotSupported;
    };
  };
  open();
  EXPECT_FALSE(platform->exports().is_possible());
  on = stream();
  (void)filled(1, 4 * kMiB);
  synchronize(on);
}

}  // namespace
}  // namespace spillway::cuda
