// Copies, pinned memory and stream waits, each alone on the fake driver.
#include "platform/cuda/transfer/copy_lanes.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <thread>

#include "platform/common/process/clock.h"
#include "platform/cuda/fake_device.h"
#include "platform/cuda/memory/host_memory.h"
#include "platform/cuda/present_bytes.h"
#include "platform/cuda/stream/stream_waits.h"

namespace spillway::cuda {
namespace {

using Direction = CopyLanes::Direction;

class Lanes : public FakeDevice {
 protected:
  void begin() {
    config.log_calls = 1;
    start();
    context = second_context();
    ASSERT_EQ(lanes.make(), CuResult::kSuccess);
  }
  void SetUp() override { begin(); }
  void TearDown() override {
    lanes.give_back();
    FakeDevice::TearDown();
  }
  std::vector<CopyLanes::Ended> wait_for(std::size_t count) {
    std::vector<CopyLanes::Ended> ended;
    EXPECT_TRUE(soon([&] {
      EXPECT_EQ(lanes.poll(ended), CuResult::kSuccess);
      return ended.size() >= count;
    }));
    return ended;
  }
  // Copies out that the driver has been given.
  static std::size_t given_out() {
    std::size_t copies = 0;
    for (std::size_t line = 0; line < fake_cuda_log_lines(); ++line) {
      std::array<char, 256> text{};
      fake_cuda_log(line, text.data(), text.size());
      if (std::string_view(text.data()).find("cuMemcpyDtoHAsync") != std::string_view::npos) {
        ++copies;
      }
    }
    return copies;
  }
  static BlockCopy::Piece piece(std::uint64_t* at, Bytes bytes) {
    return {.host = reinterpret_cast<char*>(at), .bytes = bytes};
  }

