// Tensors in memory that the program maps itself, as PyTorch's expandable segments, on the fake
// driver: they lie across pieces, and a piece is dead when no tensor lives in any part of it.
#include <map>
#include <vector>

#include "base/rng.h"
#include "platform/cuda/segments_world.h"

namespace spillway::cuda {
namespace {

constexpr Bytes kMappedPiece = 4 * kMiB;

class SegmentsMappedTest : public SegmentsWorld {
 protected:
  SegmentsMappedTest() { options.device_bytes = 32 * kMiB; }
  void SetUp() override {
    SegmentsWorld::SetUp();
    start = *platform->placed().reserve(256 * kMiB, 0);
  }
  void TearDown() override {
    synchronize(on);
    EXPECT_EQ(*wrong, 0U);
    SegmentsWorld::TearDown();
  }

  [[nodiscard]] std::uint64_t at(double pieces) const {
    return start + static_cast<Bytes>(pieces * kMappedPiece);
  }
  void map(std::uint64_t piece) {
    EXPECT_TRUE(platform->placed().promise(kMappedPiece));
    EXPECT_TRUE(platform->placed().allocate_at(start + piece * kMappedPiece, kMappedPiece));
    segments->mapped(start + piece * kMappedPiece, kMappedPiece);
  }
  void unmap(std::uint64_t piece) {
    segments->unmapped(start + piece * kMappedPiece);
    platform->memory().free(start + piece * kMappedPiece);
  }
  // Which of so many pieces live.
  [[nodiscard]] std::vector<std::uint64_t> living(std::uint64_t pieces) const {
    std::vector<std::uint64_t> found;
    for (std::uint64_t i = 0; i < pieces; ++i) {
      if (platform->memory().allocation_of(start + i * kMappedPiece)) {
        found.push_back(i);
      }
    }
    return found;
  }
  void become_quiet() {
    for (int i = 0; i < 100 && !platform->bypass().calls_are_open(); ++i) {
      Buffer all{.address = start, .words = kMappedPiece / 8, .seed = 0};
      fill(on, all, 1);
      synchronize(on);
    }
    EXPECT_TRUE(platform->bypass().calls_are_open());
  }

