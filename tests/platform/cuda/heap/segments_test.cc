// Tensors in segments that PyTorch's allocator divides, on the fake driver: what is dead is not
// moved, what lives is right, and where all fits the platform hears of nothing.
#include "heap/segments.h"

#include <gmock/gmock.h>

#include <map>
#include <vector>

#include "base/rng.h"
#include "platform/cuda/segments_world.h"

namespace spillway::cuda {
namespace {

constexpr Bytes kSegment = 8 * kMiB;

class SegmentsTest : public SegmentsWorld {
 protected:
  SegmentsTest() {
    options.device_bytes = 64 * kMiB;
    options.block_bytes = 8 * kMiB;
    options.pinned_piece_bytes = 8 * kMiB;
  }

  Buffer segment(Bytes bytes = kSegment) {
    const Buffer made = allocate(bytes);
    segments->made(made.address, bytes);
    return made;
  }
  [[nodiscard]] bool lives(const Buffer& segment) const {
    return platform->memory().allocation_of(segment.address).has_value();
  }
  void become_quiet(Buffer& buffer) {
    for (int i = 0; i < 100 && !platform->bypass().calls_are_open(); ++i) {
      rewrite(on, buffer, buffer.seed + 1);
      synchronize(on);
    }
    EXPECT_TRUE(platform->bypass().calls_are_open());
  }
};

// A pool has given the allocator a part of its own memory, and uses the rest itself.
TEST_F(SegmentsTest, WhatIsMoreThanTheAllocatorHasIsNotItsAlone) {
  const Buffer own = segment();
  segments->allocator_has(kSegment);
  born(own.address, kMiB);
  const Buffer of_a_pool = segment(2 * kSegment);
  segments->allocator_has(2 * kSegment);
  born(of_a_pool.address, kMiB);
  died(of_a_pool.address);
  died(own.address);
  EXPECT_TRUE(lives(of_a_pool));
  EXPECT_FALSE(lives(own));
  // What it has given back leaves room for others of its own.
  segments->freed(own.address);
  const Buffer next = segment();
  segments->allocator_has(kSegment);
  born(next.address, kMiB);
  died(next.address);
  EXPECT_FALSE(lives(next));
}

TEST_F(SegmentsTest, DiesWithItsLastTensorAndLivesWithTheNext) {
  const Buffer made = segment();
  EXPECT_TRUE(lives(made));
  born(made.address, kMiB);
  born(made.address + kMiB, kMiB);
  died(made.address);
  EXPECT_TRUE(lives(made));
  died(made.address + kMiB);
  EXPECT_FALSE(lives(made));
  born(made.address + 512, kMiB);
  EXPECT_TRUE(lives(made));
}

TEST_F(SegmentsTest, OnesThatNobodyDividesLive) {
  const Buffer made = segment();
  const Buffer other = segment();
  born(other.address, kMiB);
  died(other.address);
  EXPECT_TRUE(lives(made));
  EXPECT_FALSE(segments->died(made.address));
  EXPECT_FALSE(segments->died(0x1000));
  segments->born(0x1000, kMiB);  // memory of somebody else's
  EXPECT_TRUE(lives(made));
}

// What is dead is not copied, and what comes into it is right.
TEST_F(SegmentsTest, TheDeadAreNotMoved) {
  std::vector<Buffer> all;
  for (int i = 0; i < 12; ++i) {
    all.push_back(segment());
    born(all.back().address, kSegment);
    fill(on, all.back(), static_cast<std::uint64_t>(i));
    died(all.back().address);
  }
  synchronize(on);
  platform->wait_until_idle();
  EXPECT_EQ(platform->stats().engine.moved(Tier::kDevice, Tier::kHost), 0U);
  for (Buffer& buffer : all) {
    born(buffer.address, kSegment);
    fill(on, buffer, 7);
  }
  for (Buffer& buffer : all) {
    rewrite(on, buffer, 8);
  }
  synchronize(on);
  EXPECT_EQ(*wrong, 0U);
  EXPECT_GT(platform->stats().engine.moved(Tier::kDevice, Tier::kHost), 0U);
}

// The room of what is dead is promised, so that none has to be refused when it lives again.
TEST_F(SegmentsTest, TheDeadKeepTheirRoom) {
  const Bytes all_bytes = options.device_bytes + options.host_bytes;
  std::vector<Buffer> all;
  while (true) {
    const Result<std::uint64_t> made = platform->memory().allocate(kSegment);
    if (!made) {
      EXPECT_THAT(made.error().message, testing::HasSubstr("out of memory"));
      break;
    }
    segments->made(*made, kSegment);
    all.push_back({.address = *made, .words = kSegment / 8, .seed = 0});
    born(*made, kSegment);
    died(*made);
    ASSERT_LE(all.size() * kSegment, all_bytes);
  }
  EXPECT_GE(all.size() * kSegment, all_bytes / 2);
  for (Buffer& buffer : all) {
    born(buffer.address, kSegment);
    EXPECT_TRUE(lives(buffer));
    fill(on, buffer, 3);
  }
  for (Buffer& buffer : all) {
    rewrite(on, buffer, 4);
  }
  segments->freed(all.back().address);
  platform->memory().free(all.back().address);
  EXPECT_TRUE(platform->memory().allocate(kSegment));
}

TEST_F(SegmentsTest, ThoseOfGraphsLiveAsAWhole) {
  const Buffer made = segment();
  born(made.address, kMiB);
  segments->keep_whole(made.address + 3 * kMiB);
  died(made.address);
  EXPECT_TRUE(lives(made));
  const Buffer dead = segment();
  born(dead.address, kMiB);
  died(dead.address);
  EXPECT_FALSE(lives(dead));
  segments->keep_whole(dead.address);
  EXPECT_TRUE(lives(dead));
  segments->keep_whole(0x1000);
}

TEST_F(SegmentsTest, WhereAllFitsThePlatformHearsOfNothing) {
  Buffer first = segment();
  Buffer second = segment();
  born(first.address, kSegment);
  born(second.address, kSegment);
  fill(on, first, 1);
  fill(on, second, 1);
  become_quiet(first);
  for (int i = 0; i < 20'000; ++i) {
    died(second.address);
    EXPECT_TRUE(lives(second));
    born(second.address, kSegment);
  }
  died(second.address);
  EXPECT_TRUE(platform->bypass().calls_are_open());
  segments->tell_deaths();
  EXPECT_FALSE(lives(second));
  EXPECT_FALSE(segments->write_down(first.address, -1));
  EXPECT_TRUE(segments->died(first.address));
  EXPECT_TRUE(segments->write_down(first.address, kSegment));
  EXPECT_FALSE(segments->write_down(second.address, kMiB)) << "the platform takes it for dead";
  segments->born(second.address, kMiB);
  EXPECT_TRUE(lives(second));
  rewrite(on, first, 9);
}

TEST_F(SegmentsTest, WhatWasAskedForIsKnownOfWhoIsAlone) {
  const Buffer made = segment();
  EXPECT_EQ(segments->asked_alone_at_once(made.address), Bytes{0});
  segments->born(made.address, kMiB);
  EXPECT_EQ(segments->asked_alone_at_once(made.address), std::nullopt);
  segments->asked(made.address, kMiB - 100, on);
  EXPECT_EQ(segments->asked_alone_at_once(made.address), kMiB - 100);
  segments->born(made.address + kMiB, kMiB);
  EXPECT_EQ(segments->asked_alone_at_once(made.address), std::nullopt);
  EXPECT_EQ(segments->asked_at_once(made.address), kMiB - 100);
  (void)segments->died(made.address + kMiB);
  EXPECT_EQ(segments->asked_alone_at_once(made.address), kMiB - 100);
  EXPECT_EQ(segments->tensor_at_once(made.address)->bytes, kMiB);
  EXPECT_EQ(segments->tensor_at_once(made.address + 8), std::nullopt);
}

TEST_F(SegmentsTest, WhoeverListensToEachDeathFindsTensorsByAnyAddress) {
  segments->always_tell();
  const Buffer made = segment();
  segments->born(made.address + 512, 1024);
  EXPECT_EQ(segments->tensor_at(made.address), std::nullopt);
  EXPECT_EQ(segments->tensor_at(made.address + 1535)->start, made.address + 512);
  EXPECT_EQ(segments->tensor_at(made.address + 1536), std::nullopt);
  EXPECT_FALSE(segments->write_down(made.address + 512, -1));
  EXPECT_TRUE(segments->died(made.address + 512));
  EXPECT_EQ(segments->tensor_at(made.address + 600), std::nullopt);
}

// Programs by a seed: tensors of many sizes in segments, under pressure and where all fits, against
// what each was filled with.
TEST_F(SegmentsTest, RandomTensorsKeepWhatTheyHold) {
  Rng rng(11);
  std::vector<Buffer> all;
  for (int i = 0; i < 24; ++i) {
    all.push_back(segment());
  }
  struct Tensor {
    Buffer buffer;
    Buffer holder;
  };
  std::map<std::uint64_t, Tensor> living;
  const auto use = [&](Tensor& tensor, std::uint64_t seed, bool fresh) {
    const CudaOperand operand{.address = tensor.holder.address,
                              .bytes = tensor.holder.bytes(),
                              .mode = AccessMode::kReadWrite};
    const CuResult result = issue(on, {&operand, 1}, "use", false, [&] {
      return fresh ? launch(test::kernels().fill, on, tensor.buffer.address, tensor.buffer.words,
                            seed)
                   : launch(test::kernels().rewrite, on, tensor.buffer.address, tensor.buffer.words,
                            tensor.buffer.seed, seed, address_of(wrong));
    });
    EXPECT_EQ(result, CuResult::kSuccess);
    tensor.buffer.seed = seed;
  };
  constexpr Bytes kPart = kMiB;
  constexpr std::uint64_t kWords = 512;  // that are looked at
  for (std::uint64_t step = 1; step <= 2000; ++step) {
    // For a while few are used, so that all fits.
    const std::size_t most = step % 1000 < 500 ? 4 : all.size();
    const Buffer& holder = all[rng.below(most)];
    const std::uint64_t address = holder.address + rng.below(kSegment / kPart) * kPart;
    if (const auto found = living.find(address); found == living.end()) {
      born(address, kPart);
      Tensor& tensor = living[address];
      tensor = {.buffer = {.address = address, .words = kWords, .seed = 0}, .holder = holder};
      use(tensor, step, true);
    } else if (rng.below(3) == 0) {
      use(found->second, step, false);
    } else {
      living.erase(found);
      died(address);
    }
    if (step % 64 == 0) {
      synchronize(on);
    }
  }
  for (auto& [address, tensor] : living) {
    use(tensor, tensor.buffer.seed, false);
  }
  synchronize(on);
  EXPECT_EQ(*wrong, 0U);
}

}  // namespace
}  // namespace spillway::cuda