  CuContext context = nullptr;
  CopyLanes lanes{driver, [] {}};
};

TEST_F(Lanes, BytesOfOneBlockMayLieInSeveralPieces) {
  const CuAddress block = memory();
  std::uint64_t* host = pinned(3 * kTwoMiB / 8);
  const std::uint64_t half = kTwoMiB / 16;
  std::fill_n(host, 3 * kTwoMiB / 8, 9);
  std::fill_n(test::words_at(block), half, 1);
  std::fill_n(test::words_at(block) + half, half, 2);
  lanes.add(Direction::kOut, 1,
            {{.device = block,
              .pieces = {piece(host + 4 * half, kTwoMiB / 2), piece(host, kTwoMiB / 2)}}});
  EXPECT_FALSE(lanes.idle());
  const auto out = wait_for(1);
  EXPECT_EQ(out[0].tag, 1U);
  EXPECT_FALSE(out[0].failed);
  EXPECT_EQ(host[4 * half], 1U);
  EXPECT_EQ(host[half - 1], 2U);
  EXPECT_EQ(host[half], 9U);
  std::fill_n(test::words_at(block), 2 * half, 0);
  lanes.add(Direction::kIn, 2,
            {{.device = block,
              .pieces = {piece(host + 4 * half, kTwoMiB / 2), piece(host, kTwoMiB / 2)}}});
  EXPECT_EQ(wait_for(1)[0].tag, 2U);
  EXPECT_EQ(test::words_at(block)[2 * half - 1], 2U);
  EXPECT_TRUE(lanes.idle());
  EXPECT_EQ(lanes.copied_bytes(), 2 * kTwoMiB);
}

TEST_F(Lanes, EndInOrderAndARefusedOneFailsAlone) {
  const CuAddress block = memory();
  std::uint64_t* host = pinned(kTwoMiB / 8);
  for (std::uint64_t tag = 1; tag <= 10; ++tag) {
    config.copy_refused = tag == 4 ? 1 : 0;
    fake_cuda_change(&config);
    lanes.add(Direction::kIn, tag, {{.device = block, .pieces = {piece(host, kTwoMiB)}}});
    std::vector<CopyLanes::Ended> none;
    const auto ended = wait_for(1);
    EXPECT_EQ(ended[0].tag, tag);
    EXPECT_EQ(ended[0].failed, tag == 4);
  }
}

// Not when it was asked for: what stood before it in its direction took the link.
TEST_F(Lanes, EachSaysSinceWhenItWasTheFirst) {
  const CuAddress block = memory();
  std::uint64_t* host = pinned(kTwoMiB / 8);
  constexpr TimeNs kCopyNs = 50'000'000;
  config.copy_ns = kCopyNs;
  fake_cuda_change(&config);
  const TimeNs added_ns = now_ns();
  for (std::uint64_t tag = 1; tag <= 3; ++tag) {
    lanes.add(Direction::kOut, tag, {{.device = block, .pieces = {piece(host, kTwoMiB)}}});
  }
  const auto ended = wait_for(3);
  TimeNs before_ns = added_ns;
  for (const CopyLanes::Ended& it : ended) {
    EXPECT_GE(it.begun_ns, before_ns);
    EXPECT_GT(it.ended_ns, it.begun_ns);
    before_ns = it.ended_ns;
  }
  EXPECT_GE(ended.back().ended_ns, added_ns + 3 * kCopyNs);
  EXPECT_LE(ended.back().ended_ns, now_ns());
}

TEST_F(Lanes, BehindOneThatIsRefusedTheNextStandsWhereItStood) {
  const CuAddress block = memory();
  std::uint64_t* host = pinned(kTwoMiB / 8);
  config.copy_ns = 50'000'000;
  for (std::uint64_t tag = 1; tag <= 3; ++tag) {
    config.copy_refused = tag == 2 ? 1 : 0;
    fake_cuda_change(&config);
    lanes.add(Direction::kIn, tag, {{.device = block, .pieces = {piece(host, kTwoMiB)}}});
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const auto ended = wait_for(3);
  EXPECT_TRUE(ended[1].failed);
  EXPECT_GE(ended[1].ended_ns, ended[0].ended_ns);
  EXPECT_GE(ended[2].begun_ns, ended[0].ended_ns);
}

TEST_F(Lanes, ShortQueuesOutHaveOneUnderWay) {
  const CuAddress block = memory();
  std::uint64_t* host = pinned(kTwoMiB / 8);
  lanes.keep_out_short(true);
  config.copy_ns = 100'000'000;
  fake_cuda_change(&config);
  for (std::uint64_t tag = 1; tag <= 3; ++tag) {
    lanes.add(Direction::kOut, tag, {{.device = block, .pieces = {piece(host, kTwoMiB)}}});
  }
  EXPECT_TRUE(soon([&] { return given_out() == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(given_out(), 1U);
  EXPECT_TRUE(lanes.under_way(Direction::kOut));
  EXPECT_EQ(wait_for(3).back().tag, 3U);
  EXPECT_EQ(given_out(), 3U);
  EXPECT_FALSE(lanes.under_way(Direction::kOut));
}

TEST_F(Lanes, AShortQueueOutCutsWhatIsLarge) {
  constexpr Bytes kBytes = 20 * kMiB;
  const CuAddress block = memory(kBytes);
  std::uint64_t* host = pinned(kBytes / 8);
  for (std::uint64_t word = 0; word < kBytes / 8; ++word) {
    test::words_at(block)[word] = word;
  }
  lanes.keep_out_short(true);
  // In two pieces of host memory, of which the second one comes first there.
  lanes.add(Direction::kOut, 1,
            {{.device = block,
              .pieces = {piece(host + kMiB, kBytes - 8 * kMiB), piece(host, 8 * kMiB)}}});
  EXPECT_FALSE(wait_for(1)[0].failed);
  EXPECT_EQ(given_out(), 3U);  // 8, 4, 8
  for (std::uint64_t word = 0; word < kBytes / 8; ++word) {
    ASSERT_EQ(host[(word + kMiB) % (kBytes / 8)], word);
  }
  EXPECT_EQ(lanes.copied_bytes(), kBytes);
}

TEST_F(Lanes, AQueueOutThatBecomesShortGivesTheNextWhenAllHaveEnded) {
  const CuAddress block = memory();
  std::uint64_t* host = pinned(kTwoMiB / 8);
  config.copy_ns = 100'000'000;
  fake_cuda_change(&config);
  for (std::uint64_t tag = 1; tag <= 4; ++tag) {
    lanes.add(Direction::kOut, tag, {{.device = block, .pieces = {piece(host, kTwoMiB)}}});
  }
  EXPECT_TRUE(soon([&] { return given_out() == 2; }));
  lanes.keep_out_short(true);
  EXPECT_EQ(wait_for(1)[0].tag, 1U);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(given_out(), 2U);
  EXPECT_EQ(wait_for(3).back().tag, 4U);
}

TEST_F(Lanes, ARefusalInALaterPartFailsItsCopyAndNoOther) {
  constexpr Bytes kBytes = 20 * kMiB;
  const CuAddress block = memory(kBytes);
  std::uint64_t* host = pinned(kBytes / 8);
  config.copy_ns = 20'000'000;
  fake_cuda_change(&config);
  lanes.keep_out_short(true);
  lanes.add(Direction::kOut, 1, {{.device = block, .pieces = {piece(host, kBytes)}}});
  EXPECT_TRUE(soon([&] { return given_out() == 1; }));
  config.copy_refused = 1;
  fake_cuda_change(&config);
  EXPECT_TRUE(wait_for(1)[0].failed);
  EXPECT_EQ(given_out(), 2U);  // of three
  config.copy_refused = 0;
  fake_cuda_change(&config);
  lanes.add(Direction::kOut, 2, {{.device = block, .pieces = {piece(host, kTwoMiB)}}});
  EXPECT_FALSE(wait_for(1)[0].failed);
  EXPECT_EQ(lanes.copied_bytes(), kTwoMiB);
}

TEST_F(Lanes, MayBeStoppedWithCopiesUnderWayAndWaiting) {
  const CuAddress block = memory();
  std::uint64_t* host = pinned(kTwoMiB / 8);
  config.copy_ns = 20'000'000;
  fake_cuda_change(&config);
  for (std::uint64_t tag = 1; tag <= 9; ++tag) {
    lanes.add(Direction::kIn, tag, {{.device = block, .pieces = {piece(host, kTwoMiB)}}});
  }
  EXPECT_TRUE(lanes.under_way(Direction::kIn));
  lanes.stop();
  EXPECT_TRUE(lanes.under_way(Direction::kIn));
  ASSERT_EQ(driver.context_synchronize(), CuResult::kSuccess);
}

TEST_F(Lanes, ALostContextIsNoFailureOfOneCopy) {
  const CuAddress block = memory();
  std::uint64_t* host = pinned(kTwoMiB / 8);
  config.copy_breaks = 1;
  fake_cuda_change(&config);
  lanes.add(Direction::kIn, 1, {{.device = block, .pieces = {piece(host, kTwoMiB)}}});
  std::vector<CopyLanes::Ended> ended;
  EXPECT_TRUE(soon([&] { return lanes.poll(ended) == CuResult::kEccUncorrectable; }));
  EXPECT_TRUE(ended.empty());
}

// A link of 100 MiB/s: a chunk of 2 MiB takes 20 ms. The fake driver copies at once.
class SlowLanes : public Lanes {
 protected:
  static constexpr TimeNs kEachNs = 20 * kNsPerMs;
  void TearDown() override {
    slow.give_back();
    Lanes::TearDown();
  }
  void SetUp() override {
    Lanes::SetUp();
    ASSERT_EQ(slow.make(), CuResult::kSuccess);
    host = pinned(2 * kBytes / 8);
    block = memory(2 * kBytes);
  }
  // What goes in and what goes out are other bytes.
  void add(Direction direction, std::uint64_t tag, Bytes bytes = kTwoMiB) {
    const Bytes at = direction == Direction::kIn ? 0 : kBytes;
    slow.add(direction, tag, {{.device = block + at, .pieces = {piece(host + at / 8, bytes)}}});
  }
  std::vector<CopyLanes::Ended> slow_ends(std::size_t count) {
    std::vector<CopyLanes::Ended> ended;
    EXPECT_TRUE(soon([&] {
      EXPECT_EQ(slow.poll(ended), CuResult::kSuccess);
      return ended.size() >= count;
    }));
    return ended;
  }

  static constexpr Bytes kBytes = 32 * kMiB;
  CopyLanes slow{driver, [] {}, LinkSpeed{.bytes_per_s = 100.0 * kMiB}};
  std::uint64_t* host = nullptr;
  CuAddress block = 0;
};

TEST_F(SlowLanes, CopiesOfOneDirectionTakeAsLongAsTheirBytes) {
  const TimeNs begin_ns = now_ns();
  for (std::uint64_t tag = 1; tag <= 5; ++tag) add(Direction::kOut, tag);
  const auto ended = slow_ends(5);
  for (std::size_t i = 0; i < ended.size(); ++i) {
    EXPECT_EQ(ended[i].tag, i + 1);
    EXPECT_GE(ended[i].ended_ns - begin_ns, static_cast<TimeNs>(i + 1) * kEachNs);
  }
  // Not longer than they need, either: what is looked at late is made up for.
  EXPECT_LT(ended.back().ended_ns - begin_ns, 7 * kEachNs);
}

// The driver has no more than the link carries at that moment.
TEST_F(SlowLanes, TheDriverIsGivenOneAfterTheOther) {
  for (std::uint64_t tag = 1; tag <= 4; ++tag) add(Direction::kOut, tag);
  const TimeNs begin_ns = now_ns();
  EXPECT_TRUE(soon([&] { return given_out() > 0; }));
  while (now_ns() - begin_ns < 3 * kEachNs / 2) {
    ASSERT_LE(given_out(), static_cast<std::size_t>((now_ns() - begin_ns) / kEachNs) + 2);
  }
  (void)slow_ends(4);
  EXPECT_EQ(given_out(), 4U);
}

TEST_F(SlowLanes, BothDirectionsCarryAtOnce) {
  const TimeNs begin_ns = now_ns();
  for (std::uint64_t tag = 1; tag <= 4; ++tag) {
    add(tag % 2 == 0 ? Direction::kIn : Direction::kOut, tag);
  }
  EXPECT_LT(slow_ends(4).back().ended_ns - begin_ns, 7 * kEachNs / 2);
}

// A block is cut into pieces that are given one by one, and what is told of its copy is the time
// that all of it has taken.
TEST_F(SlowLanes, ALargeBlockTakesItsTimeToo) {
  const TimeNs begin_ns = now_ns();
  add(Direction::kIn, 1, kBytes);
  const auto ended = slow_ends(1);
  EXPECT_GE(ended[0].ended_ns - begin_ns, 16 * kEachNs);
  EXPECT_LT(ended[0].begun_ns - begin_ns, 2 * kEachNs);
  EXPECT_EQ(slow.copied_bytes(), kBytes);
}

// Whoever comes after a pause begins anew: nothing was saved up.
TEST_F(SlowLanes, APauseIsNotMadeUpFor) {
  add(Direction::kOut, 1);
  (void)slow_ends(1);
  std::this_thread::sleep_for(std::chrono::nanoseconds(5 * kEachNs));
  const TimeNs begin_ns = now_ns();
  for (std::uint64_t tag = 2; tag <= 4; ++tag) add(Direction::kOut, tag);
  EXPECT_GE(slow_ends(3).back().ended_ns - begin_ns, 3 * kEachNs);
}

// What the driver refuses takes no link.
TEST_F(SlowLanes, ARefusedCopyFailsAloneAndAtOnce) {
  config.copy_refused = 1;
  fake_cuda_change(&config);
  add(Direction::kOut, 1);
  EXPECT_TRUE(slow_ends(1)[0].failed);
  config.copy_refused = 0;
  fake_cuda_change(&config);
  add(Direction::kOut, 2);
  EXPECT_FALSE(slow_ends(1)[0].failed);
}

// A device that is slower than the link is waited for.
TEST_F(SlowLanes, ACopyThatTakesLongerEndsWhenItHasEnded) {
  config.copy_ns = 5 * kEachNs;
  fake_cuda_change(&config);
  const TimeNs begin_ns = now_ns();
  add(Direction::kOut, 1);
  EXPECT_GE(slow_ends(1)[0].ended_ns - begin_ns, 5 * kEachNs);
}

TEST_F(SlowLanes, MayBeStoppedWithCopiesHeldBack) {
  for (std::uint64_t tag = 1; tag <= 9; ++tag) add(Direction::kIn, tag, kBytes);
  const TimeNs begin_ns = now_ns();
  slow.stop();
  EXPECT_LT(now_ns() - begin_ns, 9 * 16 * kEachNs / 2);
  ASSERT_EQ(driver.context_synchronize(), CuResult::kSuccess);
}

class Pinned : public FakeDevice {
 protected:
  void make(Bytes most, Bytes piece) {
    Result<std::unique_ptr<HostMemory>> made =
        HostMemory::make(driver, primary,
                         {.most_bytes = most,
                          .piece_bytes = piece,
                          .grown = [this](std::uint64_t at,
                                          Bytes bytes) { grown.emplace_back(at, bytes), ++pieces; },
                          .ended = [this](const Error&) { ++ends; },
                          .spare_bytes = spare_bytes,
                          .is_short = [this](bool yes) { is_short = yes; }});
    ASSERT_TRUE(made) << made.error().message;
    host = std::move(*made);
  }
  void TearDown() override {
    host->unregister();
    host.reset();
    FakeDevice::TearDown();
  }
  std::unique_ptr<HostMemory> host;
  std::vector<std::pair<std::uint64_t, Bytes>> grown;
  std::atomic<int> pieces = 0;
  std::atomic<int> ends = 0;
  std::atomic<bool> is_short = false;
  std::function<Bytes(Bytes)> spare_bytes;
};

TEST_F(Pinned, GrowsPieceByPieceAsItIsWanted) {
  make(10 * kMiB, 4 * kMiB);
  EXPECT_EQ(counters().pinned_bytes, 0U);
  host->want(1);
  ASSERT_TRUE(soon([&] { return pieces == 1; }));
  EXPECT_EQ(counters().pinned_bytes, 4 * kMiB);
  // The fake driver touches nothing: pages were there before it was asked.
  EXPECT_EQ(present_bytes(host->at(0), 4 * kMiB), makes_present() ? 4 * kMiB : 0U);
  EXPECT_EQ(present_bytes(host->at(0) + 4 * kMiB, 6 * kMiB), 0U);
  host->want(100 * kMiB);
  ASSERT_TRUE(soon([&] { return pieces == 3; }));
  EXPECT_EQ(counters().pinned_bytes, 10 * kMiB);
  EXPECT_EQ(grown[2].second, 2 * kMiB);
  // Offsets of two pieces never touch, addresses do.
  EXPECT_GT(grown[1].first, grown[0].first + 4 * kMiB);
  EXPECT_EQ(host->at(grown[1].first), host->at(grown[0].first) + 4 * kMiB);
  host->at(grown[2].first + 2 * kMiB - 1)[0] = 1;
  char* const start = host->at(0);
  host->unregister();
  EXPECT_EQ(counters().pinned_bytes, 0U);
  EXPECT_EQ(present_bytes(start, 10 * kMiB), 0U);
}

TEST_F(Pinned, ARefusalIsTriedAgainAndThenReported) {
  config.host_memory_fails = 0.5;
  fake_cuda_change(&config);
  make(8 * kMiB, kTwoMiB);
  host->want(8 * kMiB);
  ASSERT_TRUE(soon([&] { return pieces == 4; }));
  EXPECT_EQ(ends, 0);
  host->unregister();
  config.host_memory_fails = 1;
  fake_cuda_change(&config);
  make(8 * kMiB, kTwoMiB);
  host->want(8 * kMiB);
  if (makes_present()) {
    EXPECT_TRUE(soon([&] { return present_bytes(host->at(0), 8 * kMiB) == 8 * kMiB; }));
  }
  EXPECT_TRUE(soon([&] { return ends == 1; }));
  EXPECT_EQ(pieces, 4);
  EXPECT_EQ(present_bytes(host->at(0), 8 * kMiB), 0U);
}

// A system that can spare so much for pinned memory in all.
TEST_F(Pinned, IsTakenOnlyAsFarAsTheSystemCanSpareIt) {
  std::atomic<Bytes> spare = kMiB;
  spare_bytes = [&](Bytes from_bytes) {
    EXPECT_EQ(from_bytes, counters().pinned_bytes);
    return spare.load();
  };
  make(16 * kMiB, kTwoMiB);
  host->want(16 * kMiB);
  ASSERT_TRUE(soon([&] { return is_short.load(); }));
  EXPECT_EQ(counters().pinned_bytes, 0U);
  EXPECT_EQ(present_bytes(host->at(0), 16 * kMiB), 0U);
  spare = kTwoMiB;
  ASSERT_TRUE(soon([&] { return pieces == 8; }));
  EXPECT_TRUE(soon([&] { return !is_short; }));
  EXPECT_EQ(ends, 0);
}

// Threads that make pages present are kept from running ahead of what there is.
TEST_F(Pinned, NoMoreIsMadePresentAheadThanAPartOfWhatCanBeSpared) {
  spare_bytes = [](Bytes) { return 32 * kMiB; };
  config.host_memory_fails = 1;  // so that nothing of it is registered
  fake_cuda_change(&config);
  make(32 * kMiB, kTwoMiB);
  host->want(32 * kMiB);
  Bytes most_bytes = 0;
  EXPECT_TRUE(soon([&] {
    most_bytes = std::max(most_bytes, present_bytes(host->at(0), 16 * kTwoMiB));
    return ends == 1;
  }));
  EXPECT_LE(most_bytes, 4 * kMiB);
  EXPECT_EQ(most_bytes > 0, makes_present());
}

class GateWords : public FakeDevice {};

TEST_F(GateWords, HoldAStreamAndTellHowFarItHasRun) {
  StreamWaits gates(driver);
  ASSERT_EQ(gates.make(), CuResult::kSuccess);
  const CuStream on = stream();
  ASSERT_EQ(gates.put_wait(3, 7, on), CuResult::kSuccess);
  ASSERT_EQ(gates.put_marker(3, 7, on), CuResult::kSuccess);
  EXPECT_TRUE(gate_reached());
  gates.open(3, 6);
  gates.open(4, 9);
  EXPECT_EQ(driver.stream_query(on), CuResult::kNotReady);
  EXPECT_EQ(gates.run_up_to(3), 0U);
  gates.open(3, 8);
  EXPECT_EQ(gates.opened(3), 8U);
  EXPECT_TRUE(soon([&] { return gates.run_up_to(3) == 7; }));
  EXPECT_EQ(gates.run_up_to(4), 0U);
  EXPECT_EQ(driver.stream_synchronize(on), CuResult::kSuccess);
  gates.give_back();
  EXPECT_EQ(counters().pinned_bytes, 0U);
}

}  // namespace
}  // namespace spillway::cuda