  using Pieces = std::vector<std::uint64_t>;
  std::uint64_t start = 0;
};

TEST_F(SegmentsMappedTest, APieceLivesAsLongAsAnyTensorHasAPartOfIt) {
  for (std::uint64_t i = 0; i < 5; ++i) {
    map(i);
  }
  born(at(0), kMappedPiece / 2);
  born(at(0.5), 2 * kMappedPiece);  // to the middle of the third
  born(at(2.5), kMappedPiece / 4);
  EXPECT_EQ(living(5), (Pieces{0, 1, 2, 3, 4}));
  died(at(0.5));
  EXPECT_EQ(living(5), (Pieces{0, 2, 3, 4})) << "what none has lived in is not known to be dead";
  died(at(0));
  EXPECT_EQ(living(5), (Pieces{2, 3, 4}));
  died(at(2.5));
  EXPECT_EQ(living(5), (Pieces{3, 4}));
  born(at(1.75), kMappedPiece);
  EXPECT_EQ(living(5), (Pieces{1, 2, 3, 4}));
  born(at(0), kMappedPiece);
  EXPECT_EQ(living(5), (Pieces{0, 1, 2, 3, 4}));
}

TEST_F(SegmentsMappedTest, AnAddressMeansWhatLivesThere) {
  for (std::uint64_t i = 0; i < 4; ++i) {
    map(i);
  }
  const std::uint64_t one = at(0.25);
  const std::uint64_t two = at(0.5);
  const std::uint64_t host_mapped = at(3);
  born(one, kMappedPiece / 4);  // to `two`
  born(two, kMappedPiece);
  born(host_mapped, kMappedPiece / 2);
  const auto meant = segments->meant_by(two);
  ASSERT_TRUE(meant);
  EXPECT_EQ(meant->in.start, two);
  EXPECT_EQ(meant->in.bytes, kMappedPiece);
  EXPECT_EQ(meant->ends.start, one);
  EXPECT_EQ(meant->ends.bytes, kMappedPiece / 4);
  const auto inside = segments->meant_by(two + 8);
  EXPECT_EQ(inside->in.start, two);
  EXPECT_EQ(inside->ends.bytes, 0U);
  const auto behind = segments->meant_by(two + kMappedPiece);
  EXPECT_EQ(behind->in.bytes, 0U);
  EXPECT_EQ(behind->ends.start, two);
  EXPECT_EQ(behind->between.start, two + kMappedPiece);
  EXPECT_EQ(behind->between.start + behind->between.bytes, host_mapped);
  const auto before = segments->meant_by(at(0));
  EXPECT_EQ(before->in.bytes, 0U);
  EXPECT_EQ(before->between.start + before->between.bytes, one);
  died(host_mapped);
  born(at(3.5), kMappedPiece / 2);  // to the end of all that is mapped
  EXPECT_EQ(segments->meant_by(at(4))->ends.start, at(3.5));
  EXPECT_FALSE(segments->meant_by(at(4) + 1));
  const Buffer plain = allocate(kMappedPiece);
  EXPECT_FALSE(segments->meant_by(plain.address));
}

// What was written down counts when somebody asks.
TEST_F(SegmentsMappedTest, WhatIsWrittenDownIsLookedAtBeforeAnAnswer) {
  for (std::uint64_t i = 0; i < 3; ++i) {
    map(i);
    Buffer piece{.address = at(0) + i * kMappedPiece, .words = kMappedPiece / 8, .seed = 0};
    fill(on, piece, 1);
  }
  born(at(0), kMappedPiece / 4);
  become_quiet();
  died(at(0));
  born(at(0), 2 * kMappedPiece);
  EXPECT_EQ(segments->meant_by(at(1.5))->in.start, at(0));
  died(at(0));
  born(at(0), kMappedPiece);
  EXPECT_EQ(segments->tensor_at_once(at(0))->bytes, kMappedPiece);
}

// The first piece of a tensor lives, and the others are dead: that must not only be written down.
TEST_F(SegmentsMappedTest, WhatIsDeadBehindItsFirstPieceIsNotOverlooked) {
  for (std::uint64_t i = 0; i < 3; ++i) {
    map(i);
    Buffer piece{.address = at(0) + i * kMappedPiece, .words = kMappedPiece / 8, .seed = 0};
    fill(on, piece, 1);
  }
  born(at(0), kMappedPiece / 4);
  born(at(1), 2 * kMappedPiece);
  become_quiet();
  died(at(1));
  segments->tell_deaths();
  EXPECT_EQ(living(3), (Pieces{0}));
  died(at(0));  // to be written down again
  born(at(0), kMappedPiece / 4);
  born(at(0.5), 2 * kMappedPiece);
  EXPECT_EQ(living(3), (Pieces{0, 1, 2}));
}

TEST_F(SegmentsMappedTest, ThoseOfGraphsLiveInAllTheirPieces) {
  for (std::uint64_t i = 0; i < 3; ++i) {
    map(i);
  }
  born(at(0.5), 2 * kMappedPiece);
  segments->keep_whole(at(0.5));
  died(at(0.5));
  EXPECT_EQ(living(3), (Pieces{0, 1, 2}));
  // Also where the program takes the memory away, and puts other there.
  for (std::uint64_t i = 0; i < 3; ++i) {
    unmap(i);
  }
  for (std::uint64_t i = 0; i < 3; ++i) {
    map(i);
  }
  born(at(1), kMappedPiece);
  died(at(1));
  EXPECT_EQ(living(3), (Pieces{0, 1, 2}));
  for (std::uint64_t i = 0; i < 3; ++i) {
    unmap(i);
  }
  segments->addresses_ended(start, 256 * kMiB);
  map(0);
  born(at(0), kMiB);
  died(at(0));
  EXPECT_EQ(living(1), Pieces());
}

// As vLLM's that sleep: their memory goes, and comes again under them.
TEST_F(SegmentsMappedTest, TensorsOutliveTheirMemory) {
  for (std::uint64_t i = 0; i < 2; ++i) {
    map(i);
  }
  born(at(0.5), kMappedPiece);
  unmap(0);
  unmap(1);
  map(1);
  map(0);
  born(at(0), kMiB);
  died(at(0));
  EXPECT_EQ(living(2), (Pieces{0, 1}));
  EXPECT_EQ(segments->meant_by(at(1))->in.start, at(0.5));
  died(at(0.5));
  EXPECT_EQ(living(2), Pieces());
  // Until the addresses are the program's no more.
  born(at(0.5), kMappedPiece);
  unmap(0);
  unmap(1);
  segments->addresses_ended(start, 256 * kMiB);
  map(0);
  EXPECT_EQ(segments->meant_by(at(0.75))->in.bytes, 0U);
}

// What is dead is unmapped, and may be shown again: what it holds is the program's.
TEST_F(SegmentsMappedTest, WhatIsUnmappedLivesAgain) {
  map(0);
  born(at(0), kMiB);
  died(at(0));
  EXPECT_EQ(living(1), Pieces());
  segments->unmapped(at(0));
  platform->placed().hide(at(0));
  const Result<std::uint64_t> there = platform->placed().move(at(0), at(7));
  ASSERT_TRUE(there);
  platform->placed().show(at(7));
  segments->mapped(at(7), kMappedPiece);
  Buffer piece{.address = at(7), .words = kMappedPiece / 8, .seed = 0};
  fill(on, piece, 3);
  check(on, piece);
}

// Programs by a seed, against what each tensor was filled with: tensors of many sizes across
// pieces, which come and go as well. Where few are used all fits, and nobody is told of anything.
TEST_F(SegmentsMappedTest, RandomTensorsKeepWhatTheyHold) {
  constexpr std::uint64_t kMapped = 24;
  constexpr Bytes kUnit = 512 * kKiB;
  constexpr std::uint64_t kUnits = kMapped * kMappedPiece / kUnit;
  constexpr std::uint64_t kUnitsInPiece = kMappedPiece / kUnit;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    Rng rng(seed);
    std::map<std::uint64_t, Buffer> tensors;  // by unit
    std::vector<bool> is_mapped(kMapped);
    const auto units_of = [](const Buffer& buffer) { return buffer.bytes() / kUnit; };
    const auto is_free = [&](std::uint64_t unit, std::uint64_t units) {
      for (const auto& [first, buffer] : tensors) {
        if (first < unit + units && unit < first + units_of(buffer)) {
          return false;
        }
      }
      return unit + units <= kUnits;
    };
    const auto end = [&](std::map<std::uint64_t, Buffer>::iterator it) {
      check(on, it->second);
      died(it->second.address);
      tensors.erase(it);
    };
    for (std::uint64_t step = 1; step <= 1500; ++step) {
      const std::uint64_t most = step % 500 < 250 ? kUnitsInPiece * 5 : kUnits;
      const std::uint64_t unit = rng.below(most);
      const std::uint64_t units = 1 + rng.below(2 * kUnitsInPiece + 1);
      if (const std::uint64_t piece = unit / kUnitsInPiece;
          rng.below(12) == 0 && is_mapped[piece] && is_free(piece * kUnitsInPiece, kUnitsInPiece)) {
        unmap(piece);
        is_mapped[piece] = false;
      } else if (const auto found = tensors.find(unit); found != tensors.end()) {
        if (rng.below(3) == 0) {
          rewrite(on, found->second, step);
        } else {
          end(found);
        }
      } else if (unit + units <= most && is_free(unit, units)) {
        for (std::uint64_t i = unit / kUnitsInPiece; i <= (unit + units - 1) / kUnitsInPiece; ++i) {
          if (!is_mapped[i]) {
            map(i);
            is_mapped[i] = true;
          }
        }
        Buffer made{.address = start + unit * kUnit, .words = units * kUnit / 8, .seed = 0};
        born(made.address, made.bytes());
        fill(on, made, step);
        tensors[unit] = made;
      }
      if (step % 32 == 0) {
        synchronize(on);
      }
    }
    while (!tensors.empty()) {
      end(tensors.begin());
    }
    synchronize(on);
    EXPECT_EQ(*wrong, 0U) << seed;
    segments->tell_deaths();
    for (std::uint64_t i = 0; i < kMapped; ++i) {
      EXPECT_FALSE(platform->memory().allocation_of(start + i * kMappedPiece));
      if (is_mapped[i]) {
        unmap(i);
      }
    }
  }
}

}  // namespace
}  // namespace spillway::cuda
