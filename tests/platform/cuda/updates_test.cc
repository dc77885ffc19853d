// Updates that run at the host while the device goes on: when they begin, what they see and leave,
// and what happens where memory is short or copies fail.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "platform/common/event_log.h"
#include "platform/cuda/cuda_world.h"

namespace spillway::cuda {
namespace {

constexpr Bytes kTensor = 8 * kMiB;
constexpr std::int64_t kSlowUpdateNs = 300'000'000;

// Of an update that checks what it reads and writes another pattern.
struct Change {
  std::uint64_t words = 0;  // of a part
  std::uint64_t first = 0;  // of its words in the tensor
  std::uint64_t before = 0;
  std::uint64_t after = 0;
  std::optional<std::uint64_t> gradient;
};

class Updates : public CudaWorld {
 protected:
  // So many buffers, of which the first have had to leave.
  std::vector<Buffer> written(CuStream on, std::size_t count, Bytes bytes = kTensor) {
    std::vector<Buffer> buffers;
    for (std::size_t i = 0; i < count; ++i) {
      buffers.push_back(allocate(bytes));
      fill(on, buffers.back(), i + 1);
    }
    synchronize(on);
    platform->wait_until_idle();
    return buffers;
  }

  static ProgramOperand named(const Buffer& buffer, std::uint64_t first, std::uint64_t words,
                              AccessMode mode) {
    return {.start = reinterpret_cast<char*>(buffer.address) + 8 * first,
            .bytes = 8 * words,
            .mode = mode};
  }

  // Begins to give the state another pattern, in so many parts. Where the device had better do it
  // nothing happens: false.
  bool begin(CuStream on, Buffer& state, const Buffer* gradient, std::uint64_t seed,
             std::uint64_t parts = 1) {
    std::vector<std::vector<ProgramOperand>> all;
    std::vector<Change> changes;
    const std::uint64_t each = (state.words + parts - 1) / parts;
    for (std::uint64_t first = 0; first < state.words; first += each) {
      const std::uint64_t words = std::min(each, state.words - first);
      all.push_back({named(state, first, words, AccessMode::kReadWrite)});
      changes.push_back({.words = words,
                         .first = first,
                         .before = state.seed,
                         .after = seed,
                         .gradient = std::nullopt});
      if (gradient != nullptr) {
        all.back().push_back(named(*gradient, first, words, AccessMode::kRead));
        changes.back().gradient = gradient->seed;
      }
    }
    const std::scoped_lock lock(changes_mutex);  // before another thread is told of them
    const std::vector<UpdateId> begun = platform->updates().begin_updates(all, on);
    if (begun.empty()) {
      return false;
    }
    EXPECT_EQ(begun.size(), all.size());
    for (std::size_t i = 0; i < begun.size(); ++i) {
      changes_of[begun[i]] = changes[i];
    }
    state.seed = seed;
    return true;
  }

  // Memory may still have to be pinned.
  bool begin_soon(CuStream on, Buffer& state, const Buffer* gradient, std::uint64_t seed,
                  std::uint64_t parts = 1) {
    bool begun = false;
    return soon([&] { return begun = begun || begin(on, state, gradient, seed, parts); });
  }

  // One whose data has come.
  [[nodiscard]] std::optional<UpdateId> next() const { return platform->updates().next_update(); }
  void compute(UpdateId update) {
    Change change;
    {
      const std::scoped_lock lock(changes_mutex);
      change = changes_of.at(update);
      changes_of.erase(update);
    }
    const std::vector<Extents> extents = platform->updates().update_extents(update);
    visit(extents[0], change.words, [&](std::uint64_t word, std::uint64_t& at) {
      wrong_at_host += at == test::pattern(change.before, change.first + word) ? 0U : 1U;
      at = test::pattern(change.after, change.first + word);
    });
    if (change.gradient) {
      visit(extents[1], change.words, [&](std::uint64_t word, const std::uint64_t& at) {
        wrong_at_host += at == test::pattern(*change.gradient, change.first + word) ? 0U : 1U;
      });
    }
  }
  void run_all() {
    while (const std::optional<UpdateId> update = next()) {
      compute(*update);
      platform->updates().end_update(*update);
    }
  }

  std::mutex changes_mutex;
  std::map<UpdateId, Change> changes_of;
  std::atomic<std::uint64_t> wrong_at_host{0};

