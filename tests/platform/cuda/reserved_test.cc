// Memory at addresses that the program reserves: it moves like any other, an allocation may take
// another address with its bytes, and bytes go on from one allocation to the next.
#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "platform/cuda/cuda_world.h"
#include "platform/cuda/memory/reserved_runs.h"

namespace spillway::cuda {
namespace {

class ReservedTest : public CudaWorld {
 protected:
  [[nodiscard]] std::uint64_t reserved(Bytes bytes, Bytes alignment = 0) const {
    const std::optional<std::uint64_t> start = platform->placed().reserve(bytes, alignment);
    EXPECT_TRUE(start);
    return start.value_or(0);
  }
  Buffer allocate_at(std::uint64_t address, Bytes bytes) const {
    EXPECT_TRUE(platform->placed().promise(bytes));
    const Status made = platform->placed().allocate_at(address, bytes);
    EXPECT_TRUE(made) << made.error().message;
    return {.address = address, .words = bytes / 8, .seed = 0};
  }
  // As many others as push everything else off the device.
  void press(CuStream on) const {
    std::vector<Buffer> others;
    for (std::uint64_t i = 0; i < 5; ++i) {
      others.push_back(allocate(4 * kMiB));
      fill(on, others.back(), 1000 + i);
    }
    for (const Buffer& other : others) {
      check(on, other);
      platform->memory().free(other.address);
    }
  }
};

TEST_F(ReservedTest, MemoryThereIsEvictedAndComesBack) {
  open();
  const CuStream on = stream();
  const std::uint64_t start = reserved(64 * kMiB);
  std::vector<Buffer> pieces;
  for (std::uint64_t i = 0; i < 8; ++i) {
    pieces.push_back(allocate_at(start + i * 4 * kMiB, 4 * kMiB));
    fill(on, pieces.back(), i);
  }
  for (const Buffer& piece : pieces) {
    check(on, piece);
  }
  synchronize(on);
  EXPECT_EQ(wrong_words(), 0U);
  EXPECT_GT(moved(Tier::kDevice, Tier::kHost), 0U);
  whole();
}

// One kernel that is given the first address only, and the bytes.
TEST_F(ReservedTest, BytesGoOnFromOneAllocationToTheNext) {
  open();
  const CuStream on = stream();
  const std::uint64_t start = reserved(16 * kMiB);
  for (std::uint64_t i = 0; i < 4; ++i) {
    allocate_at(start + i * 2 * kMiB, 2 * kMiB);
  }
  Buffer all{.address = start + kMiB, .words = 6 * kMiB / 8};
  fill(on, all, 3);
  press(on);
  check(on, all);
  synchronize(on);
  EXPECT_EQ(wrong_words(), 0U);
  EXPECT_EQ(platform->placed().allocations_in(start + 3 * kMiB, 2 * kMiB).size(), 2U);
  EXPECT_EQ(platform->placed().allocations_in(start + 8 * kMiB, 2 * kMiB).size(), 0U);
}

TEST_F(ReservedTest, PiecesSideBySideAreFoundByAnyOfTheirAddresses) {
  open();
  const std::uint64_t start = reserved(32 * kMiB);
  for (const std::uint64_t at : {0U, 2U, 4U, 8U, 10U}) {
    allocate_at(start + at * kMiB, 2 * kMiB);
  }
  const auto starts = [&](std::uint64_t at) {
    std::vector<std::uint64_t> found;
    for (const AddressRange& range : platform->placed().all_beside(start + at)) {
      found.push_back((range.start - start) / kMiB);
    }
    return found;
  };
  const std::vector<std::uint64_t> low{0, 2, 4};
  const std::vector<std::uint64_t> high{8, 10};
  EXPECT_EQ(starts(0), low);
  EXPECT_EQ(starts(5 * kMiB), low);
  EXPECT_EQ(starts(6 * kMiB), std::vector<std::uint64_t>());
  EXPECT_EQ(starts(9 * kMiB), high);
  EXPECT_EQ(starts(20 * kMiB), std::vector<std::uint64_t>());
  platform->placed().hide(start + 2 * kMiB);
  EXPECT_EQ(starts(0), std::vector<std::uint64_t>{0});
  EXPECT_EQ(starts(4 * kMiB), std::vector<std::uint64_t>{4});
  EXPECT_FALSE(platform->memory().allocation_of(start + 2 * kMiB));
  platform->placed().show(start + 2 * kMiB);
  EXPECT_EQ(starts(4 * kMiB), low);
}

// Two that lie next to each other by chance are no run.
TEST_F(ReservedTest, ReservationsAreNoNeighbours) {
  open();
  const std::uint64_t first = reserved(2 * kMiB);
  const std::uint64_t second = reserved(2 * kMiB, 16 * kMiB);
  EXPECT_EQ(second % (16 * kMiB), 0U);
  allocate_at(first, 2 * kMiB);
  allocate_at(second, 2 * kMiB);
  EXPECT_EQ(platform->placed().all_beside(first).size(), 1U);
  EXPECT_GT(std::max(first, second) - std::min(first, second), 2 * kMiB);
}

TEST_F(ReservedTest, WhatIsFreedIsReplacedAtOnceAtTheSameAddress) {
  open();
  const CuStream on = stream();
  const std::uint64_t start = reserved(16 * kMiB);
  for (std::uint64_t i = 0; i < 20; ++i) {
    Buffer whole_piece = allocate_at(start, 8 * kMiB);
    fill(on, whole_piece, i);
    platform->memory().free(start);
    Buffer part = allocate_at(start + 2 * kMiB, 4 * kMiB);
    fill(on, part, i + 7);
    check(on, part);
    platform->memory().free(part.address);
  }
  synchronize(on);
  EXPECT_EQ(wrong_words(), 0U);
  whole();
}

TEST_F(ReservedTest, AnAllocationTakesAnotherAddressWithItsBytes) {
  for (const bool pressed : {false, true}) {
    open();
    const CuStream on = stream();
    const std::uint64_t start = reserved(64 * kMiB);
    Buffer here = allocate_at(start, 10 * kMiB);
    fill(on, here, 5);
    for (std::uint64_t i = 1; i < 6; ++i) {
      if (pressed) {
        press(on);
      }
      check(on, here);
      platform->placed().hide(here.address);
      // Over where it is now, every other time: by way of addresses of its own.
      const std::uint64_t to = start + (i % 2) * 4 * kMiB;
      const Result<std::uint64_t> away = platform->placed().move(here.address, std::nullopt);
      ASSERT_TRUE(away) << away.error().message;
      const Result<std::uint64_t> there = platform->placed().move(*away, to);
      ASSERT_TRUE(there) << there.error().message;
      EXPECT_EQ(*there, to);
      platform->placed().show(to);
      here.address = to;
      check(on, here);
      rewrite(on, here, i);
    }
    synchronize(on);
    EXPECT_EQ(wrong_words(), 0U);
    whole();
    platform.reset();
  }
}

TEST_F(ReservedTest, PromisesCountAndAreTakenBack) {
  options.host_bytes = 32 * kMiB;
  open();
  const std::uint64_t start = reserved(Bytes{1} << 31U);
  EXPECT_FALSE(platform->placed().promise(kGiB));
  EXPECT_TRUE(platform->placed().promise(16 * kMiB));
  EXPECT_FALSE(platform->memory().allocate(24 * kMiB));
  platform->placed().take_back_promise(16 * kMiB);
  allocate_at(start, 16 * kMiB);
  EXPECT_FALSE(platform->placed().promise(24 * kMiB));
  platform->memory().free(start);
  EXPECT_TRUE(platform->placed().promise(24 * kMiB));
}

// It counts as long as it is the program's, dead or not, and once.
TEST_F(ReservedTest, WhatIsDeadKeepsItsPromiseUntilItIsFreed) {
  options.host_bytes = 48 * kMiB;
  open();
  const CuStream on = stream();
  const std::uint64_t start = reserved(64 * kMiB);
  const auto most = [&] {
    Bytes promised = 0;
    while (platform->placed().promise(2 * kMiB)) {
      promised += 2 * kMiB;
    }
    platform->placed().take_back_promise(promised);
    return promised;
  };
  const Bytes all = most();
  Buffer here = allocate_at(start, 8 * kMiB);
  fill(on, here, 1);
  EXPECT_EQ(most(), all - 8 * kMiB);
  platform->memory().retire_keeping_room(start, std::nullopt);
  EXPECT_FALSE(platform->memory().allocation_of(start));
  EXPECT_EQ(most(), all - 8 * kMiB);
  EXPECT_TRUE(platform->memory().reuse(start));
  EXPECT_EQ(most(), all - 8 * kMiB);
  fill(on, here, 2);
  press(on);
  check(on, here);
  // It may lie elsewhere meanwhile.
  platform->memory().retire_keeping_room(start, std::nullopt);
  platform->placed().hide(start);
  const Result<std::uint64_t> there = platform->placed().move(start, start + 32 * kMiB);
  ASSERT_TRUE(there);
  platform->placed().show(*there);
  EXPECT_FALSE(platform->memory().allocation_of(*there)) << "it is as dead as before";
  EXPECT_EQ(most(), all - 8 * kMiB);
  EXPECT_TRUE(platform->memory().reuse(*there));
  here.address = *there;
  fill(on, here, 3);
  press(on);
  check(on, here);
  platform->memory().retire_keeping_room(*there, std::nullopt);
  platform->memory().free(*there);
  EXPECT_EQ(most(), all);
  synchronize(on);
  EXPECT_EQ(wrong_words(), 0U);
  whole();
}

// A heap that has little itself says how much is to be kept of handles.
TEST_F(ReservedTest, HandlesAreKeptForWhatTheProgramPlaces) {
  open();
  const CuStream on = stream();
  const std::uint64_t start = reserved(64 * kMiB);
  std::vector<Buffer> pieces;
  for (std::uint64_t i = 0; i < 8; ++i) {
    pieces.push_back(allocate_at(start + i * 4 * kMiB, 4 * kMiB));
  }
  platform->memory().keep_at_most(2 * kMiB);
  for (std::uint64_t round = 0; round < 10; ++round) {
    for (Buffer& piece : pieces) {
      round == 0 ? fill(on, piece, 1) : rewrite(on, piece, round);
      synchronize(on);
    }
  }
  EXPECT_EQ(wrong_words(), 0U);
  EXPECT_LE(counters().creates, 8U);
  for (const Buffer& piece : pieces) {
    platform->memory().free(piece.address);
  }
  platform->wait_until_idle();
  fill(on, pieces.front() = allocate(2 * kMiB), 1);
  synchronize(on);
  platform->wait_until_idle();
  EXPECT_LE(counters().handle_bytes, 2 * kMiB);
}

TEST_F(ReservedTest, AReservationThatEndsIsUsedAgainWhenAllInItIsGone) {
  options.address_bytes = 256 * kMiB;
  open();
  const CuStream on = stream();
  for (std::uint64_t i = 0; i < 40; ++i) {
    const std::uint64_t start = reserved(60 * kMiB);
    Buffer piece = allocate_at(start + 8 * kMiB, 8 * kMiB);
    fill(on, piece, i);
    check(on, piece);
    platform->memory().free(piece.address);
    platform->placed().give_back_reserved(start);
    synchronize(on);
    platform->wait_until_idle();
  }
  EXPECT_FALSE(platform->placed().reserve(kGiB, 0));
  EXPECT_EQ(wrong_words(), 0U);
}

TEST(ReservedRunsTest, ARunEndsWithTheLastThatLiesInIt) {
  ReservedRuns runs;
  runs.add({.start = 100, .bytes = 50});
  EXPECT_TRUE(runs.is_free(100, 50));
  EXPECT_FALSE(runs.is_free(100, 51));
  EXPECT_FALSE(runs.is_free(99, 1));
  runs.take(110, 10);
  EXPECT_FALSE(runs.is_free(105, 6));
  EXPECT_TRUE(runs.is_free(105, 5));
  EXPECT_TRUE(runs.is_free(120, 30));
  EXPECT_FALSE(runs.end(100));
  EXPECT_TRUE(runs.contains(149));
  const std::optional<ReservedRuns::Run> gone = runs.give_back(110);
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->bytes, 50U);
  EXPECT_FALSE(runs.contains(110));
}

// Allocations come, go, hide and move while launches on three streams use them and parts of their
// runs; every word is looked at.
TEST_F(ReservedTest, RandomProgramsComputeWhatTheyShould) {
  constexpr std::uint64_t kSlots = 16;
  constexpr Bytes kSlotBytes = 2 * kMiB;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    options.device_bytes = (seed % 2 == 0 ? 16 : 128) * kMiB;
    config.device_bytes = 1 << 30U;
    open();
    std::mt19937_64 dice(seed);
    const std::vector<CuStream> streams{stream(), stream(), stream()};
    const auto below = [&](std::uint64_t end) { return dice() % end; };
    const std::uint64_t start = reserved(kSlots * kSlotBytes);
    std::map<std::uint64_t, Buffer> shown;  // by slot
    std::vector<Buffer> hidden;
    const auto slots_of = [](const Buffer& buffer) { return buffer.bytes() / kSlotBytes; };
    const auto is_free = [&](std::uint64_t slot, std::uint64_t count) {
      return slot + count <= kSlots &&
             std::none_of(shown.begin(), shown.end(), [&](const auto& it) {
               return it.first < slot + count && slot < it.first + slots_of(it.second);
             });
    };
    const auto synchronize_all = [&] {
      for (const CuStream on : streams) {
        synchronize(on);
      }
    };
    // What is hidden there makes way.
    const auto clear = [&](std::uint64_t address, Bytes bytes) {
      for (Buffer& it : hidden) {
        if (it.address < address + bytes && address < it.address + it.bytes()) {
          const Result<std::uint64_t> away = platform->placed().move(it.address, std::nullopt);
          ASSERT_TRUE(away);
          it.address = *away;
        }
      }
    };
    for (int step = 0; step < 200; ++step) {
      const CuStream on = streams[below(3)];
      const std::uint64_t slot = below(kSlots);
      const std::uint64_t die = below(10);
      if (die < 3) {
        const std::uint64_t count = 1 + below(4);
        if (is_free(slot, count)) {
          clear(start + slot * kSlotBytes, count * kSlotBytes);
          Buffer made = allocate_at(start + slot * kSlotBytes, count * kSlotBytes);
          fill(on, made, below(1000));
          synchronize(on);
          shown[slot] = made;
        }
      } else if (shown.empty()) {
        continue;
      } else if (die < 7) {
        auto& [at, buffer] = *std::next(shown.begin(), static_cast<long>(below(shown.size())));
        rewrite(on, buffer, below(1000));
        if (below(2) == 0) {
          press(on);
        }
        synchronize(on);
      } else {
        const auto it = std::next(shown.begin(), static_cast<long>(below(shown.size())));
        const Buffer buffer = it->second;
        check(on, buffer);
        if (die < 9 && hidden.size() < 6) {
          platform->placed().hide(buffer.address);
          hidden.push_back(buffer);
        } else {
          platform->memory().free(buffer.address);
        }
        shown.erase(it);
      }
      if (!hidden.empty() && below(3) == 0) {
        const auto it = hidden.begin() + static_cast<long>(below(hidden.size()));
        Buffer buffer = *it;
        const std::uint64_t to = start + slot * kSlotBytes;
        if (is_free(slot, slots_of(buffer))) {
          if (buffer.address != to) {
            clear(to, buffer.bytes());
            buffer = *it;
            const Result<std::uint64_t> there = platform->placed().move(buffer.address, to);
            ASSERT_TRUE(there) << there.error().message;
            buffer.address = *there;
          }
          platform->placed().show(to);
          shown[slot] = buffer;
          hidden.erase(it);
        }
      }
      if (step % 16 == 0) {
        whole();
      }
    }
    synchronize_all();
    EXPECT_EQ(wrong_words(), 0U);
    EXPECT_THAT(violations(), ::testing::IsEmpty());
    platform.reset();
  }
  options.device_bytes = 128 * kMiB;
}

}  // namespace
}  // namespace spillway::cuda