 private:
  template <typename Visit>
  static void visit(const Extents& extents, std::uint64_t words, const Visit& visit) {
    std::uint64_t word = 0;
    for (const Extent& extent : extents) {
      auto* const at = reinterpret_cast<std::uint64_t*>(extent.at);
      for (Bytes i = 0; i < extent.bytes / 8; ++i) {
        visit(word++, at[i]);
      }
    }
    EXPECT_EQ(word, words);
  }
};

TEST_F(Updates, GoToTheirStateAndTheDeviceFindsWhatTheyWrote) {
  open();
  const CuStream on = stream();
  std::vector<Buffer> buffers = written(on, 4);
  Buffer& state = buffers[0];
  const Buffer& gradient = buffers[3];
  ASSERT_TRUE(begin_soon(on, state, &gradient, 50, 4));
  run_all();
  check(on, state);
  check(on, gradient);
  synchronize(on);
  EXPECT_EQ(wrong_words() + wrong_at_host, 0U);
  EXPECT_EQ(platform->stats().engine.updates, 4U);
  whole();
}

TEST_F(Updates, AreNotBegunWhereTheyDoNotPay) {
  open();
  const CuStream on = stream();
  std::vector<Buffer> buffers = written(on, 4);
  EXPECT_FALSE(begin(on, buffers[3], &buffers[2], 50)) << "all of it is on the device";
  std::array<std::uint64_t, 64> elsewhere{};
  const std::vector<ProgramOperand> outside{
      {.start = elsewhere.data(), .bytes = sizeof(elsewhere), .mode = AccessMode::kRead}};
  EXPECT_TRUE(platform->updates().begin_updates({&outside, 1}, on).empty());
  Buffer past = buffers[0];
  past.words += 1;
  EXPECT_FALSE(begin(on, past, nullptr, 50)) << "that is not all in the allocation";
  EXPECT_EQ(platform->stats().engine.updates, 0U);
}

// By bytes alone it would run at the host, as the one before it did.
TEST_F(Updates, RunOnTheDeviceWhereTheHostHasBeenSlower) {
  open();
  const CuStream on = stream();
  std::vector<Buffer> buffers = written(on, 4);
  ASSERT_TRUE(begin_soon(on, buffers[0], &buffers[3], 50));
  const std::optional<UpdateId> update = next();
  ASSERT_TRUE(update);
  compute(*update);
  std::this_thread::sleep_for(std::chrono::nanoseconds(3 * kSlowUpdateNs));
  platform->updates().end_update(*update);
  for (std::uint64_t round = 0; round < 2; ++round) {  // the link is measured as well
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      rewrite(on, buffers[i], 60 + 10 * round + i);
    }
  }
  synchronize(on);
  platform->wait_until_idle();
  for (int again = 0; again < 20; ++again) {  // memory for it may have to be pinned
    EXPECT_FALSE(begin(on, buffers[0], &buffers[3], 90));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  check(on, buffers[0]);
  synchronize(on);
  EXPECT_EQ(wrong_words() + wrong_at_host, 0U);
  EXPECT_EQ(platform->stats().engine.updates, 1U);
}

TEST_F(Updates, AreNotBegunWhereAllFits) {
  open();
  const CuStream on = stream();
  Buffer state = allocate(kTensor);
  fill(on, state, 1);
  synchronize(on);
  EXPECT_FALSE(platform->updates().takes_updates());
  EXPECT_FALSE(begin(on, state, nullptr, 2));
}

TEST_F(Updates, AreNotBegunBehindAWaitForAValue) {
  open();
  const CuStream on = stream();
  std::vector<Buffer> buffers = written(on, 4);
  EXPECT_TRUE(platform->updates().takes_updates());
  platform->streams().will_wait_for_value();
  EXPECT_FALSE(platform->updates().takes_updates());
  EXPECT_FALSE(begin(on, buffers[0], nullptr, 50));
}

// The log shows that launches begin and end while the update runs, on the same stream.
TEST_F(Updates, TheDeviceGoesOnWithOtherData) {
  open();
  const CuStream on = stream();
  std::vector<Buffer> buffers = written(on, 4);
  EventLog log;
  platform->log_events(&log);
  ASSERT_TRUE(begin_soon(on, buffers[0], nullptr, 50));
  const std::optional<UpdateId> update = next();
  ASSERT_TRUE(update);
  for (std::uint64_t i = 0; i < 5; ++i) {
    rewrite(on, buffers[3], 60 + i);
  }
  synchronize(on);
  compute(*update);
  platform->updates().end_update(*update);
  check(on, buffers[0]);
  synchronize(on);
  EXPECT_EQ(wrong_words() + wrong_at_host, 0U);
  const LoggedEvents events = log.events();
  platform->log_events(nullptr);
  const auto of_update = std::find_if(
      events.launches.begin(), events.launches.end(),
      [&](const LoggedLaunch& it) { return events.names[it.row] == "update at the host"; });
  ASSERT_NE(of_update, events.launches.end());
  EXPECT_EQ(std::count_if(events.launches.begin(), events.launches.end(),
                          [&](const LoggedLaunch& it) {
                            return events.names[it.row] == "rewrite" &&
                                   it.begin_ns > of_update->begin_ns &&
                                   it.end_ns < of_update->end_ns;
                          }),
            5);
}

// A program issues its step while the backward pass is still queued.
TEST_F(Updates, ComeBehindTheLaunchThatWritesTheirGradientAndNoOther) {
  open();
  const CuStream on = stream();
  const CuStream other = stream();
  std::vector<Buffer> buffers = written(on, 4);
  Buffer& gradient = buffers[3];
  std::uint64_t* const first_gate = close(on);
  rewrite(on, gradient, 40);
  std::uint64_t* const second_gate = close(other);
  Buffer more = buffers[2];
  rewrite(other, more, 41);  // which stands for long
  ASSERT_TRUE(begin_soon(on, buffers[0], &gradient, 50));
  ASSERT_TRUE(begin_soon(on, buffers[1], nullptr, 51));
  check(on, buffers[0]);  // waits for the update
  // The second need not wait for the gradient of the first.
  const std::optional<UpdateId> early = next();
  ASSERT_TRUE(early);
  compute(*early);
  platform->updates().end_update(*early);
  EXPECT_EQ(changes_of.size(), 1U);
  FakeDevice::open(first_gate);
  const std::optional<UpdateId> late = next();
  ASSERT_TRUE(late);
  compute(*late);
  platform->updates().end_update(*late);
  synchronize(on);
  FakeDevice::open(second_gate);
  synchronize(other);
  EXPECT_EQ(wrong_words() + wrong_at_host, 0U);
  whole();
}

// Launches in a row that may share a stream wait: an update between them needs the end of the
// first.
TEST_F(Updates, ALaunchBehindOneSharesNoGateWithOneBeforeIt) {
  options.shared_wait_part = 2;
  open();
  const CuStream on = stream();
  std::vector<Buffer> buffers = written(on, 14, 2 * kMiB);
  slow_copies(20'000'000);
  check(on, buffers[0]);  // has to come: it stands behind a stream wait
  rewrite(on, buffers[13], 31);
  ASSERT_TRUE(begin_soon(on, buffers[1], &buffers[13], 50));
  check(on, buffers[13]);
  check(on, buffers[1]);
  std::thread runs([this] {
    (void)driver.context_set_current(primary);
    run_all();
  });
  synchronize(on);
  runs.join();
  EXPECT_EQ(wrong_words() + wrong_at_host, 0U);
  whole();
}

// What is freed behind an update lives until its end.
TEST_F(Updates, MemoryIsFreedBehindThem) {
  open();
  const CuStream on = stream();
  std::vector<Buffer> buffers = written(on, 4);
  ASSERT_TRUE(begin_soon(on, buffers[0], &buffers[3], 50));
  platform->memory().free(buffers[3].address);
  platform->memory().free(buffers[0].address);
  Buffer next_one = allocate(kTensor);
  fill(on, next_one, 70);
  run_all();
  check(on, next_one);
  synchronize(on);
  EXPECT_EQ(wrong_words() + wrong_at_host, 0U);
  whole();
}

// --- Host memory ---------------------------------------------------------------------------------

TEST_F(Updates, AreRefusedWhereHostMemoryHasNoRoomForThem) {
  options.host_bytes = 32 * kMiB;
  open();
  const CuStream on = stream();
  // Two on the device, two in host memory: what is promised leaves two blocks.
  std::vector<Buffer> buffers = written(on, 4);
  EXPECT_FALSE(begin(on, buffers[0], &buffers[3], 50))
      << "the gradient would take the room in which blocks change places";
  ASSERT_TRUE(begin_soon(on, buffers[0], nullptr, 50)) << "which needs no more than it has";
  run_all();
  check(on, buffers[0]);
  synchronize(on);
  EXPECT_EQ(wrong_words() + wrong_at_host, 0U);
  whole();
}

TEST_F(Updates, WithASwapFileHostMemoryMakesRoomForThem) {
  options.host_bytes = 24 * kMiB;
  open(base_uvm, 128 * kMiB);
  const CuStream on = stream();
  std::vector<Buffer> buffers = written(on, 8);
  ASSERT_TRUE(begin_soon(on, buffers[0], &buffers[7], 50));
  run_all();
  for (const Buffer& buffer : buffers) {
    check(on, buffer);
  }
  synchronize(on);
  EXPECT_EQ(wrong_words() + wrong_at_host, 0U);
  whole();
}

// Each update has been promised its room; others who need room meanwhile have other memory.
TEST_F(Updates, OthersLeaveThemTheirRoom) {
  options.host_bytes = 48 * kMiB;
  open();
  const CuStream on = stream();
  std::vector<Buffer> buffers = written(on, 5);
  std::uint64_t* const gate = close(on);
  rewrite(on, buffers[4], 40);
  ASSERT_TRUE(begin_soon(on, buffers[0], &buffers[4], 50));
  check(on, buffers[1]);  // whose room is what the others leave
  check(on, buffers[2]);
  whole();
  FakeDevice::open(gate);
  std::thread runs([this] {
    (void)driver.context_set_current(primary);
    run_all();
  });
  synchronize(on);
  runs.join();
  EXPECT_EQ(wrong_words() + wrong_at_host, 0U);
  whole();
}

TEST_F(Updates, AnAllocationWaitsForTheRoomThatIsKept) {
  options.host_bytes = 48 * kMiB;  // with the device's 16 MiB and without two blocks, 48 MiB
  open();
  const CuStream on = stream();
  std::vector<Buffer> buffers = written(on, 5);
  std::uint64_t* const gate = close(on);
  rewrite(on, buffers[4], 40);
  ASSERT_TRUE(begin_soon(on, buffers[0], &buffers[4], 50));
  std::thread runs([this, gate] {
    (void)driver.context_set_current(primary);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    FakeDevice::open(gate);
    run_all();
  });
  const Result<std::uint64_t> more = platform->memory().allocate(kTensor);
  runs.join();
  EXPECT_TRUE(more) << more.error().message;
  synchronize(on);
  EXPECT_EQ(wrong_words() + wrong_at_host, 0U);
}

// --- What goes wrong -----------------------------------------------------------------------------

TEST_F(Updates, CopiesThatFailAreMadeAgain) {
  config.copy_refused = 0.3;
  open();
  const CuStream on = stream();
  std::vector<Buffer> buffers = written(on, 5);
  for (std::uint64_t i = 0; i < 6; ++i) {
    Buffer& state = buffers[i % 2];
    rewrite(on, buffers[4], 200 + i);
    if (!begin(on, state, &buffers[4], 100 + i)) {
      rewrite(on, state, 100 + i);
    }
    check(on, buffers[2]);
    check(on, buffers[3]);
    run_all();
    synchronize(on);
    platform->wait_until_idle();
  }
  EXPECT_GT(platform->stats().engine.updates, 0U);
  EXPECT_GT(platform->stats().engine.failed_transfers, 0U);
  EXPECT_EQ(wrong_words() + wrong_at_host, 0U);
  whole();
}

// --- Ahead of them -------------------------------------------------------------------------------

TEST_F(Updates, AGradientThatIsFinalGoesDownAhead) {
  open();
  const CuStream on = stream();
  std::vector<Buffer> buffers = written(on, 4);
  rewrite(on, buffers[3], 40);
  synchronize(on);
  platform->wait_until_idle();
  const Bytes before = moved(Tier::kDevice, Tier::kHost);
  platform->hints().send_to_host(buffers[3].address, buffers[3].bytes());
  ASSERT_TRUE(soon([&] { return moved(Tier::kDevice, Tier::kHost) > before; }));
  const Bytes sent = moved(Tier::kDevice, Tier::kHost);
  ASSERT_TRUE(begin_soon(on, buffers[0], &buffers[3], 50));
  run_all();
  EXPECT_EQ(moved(Tier::kDevice, Tier::kHost), sent) << "it was there";
  check(on, buffers[3]);
  synchronize(on);
  EXPECT_EQ(wrong_words() + wrong_at_host, 0U);
  platform->hints().send_to_host(0x1000, 64);  // nobody's
}

// --- Seeds ---------------------------------------------------------------------------------------

class RandomUpdates : public Updates, public ::testing::WithParamInterface<std::uint64_t> {};

// Launches on three streams, updates with and without gradients, frees, copies, a small budget,
// and (by turns) a swap file, copies that are refused or slow.
TEST_P(RandomUpdates, EverybodyFindsWhatWasWrittenLast) {
  Rng rng(GetParam());
  config.seed = GetParam();
  if (rng.chance(0.5)) {
    config.copy_refused = config.copy_slow = config.stream_stands = 0.03;
    config.slow_ns = 300'000;
    config.launch_ns = static_cast<std::int64_t>(rng.below(100'000));
  }
  options.device_bytes = 24 * kMiB;
  options.block_bytes = rng.chance(0.5) ? 4 * kMiB : 2 * kMiB;
  options.pinned_piece_bytes = 4 * kMiB;
  const bool storage = GetParam() % 2 == 0;
  options.host_bytes = storage ? 28 * kMiB : 96 * kMiB;
  Policy& policy = rng.chance(0.5) ? static_cast<Policy&>(lookahead) : base_uvm;
  open(policy, storage ? 96 * kMiB : 0);
  struct Memory {
    Buffer buffer;
    std::size_t last = 0;  // stream
  };
  const std::array<CuStream, 3> streams{stream(), stream(), stream()};
  const std::array<CuEvent, 3> events{event(), event(), event()};
  std::vector<Memory> memory;
  std::uint64_t* const host = pinned(5 * kMiB / 8);
  std::uint64_t last_seed = 1000;
  std::atomic<bool> done{false};
  std::thread runs([&] {
    (void)driver.context_set_current(primary);
    while (!done) {
      run_all();
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    run_all();
  });
  const auto ordered = [&](Memory& it, std::size_t on) {
    if (it.last != on) {
      EXPECT_EQ(driver.event_record(events[it.last], streams[it.last]), CuResult::kSuccess);
      platform->streams().recorded(events[it.last], streams[it.last]);
      EXPECT_EQ(driver.stream_wait_event(streams[on], events[it.last], 0), CuResult::kSuccess);
      platform->streams().waits_for(events[it.last], streams[on]);
      it.last = on;
    }
    return streams[on];
  };
  const auto make = [&] {
    Memory it{.buffer = allocate(8 * (kBlockBytes / 8 + rng.below(3 * kMiB / 8) / 8 * 8)),
              .last = rng.below(3)};
    fill(streams[it.last], it.buffer, ++last_seed);
    memory.push_back(it);
  };
  while (memory.size() < 12) {
    make();
  }
  std::uint64_t begun = 0;
  for (int i = 0; i < 300 && wrong_words() + wrong_at_host == 0; ++i) {
    Memory& it = memory[rng.below(memory.size())];
    Memory& other = memory[rng.below(memory.size())];
    const std::size_t on = rng.below(3);
    const std::uint64_t what = rng.below(100);
    if (what < 5) {
      platform->memory().free(it.buffer.address);
      std::swap(it, memory.back());
      memory.pop_back();
      make();
    } else if (what < 45) {
      ordered(it, on);
      const bool with = &other != &it && other.buffer.words >= it.buffer.words;
      if (with) {
        ordered(other, on);
      }
      begun += begin(streams[on], it.buffer, with ? &other.buffer : nullptr, ++last_seed,
                     1 + rng.below(3))
                   ? 1U
                   : 0U;
    } else if (what < 50) {
      platform->hints().send_to_host(it.buffer.address, it.buffer.bytes());
    } else if (what < 55) {
      synchronize(streams[on]);
    } else if (what < 57) {
      whole();
    } else if (what < 63) {
      const CudaOperand operand_of = operand(it.buffer, AccessMode::kRead);
      const CuStream stream = ordered(it, on);
      if (issue(stream, {&operand_of, 1}, "copy out", true, [&] {
            return driver.copy_out(host, it.buffer.address, it.buffer.bytes(), stream);
          }) == CuResult::kSuccess) {
        synchronize(stream);
        for (std::uint64_t word = 0; word < it.buffer.words; ++word) {
          wrong_at_host += host[word] == test::pattern(it.buffer.seed, word) ? 0U : 1U;
        }
      }
    } else if (what < 80) {
      check(ordered(it, on), it.buffer);
    } else {
      rewrite(ordered(it, on), it.buffer, ++last_seed);
    }
  }
  for (Memory& it : memory) {
    check(ordered(it, 0), it.buffer);
  }
  for (const CuStream on : streams) {
    synchronize(on);
  }
  done = true;
  runs.join();
  platform->wait_until_idle();
  whole();
  EXPECT_EQ(wrong_words() + wrong_at_host, 0U);
  EXPECT_GT(begun, 5U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomUpdates, ::testing::Range<std::uint64_t>(1, 9));

}  // namespace
}  // namespace spillway::cuda
