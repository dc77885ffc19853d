// The CUDA platform on the fake driver: programs that fit, that page, that wait where they must,
// and a device that has less than it should.
#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "platform/cuda/cuda_world.h"

namespace spillway::cuda {
namespace {

using ::testing::HasSubstr;

// A completion marker that takes its time on the way to its stream.
struct SlowMarker {
  std::atomic<bool> armed = false;  // the next one
  std::atomic<bool> on_its_way = false;
  std::atomic<bool> let_go = false;
  decltype(Driver::stream_write_value) write = nullptr;
};
SlowMarker slow_marker;

CuResult write_slowly(CuStream stream, CuAddress address, std::uint64_t value, unsigned flags) {
  if (slow_marker.armed.exchange(false)) {
    slow_marker.on_its_way = true;
    slow_marker.let_go.wait(false);
  }
  return slow_marker.write(stream, address, value, flags);
}

class Platform : public CudaWorld {
 protected:
  std::vector<Buffer> allocate_many(std::size_t count, Bytes bytes) const {
    std::vector<Buffer> buffers;
    for (std::size_t i = 0; i < count; ++i) {
      buffers.push_back(allocate(bytes));
    }
    return buffers;
  }
  // In a thread of its own, in the same context.
  template <typename Call>
  std::future<void> beside(const Call& call) const {
    CuContext context = nullptr;
    EXPECT_EQ(driver.context_get_current(&context), CuResult::kSuccess);
    return std::async(std::launch::async, [this, context, call] {
      (void)driver.context_set_current(context);
      call();
    });
  }
  void with_a_slow_marker() {
    change_driver = [](Driver& calls) {
      slow_marker.write = std::exchange(calls.stream_write_value, write_slowly);
    };
    open();
  }
  // Launches on `on` take all of the memory, and a thread that lacks some is about to put their
  // completion marker, until `slow_marker_comes`.
  std::future<void> put_a_slow_marker(CuStream on, CuStream another,
                                      std::vector<Buffer>& buffers) const {
    fill(on, buffers[0], 1);
    fill(on, buffers[1], 1);
    slow_marker.on_its_way = false;
    slow_marker.let_go = false;
    slow_marker.armed = true;
    std::future<void> lacks_room = beside([&, another] { fill(another, buffers[2], 1); });
    while (!slow_marker.on_its_way) {
      std::this_thread::yield();
    }
    return lacks_room;
  }
  static void slow_marker_comes() {
    slow_marker.let_go = true;
    slow_marker.let_go.notify_all();
  }
  // Our context has been lost, and not the program's.
  void ends_with_one_line() {
    EXPECT_TRUE(soon([&] {
      const std::scoped_lock lock(said_mutex);
      return !fatal.empty();
    }));
    ASSERT_EQ(fatal.size(), 1U);
    EXPECT_THAT(fatal[0], HasSubstr("before data is lost"));
    fatal.clear();
    platform.reset();
    fake_cuda_reset(&config);
    take_violations();
  }
};

TEST_F(Platform, WhatFitsMovesNothingAndIsNeverGatedTwice) {
  open();
  const CuStream on = stream();
  std::vector<Buffer> buffers = allocate_many(3, 4 * kMiB);
  for (std::uint64_t step = 1; step <= 20; ++step) {
    for (Buffer& buffer : buffers) {
      step == 1 ? fill(on, buffer, step) : rewrite(on, buffer, step);
    }
    if (step == 1) {
      synchronize(on);
    }
  }
  synchronize(on);
  EXPECT_EQ(wrong_words(), 0U);
  whole();
  const FakeCudaCounters seen = counters();
  EXPECT_EQ(seen.copies_in + seen.copies_out, 0U);
  EXPECT_EQ(seen.maps, 3U);
  EXPECT_LE(seen.gates_waited, 3U);  // while memory came for the first time
  EXPECT_EQ(platform->stats().engine.faults, 3U);
}

TEST_F(Platform, ContentsSurviveEvictionAndCleanCopiesAreNotWrittenAgain) {
  open();
  const CuStream on = stream();
  std::vector<Buffer> buffers = allocate_many(8, 4 * kMiB);
  for (Buffer& buffer : buffers) {
    fill(on, buffer, buffer.address);
  }
  for (int round = 0; round < 4; ++round) {
    for (const Buffer& buffer : buffers) {
      check(on, buffer);
    }
  }
  synchronize(on);
  platform->wait_until_idle();
  EXPECT_EQ(wrong_words(), 0U);
  whole();
  EXPECT_GE(moved(Tier::kHost, Tier::kDevice), 3 * 32 * kMiB);
  EXPECT_EQ(moved(Tier::kDevice, Tier::kHost), 32 * kMiB);  // each once
  for (Buffer& buffer : buffers) {
    rewrite(on, buffer, buffer.address + 1);
    rewrite(on, buffer, buffer.address + 2);
  }
  synchronize(on);
  EXPECT_EQ(wrong_words(), 0U);
  EXPECT_GT(platform->stats().stalled_ns, 0);
  ASSERT_FALSE(platform->waits().empty());
}

// A launch that waits after a long pause has not waited since the pause began.
TEST_F(Platform, WhatALaunchWaitsForIsCountedSinceItWaits) {
  open();
  const CuStream on = stream();
  std::vector<Buffer> buffers = allocate_many(6, 4 * kMiB);
  for (Buffer& buffer : buffers) {
    fill(on, buffer, buffer.address);
  }
  for (std::size_t i = 0; i < 4; ++i) {
    synchronize(on);
    platform->wait_until_idle();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    check(on, buffers[i]);  // which has left
  }
  synchronize(on);
  TimeNs stalled_ns = 0;
  for (const CudaPlatform::Work& it : platform->work()) {
    for (const std::string_view name :
         {"stalled_idle", "stalled_in", "stalled_out", "stalled_both"}) {
      stalled_ns += it.name == name ? it.time_ns : 0;
    }
  }
  EXPECT_GT(stalled_ns, 0);
  EXPECT_LE(stalled_ns, platform->stats().stalled_ns + 100'000'000);
}

TEST_F(Platform, TheProgramsThreadDoesNotWaitForMemory) {
  open();
  const CuStream on = stream();
  const CuStream other = stream();
  Buffer held = allocate(12 * kMiB);
  fill(on, held, 1);
  synchronize(on);
  // The first launch cannot run, so the second one finds no room: it is issued all the same.
  std::uint64_t* const gate = close(on);
  rewrite(on, held, 2);
  Buffer large = allocate(12 * kMiB);
  fill(other, large, 3);
  rewrite(other, large, 4);
  EXPECT_EQ(driver.stream_query(other), CuResult::kNotReady);
  FakeDevice::open(gate);
  synchronize(other);
  check(on, held);
  synchronize(on);
  EXPECT_EQ(wrong_words(), 0U);
  whole();
}

TEST_F(Platform, BlocksOfManySizesShareTheBudget) {
  options.device_bytes = 32 * kMiB;
  open();
  const CuStream on = stream();
  std::vector<Buffer> buffers;
  for (const Bytes bytes : {20 * kMiB, 3 * kMiB, 64 * kKiB, 128 * kKiB, 9 * kMiB + 8, 2 * kMiB,
                            7 * kMiB, 1 * kMiB, 30 * kMiB}) {
    buffers.push_back(allocate(bytes));
    fill(on, buffers.back(), bytes);
  }
  for (std::uint64_t round = 1; round <= 3; ++round) {
    for (Buffer& buffer : buffers) {
      rewrite(on, buffer, buffer.seed + round);
    }
  }
  synchronize(on);
  EXPECT_EQ(wrong_words(), 0U);
  whole();
}

TEST_F(Platform, SaysWhichAllocationAnAddressLiesIn) {
  open();
  const Buffer small = allocate(1000);
  const Buffer other = allocate(1000);
  const Buffer large = allocate(20 * kMiB);
  EXPECT_EQ(large.address % (8 * kMiB), 0U);
  const auto range = platform->memory().allocation_of(large.address + 10 * kMiB);
  ASSERT_TRUE(range);
  EXPECT_EQ(range->start, large.address);
  EXPECT_EQ(range->bytes, 20 * kMiB);
  EXPECT_EQ(platform->memory().allocation_of(other.address + 999)->start, other.address);
  EXPECT_EQ(small.address / kTwoMiB, other.address / kTwoMiB);
  EXPECT_FALSE(platform->memory().allocation_of(small.address + 1000));
  EXPECT_TRUE(platform->memory().contains(small.address + 1000));
  EXPECT_FALSE(platform->memory().contains(address_of(wrong)));
  platform->memory().free(small.address);
  EXPECT_FALSE(platform->memory().allocation_of(small.address));
  EXPECT_EQ(counters().handle_bytes, 0U);  // nothing has been used
}

// Neither a small one's neighbour, whose addresses it may be near, nor a large one's.
TEST_F(Platform, AnEndNamesWhatEndsThereAlone) {
  open();
  for (const Bytes bytes : {Bytes{512}, Bytes{4096}, kTwoMiB, 20 * kMiB}) {
    std::array<std::uint64_t, 4> starts{};
    for (std::uint64_t& start : starts) {
      start = allocate(bytes).address;
    }
    for (const std::uint64_t start : starts) {
      const std::array<std::uint64_t, 2> words{start, start + bytes};
      std::array<PointedAt, 2> found{};
      platform->memory().pointed_at(words, found.data());
      EXPECT_EQ(found[0].in.start, start);
      EXPECT_EQ(found[0].ends.bytes, 0U);
      EXPECT_EQ(found[1].in.bytes, 0U);
      EXPECT_EQ(found[1].ends.start, start);
    }
  }
}

TEST_F(Platform, MoreThanAllTiersIsRefused) {
  open();
  const Result<std::uint64_t> address = platform->memory().allocate(kGiB);
  ASSERT_FALSE(address);
  EXPECT_THAT(address.error().message, HasSubstr("--host-memory"));
  for (int i = 0; i < 20; ++i) {
    const Result<std::uint64_t> some = platform->memory().allocate(100 * kMiB);
    ASSERT_TRUE(some);
    platform->memory().free(*some);
  }
}

TEST_F(Platform, StreamsThatWaitForEventsShareTooLittleMemory) {
  open();
  std::vector<CuStream> streams = {stream(), stream(), stream()};
  std::vector<Buffer> buffers = allocate_many(6, 6 * kMiB);
  for (Buffer& buffer : buffers) {
    fill(streams[0], buffer, 1);
  }
  CuEvent last = event();
  for (std::uint64_t step = 0; step < 60; ++step) {
    const CuStream from = streams[step % 3];
    const CuStream to = streams[(step + 1) % 3];
    ASSERT_EQ(driver.event_record(last, from), CuResult::kSuccess);
    platform->streams().recorded(last, from);
    ASSERT_EQ(driver.stream_wait_event(to, last, 0), CuResult::kSuccess);
    platform->streams().waits_for(last, to);
    rewrite(to, buffers[step % buffers.size()], step + 2);
  }
  for (const CuStream on : streams) {
    synchronize(on);
  }
  EXPECT_EQ(wrong_words(), 0U);
  whole();
}

TEST_F(Platform, TheNullStreamAndBlockingStreamsWaitForEachOther) {
  open();
  CuStream blocking = nullptr;
  ASSERT_EQ(driver.stream_create(&blocking, kCuStreamDefault, 0), CuResult::kSuccess);
  std::vector<Buffer> buffers = allocate_many(4, 8 * kMiB);
  for (Buffer& buffer : buffers) {
    fill(nullptr, buffer, 1);
  }
  for (std::uint64_t step = 0; step < 40; ++step) {
    rewrite(step % 2 == 0 ? blocking : nullptr, buffers[(step / 2) % 4], step + 2);
  }
  synchronize(blocking);
  synchronize(nullptr);
  EXPECT_EQ(wrong_words(), 0U);
  whole();
}

// An event of the null stream comes behind what blocking streams do, also where nothing of ours has
// been on the null stream: what waits for it may not take the room of what it waits for.
TEST_F(Platform, AnEventOfTheNullStreamComesBehindBlockingStreams) {
  options.device_bytes = 32 * kMiB;
  open(lookahead);
  CuStream blocking = nullptr;
  ASSERT_EQ(driver.stream_create(&blocking, kCuStreamDefault, 0), CuResult::kSuccess);
  const CuStream other = stream();
  std::vector<Buffer> buffers = allocate_many(6, 8 * kMiB);
  for (Buffer& buffer : buffers) {  // so that not all fits, and few are admitted at once
    fill(other, buffer, 1);
  }
  synchronize(other);
  std::uint64_t* const held = pinned(1);
  *held = 0;
  ASSERT_EQ(driver.stream_wait_value(blocking, address_of(held), 1, kCuWaitAtLeast),
            CuResult::kSuccess);
  const auto all_of = [&](std::size_t first, std::size_t count) {
    std::vector<CudaOperand> operands;
    for (std::size_t i = first; i < first + count; ++i) {
      operands.push_back(operand(buffers[i], AccessMode::kRead));
    }
    return operands;
  };
  const auto run = [&](CuStream on, std::span<const CudaOperand> operands) {
    EXPECT_EQ(issue(on, operands, "uses", false,
                    [&] {
                      return launch(test::kernels().rewrite, on, operands[0].address,
                                    buffers[0].words, buffers[0].seed, buffers[0].seed,
                                    address_of(wrong));
                    }),
              CuResult::kSuccess);
  };
  for (int i = 0; i < 4; ++i) {  // as many as are admitted at once
    run(blocking, all_of(0, 1));
  }
  run(blocking, all_of(0, 3));
  const CuEvent behind = event();
  ASSERT_EQ(driver.event_record(behind, nullptr), CuResult::kSuccess);
  platform->streams().recorded(behind, nullptr);
  ASSERT_EQ(driver.stream_wait_event(other, behind, 0), CuResult::kSuccess);
  platform->streams().waits_for(behind, other);
  run(other, all_of(3, 3));
  __atomic_store_n(held, 1, __ATOMIC_RELEASE);
  synchronize(blocking);
  synchronize(other);
  EXPECT_EQ(wrong_words(), 0U);
  whole();
}

// A wait that another thread puts on a stream comes behind a launch that is on its way there.
// Otherwise that one would hold the memory for which what it waits for stands at a stream wait.
TEST_F(Platform, AWaitComesBehindALaunchThatIsOnItsWay) {
  open();
  const CuStream on = stream();
  const CuStream another = stream();
  std::vector<Buffer> buffers = allocate_many(3, 8 * kMiB);
  fill(on, buffers[0], 1);
  fill(on, buffers[1], 2);
  synchronize(on);
  const CudaOperand all_room[] = {operand(buffers[0], AccessMode::kRead),
                                  operand(buffers[1], AccessMode::kRead)};
  const std::uint64_t on_its_way = platform->launches().before_launch(
      {.stream = on, .hash = {}, .name = "uses", .operands = all_room, .needs_mapping = false});
  const CuEvent behind = event();
  beside([&] {
    fill(another, buffers[2], 3);
    const auto in_order = platform->streams().in_order(another);
    platform->streams().recorded(behind, another);
    EXPECT_EQ(driver.event_record(behind, another), CuResult::kSuccess);
  }).get();
  std::future<void> waits = beside([&] {
    const auto in_order = platform->streams().in_order(on);
    EXPECT_EQ(driver.stream_wait_event(on, behind, 0), CuResult::kSuccess);
    platform->streams().waits_for(behind, on);
  });
  EXPECT_EQ(waits.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  EXPECT_EQ(launch(test::kernels().rewrite, on, buffers[0].address, buffers[0].words, 1, 1,
                   address_of(wrong)),
            CuResult::kSuccess);
  platform->launches().after_launch(on_its_way, true);
  waits.get();
  synchronize(on);
  synchronize(another);
  // Nobody had to be let go.
  EXPECT_EQ(counters().host_handle_bytes, 0U);
  EXPECT_EQ(wrong_words(), 0U);
  whole();
}

// Whoever waits for a stream, or begins to capture it, waits for the completion markers that other
// threads are about to put on it: one that came into a capture would never tell.
TEST_F(Platform, AWaitFindsAllMarkersOnTheirStreams) {
  with_a_slow_marker();
  const CuStream on = stream();
  const CuStream another = stream();
  std::vector<Buffer> buffers = allocate_many(3, 8 * kMiB);
  std::future<void> lacks_room = put_a_slow_marker(on, another, buffers);
  std::future<void> waits =
      std::async(std::launch::async, [&] { platform->streams().before_wait(on); });
  EXPECT_EQ(waits.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  slow_marker_comes();
  waits.get();
  lacks_room.get();
  synchronize(on);
  synchronize(another);
  EXPECT_EQ(wrong_words(), 0U);
  whole();
}

// The same for a wait for a value, and for whoever lacks memory: what stands behind the wait, or
// behind a stream wait, may be what a completion marker that comes too late tells of.
TEST_F(Platform, AWaitForAValueComesBehindMarkersThatOthersPut) {
  with_a_slow_marker();
  const CuStream on = stream();
  const CuStream another = stream();
  const CuStream third = stream();
  std::vector<Buffer> buffers = allocate_many(4, 8 * kMiB);
  std::future<void> lacks_room = put_a_slow_marker(on, another, buffers);
  std::future<void> waits =
      std::async(std::launch::async, [&] { platform->streams().will_wait_for_value(); });
  std::future<void> lacks_room_too = beside([&] { fill(third, buffers[3], 1); });
  EXPECT_EQ(waits.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  EXPECT_EQ(lacks_room_too.wait_for(std::chrono::milliseconds(0)), std::future_status::timeout);
  slow_marker_comes();
  waits.get();
  lacks_room.get();
  lacks_room_too.get();
  for (const CuStream each : {on, another, third}) {
    synchronize(each);
  }
  EXPECT_EQ(wrong_words(), 0U);
  whole();
}

TEST_F(Platform, CopiesAndMemsetsFindTheirOperandsMapped) {
  open();
  const CuStream on = stream();
  std::vector<Buffer> buffers = allocate_many(6, 6 * kMiB);
  std::uint64_t* const host = pinned(buffers[0].words);
  for (std::uint64_t round = 1; round <= 3; ++round) {
    for (Buffer& buffer : buffers) {
      for (std::uint64_t i = 0; i < buffer.words; ++i) {
        host[i] = test::pattern(round, i);
      }
      const CudaOperand to = operand(buffer, AccessMode::kOverwrite);
      EXPECT_EQ(issue(on, {&to, 1}, "copy in", true,
                      [&] { return driver.copy_in(buffer.address, host, buffer.bytes(), on); }),
                CuResult::kSuccess);
      buffer.seed = round;
      synchronize(on);
    }
    for (Buffer& buffer : buffers) {
      rewrite(on, buffer, round + 100);
      const CudaOperand from = operand(buffer, AccessMode::kRead);
      EXPECT_EQ(issue(on, {&from, 1}, "copy out", true,
                      [&] { return driver.copy_out(host, buffer.address, buffer.bytes(), on); }),
                CuResult::kSuccess);
      synchronize(on);
      EXPECT_EQ(host[buffer.words - 1], test::pattern(round + 100, buffer.words - 1));
    }
    const CudaOperand part{.address = buffers[2].address + 2 * kMiB, .bytes = kMiB};
    EXPECT_EQ(issue(on, {&part, 1}, "memset", true,
                    [&] { return driver.set_bytes(part.address, 0, part.bytes, on); }),
              CuResult::kSuccess);
    buffers[2].words = 2 * kMiB / 8;  // what is left of the pattern
    rewrite(on, buffers[2], 200);
    buffers[2].words = 6 * kMiB / 8;
    synchronize(on);
  }
  EXPECT_EQ(wrong_words(), 0U);
  whole();
}

TEST_F(Platform, NoMoreStreamsAreGatedThanTheDeviceStands) {
  options.waiting_streams = 2;
  config.connections = 3;
  open();
  std::vector<Buffer> buffers = allocate_many(12, 6 * kMiB);
  std::vector<CuStream> streams;
  for (int i = 0; i < 6; ++i) {
    streams.push_back(stream());
  }
  for (std::uint64_t step = 0; step < 4; ++step) {
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      step == 0 ? fill(streams[i % 6], buffers[i], i) : rewrite(streams[i % 6], buffers[i], i);
    }
  }
  for (const CuStream on : streams) {
    synchronize(on);
  }
  EXPECT_EQ(wrong_words(), 0U);
  whole();
}

TEST_F(Platform, TheQueueOfIssuedLaunchesHasAnEnd) {
  options.launches_ahead = 10;
  config.launches_ahead = 12;
  config.launch_ns = 200'000;
  open();
  const CuStream on = stream();
  Buffer buffer = allocate(kMiB);
  fill(on, buffer, 0);
  for (std::uint64_t i = 1; i <= 100; ++i) {
    rewrite(on, buffer, i);
    EXPECT_GE(counters().launches + 12, i);
  }
  synchronize(on);
  EXPECT_EQ(wrong_words(), 0U);
}

TEST_F(Platform, AFreeTakesEffectBehindTheLaunchesThatUseIt) {
  open();
  const CuStream on = stream();
  for (std::uint64_t i = 0; i < 24; ++i) {
    Buffer buffer = allocate(6 * kMiB);
    fill(on, buffer, i);
    rewrite(on, buffer, i + 1);
    check(on, buffer);
    platform->memory().free(buffer.address);
  }
  synchronize(on);
  platform->wait_until_idle();
  EXPECT_EQ(wrong_words(), 0U);
  whole();
  EXPECT_EQ(platform->stats().live_bytes, 0U);
  EXPECT_EQ(counters().copies_out, 0U);  // what is dead moves nowhere
}

TEST_F(Platform, WhatIsRetiredMovesNowhereAndCanBeUsedAgain) {
  open();
  const CuStream on = stream();
  std::vector<Buffer> buffers = allocate_many(6, 6 * kMiB);
  for (std::uint64_t step = 1; step <= 10; ++step) {
    for (Buffer& buffer : buffers) {
      fill(on, buffer, step);
      check(on, buffer);
      platform->memory().retire(buffer.address, std::nullopt);
      ASSERT_TRUE(platform->memory().reuse(buffer.address));
    }
  }
  synchronize(on);
  EXPECT_EQ(wrong_words(), 0U);
  whole();
}

TEST_F(Platform, AddressesAreUsedAgainOnlyWhenNothingIsThere) {
  options.address_bytes = 128 * kMiB;
  open();
  const CuStream on = stream();
  for (std::uint64_t i = 0; i < 80; ++i) {
    Buffer buffer = allocate((1 + i % 5) * 2 * kMiB);
    fill(on, buffer, i);
    check(on, buffer);
    platform->memory().free(buffer.address);
    if (i % 8 == 7) {
      synchronize(on);
      platform->wait_until_idle();
    }
  }
  synchronize(on);
  EXPECT_EQ(wrong_words(), 0U);
  whole();
}

TEST_F(Platform, ALaunchThatTheDriverRefusesEndsAsWell) {
  open();
  const CuStream on = stream();
  std::vector<Buffer> buffers = allocate_many(6, 6 * kMiB);
  for (Buffer& buffer : buffers) {
    fill(on, buffer, 1);
    const CudaOperand it = operand(buffer, AccessMode::kRead);
    EXPECT_EQ(issue(on, {&it, 1}, "refused", false,
                    [&] {
                      return driver.launch_kernel(test::kernels().fill, 0, 1, 1, 1, 1, 1, 0, on,
                                                  nullptr, nullptr);
                    }),
              CuResult::kInvalidValue);
  }
  for (Buffer& buffer : buffers) {
    rewrite(on, buffer, 2);
  }
  synchronize(on);
  EXPECT_EQ(wrong_words(), 0U);
}

TEST_F(Platform, ADestroyedStreamRunsToItsEnd) {
  open();
  const CuStream last = stream();
  std::vector<Buffer> buffers = allocate_many(6, 6 * kMiB);
  const CuEvent done = event();
  for (std::uint64_t round = 0; round < 10; ++round) {
    const CuStream on = stream();
    for (Buffer& buffer : buffers) {
      round == 0 ? fill(on, buffer, 0) : rewrite(on, buffer, round);
    }
    ASSERT_EQ(driver.event_record(done, on), CuResult::kSuccess);
    platform->streams().recorded(done, on);
    platform->streams().destroyed(on);
    ASSERT_EQ(driver.stream_destroy(on), CuResult::kSuccess);
    ASSERT_EQ(driver.event_synchronize(done), CuResult::kSuccess);
  }
  for (const Buffer& buffer : buffers) {
    check(last, buffer);
  }
  synchronize(last);
  EXPECT_EQ(wrong_words(), 0U);
  whole();
}

TEST_F(Platform, BudgetsChangeWhileLaunchesAreIssued) {
  options.device_bytes = 40 * kMiB;
  open();
  const CuStream on = stream();
  std::vector<Buffer> buffers = allocate_many(8, 6 * kMiB);
  for (Buffer& buffer : buffers) {
    fill(on, buffer, 1);
  }
  for (std::uint64_t step = 2; step < 12; ++step) {
    const Bytes budget = (step % 3 == 0 ? 8 : step % 3 == 1 ? 40 : 20) * kMiB;
    const Status set = platform->set_device_capacity(budget);
    ASSERT_TRUE(set) << set.error().message;
    for (Buffer& buffer : buffers) {
      rewrite(on, buffer, step);
    }
    if (step == 9) {
      synchronize(on);
      platform->wait_until_idle();
      EXPECT_LE(counters().handle_bytes, 8 * kMiB);
      whole();
    }
  }
  synchronize(on);
  EXPECT_EQ(wrong_words(), 0U);
  EXPECT_FALSE(platform->set_device_capacity(kMiB));
}

TEST_F(Platform, OthersUseTheCardSoTheBudgetIsLowered) {
  options.device_bytes = 64 * kMiB;
  config.device_bytes = 24 * kMiB;
  config.context_bytes = 0;
  open();
  const CuStream on = stream();
  std::vector<Buffer> buffers = allocate_many(10, 6 * kMiB);
  for (std::uint64_t step = 1; step <= 3; ++step) {
    for (Buffer& buffer : buffers) {
      step == 1 ? fill(on, buffer, step) : rewrite(on, buffer, step);
    }
  }
  synchronize(on);
  EXPECT_EQ(wrong_words(), 0U);
  EXPECT_LE(platform->capacity_bytes(Tier::kDevice), 24 * kMiB);
  ASSERT_EQ(warned.size(), 1U);
  EXPECT_THAT(warned[0], HasSubstr("others use it"));
  whole();
}

TEST_F(Platform, ALaunchLargerThanTheBudgetRunsOnHostMemory) {
  open();
  const CuStream on = stream();
  std::vector<Buffer> buffers = allocate_many(4, 6 * kMiB);
  Buffer large = allocate(30 * kMiB);
  for (std::uint64_t step = 1; step <= 3; ++step) {
    for (Buffer& buffer : buffers) {
      step == 1 ? fill(on, buffer, step) : rewrite(on, buffer, step);
    }
    step == 1 ? fill(on, large, step) : rewrite(on, large, step);
  }
  for (const Buffer& buffer : buffers) {
    check(on, buffer);
  }
  check(on, large);
  synchronize(on);
  platform->wait_until_idle();
  EXPECT_EQ(wrong_words(), 0U);
  EXPECT_EQ(platform->capacity_bytes(Tier::kDevice), 16 * kMiB);
  ASSERT_EQ(warned.size(), 1U);
  EXPECT_THAT(warned[0], HasSubstr("more than the device budget"));
  whole();
  for (Buffer& buffer : buffers) {
    rewrite(on, buffer, 9);
  }
  synchronize(on);
  EXPECT_EQ(wrong_words(), 0U);
}

TEST_F(Platform, ContentsSurviveTheSwapFile) {
  options.host_bytes = 16 * kMiB;
  open(base_uvm, 128 * kMiB);
  const CuStream on = stream();
  std::vector<Buffer> buffers = allocate_many(12, 6 * kMiB);
  for (std::uint64_t step = 1; step <= 4; ++step) {
    for (Buffer& buffer : buffers) {
      step == 1 ? fill(on, buffer, step) : rewrite(on, buffer, step);
    }
  }
  synchronize(on);
  EXPECT_EQ(wrong_words(), 0U);
  EXPECT_GT(moved(Tier::kDevice, Tier::kStorage), 0U);
  EXPECT_GT(moved(Tier::kStorage, Tier::kDevice), 0U);
  EXPECT_GT(platform->stats().io_bytes[0], 0U);
  whole();
}

// A kernel fails while the program's thread is held in our code: nothing ends any more, and it must
// come back to hear of that from the driver.
class ContextDies : public Platform {
 protected:
  void open_with_a_bad_kernel() {
    options.launches_ahead = 16;
    options.waiting_streams = 1;
    open();
    on = stream();
    other = stream();
    buffers = allocate_many(6, 6 * kMiB);
    for (Buffer& buffer : buffers) {
      fill(on, buffer, 1);
    }
    synchronize(on);
    flag = pinned(1);
    __atomic_store_n(flag, 0, __ATOMIC_RELEASE);
    ASSERT_EQ(launch(test::kernels().wait, on, address_of(flag)), CuResult::kSuccess);
    constexpr std::uint64_t kNowhere = 0x1000;
    ASSERT_EQ(launch(test::kernels().fill, on, kNowhere, 1, 1), CuResult::kSuccess);
  }
  CuResult use(CuStream stream, const Buffer& buffer, bool needs_mapping = false) {
    const CudaOperand it = operand(buffer, AccessMode::kReadWrite);
    return issue(stream, {&it, 1}, "uses", needs_mapping, [&] {
      return launch(test::kernels().fill, stream, buffer.address, buffer.words, 1);
    });
  }
  // `call` is held; the kernel fails; it comes back, and another call is refused.
  template <typename Call>
  void comes_back(const Call& call) {
    std::future<void> held = beside(call);
    EXPECT_EQ(held.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    EXPECT_EQ(held.wait_for(std::chrono::seconds(5)), std::future_status::ready);
    if (held.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      std::abort();  // it never will, nor would this test
    }
    EXPECT_EQ(use(on, buffers[0]), CuResult::kIllegalAddress);
    EXPECT_EQ(take_violations().size(), 1U);  // the bad kernel's
    platform.reset();
    fake_cuda_reset(&config);
    take_violations();
  }

  CuStream on = nullptr;
  CuStream other = nullptr;
  std::vector<Buffer> buffers;
  std::uint64_t* flag = nullptr;
};

TEST_F(ContextDies, WhileTheQueueIsFull) {
  open_with_a_bad_kernel();
  comes_back([&] {
    for (int i = 0; i < 64; ++i) {
      (void)use(on, buffers[5]);
    }
  });
}

TEST_F(ContextDies, WhileACopyLacksItsOperand) {
  open_with_a_bad_kernel();
  (void)use(on, buffers[4]);
  (void)use(on, buffers[5]);
  comes_back([&] { (void)use(other, buffers[0], true); });
}

TEST_F(ContextDies, WhileTooManyStreamsAreGated) {
  open_with_a_bad_kernel();
  (void)use(on, buffers[4]);
  (void)use(on, buffers[5]);
  (void)use(on, buffers[0]);  // behind a stream wait
  comes_back([&] { (void)use(other, buffers[1]); });
}

// On a real device a kernel that fails takes all contexts of the process with it, ours as well.
struct Failed {
  std::atomic<bool> kernel = false;
  decltype(Driver::event_query) query = nullptr;
};
Failed has_failed;

CuResult query_if_alive(CuEvent event) {
  return has_failed.kernel ? CuResult::kIllegalAddress : has_failed.query(event);
}

void ask_whether_failed(Driver& calls) {
  has_failed.query = std::exchange(calls.event_query, query_if_alive);
}

TEST_F(ContextDies, WhileAStreamThatIsDestroyedStillHasMemory) {
  open_with_a_bad_kernel();
  (void)use(on, buffers[4]);
  (void)use(on, buffers[5]);
  platform->streams().destroyed(on);
  ASSERT_EQ(driver.stream_destroy(on), CuResult::kSuccess);
  on = nullptr;
  comes_back([&] { (void)use(other, buffers[0], true); });
}

TEST_F(ContextDies, TheProgramHearsOfItAlsoWhereOursDiesWithIt) {
  has_failed.kernel = false;
  change_driver = ask_whether_failed;
  open_with_a_bad_kernel();
  (void)use(on, buffers[4]);
  (void)use(on, buffers[5]);
  comes_back([&] {
    (void)use(other, buffers[0], true);
    has_failed.kernel = true;
    for (int i = 0; i < 3; ++i) {
      (void)use(other, buffers[static_cast<std::size_t>(i)], true);
    }
  });
  EXPECT_THAT(fatal, ::testing::IsEmpty());
}

TEST_F(Platform, OursDiesAloneAndTheRunEndsWithOneLine) {
  has_failed.kernel = false;
  change_driver = ask_whether_failed;
  open();
  const CuStream on = stream();
  std::vector<Buffer> buffers = allocate_many(6, 6 * kMiB);
  has_failed.kernel = true;
  for (Buffer& buffer : buffers) {
    fill(on, buffer, 1);
  }
  ends_with_one_line();
}

TEST_F(Platform, ALostContextEndsTheRunWithOneLine) {
  open();
  const CuStream on = stream();
  std::vector<Buffer> buffers = allocate_many(6, 6 * kMiB);
  config.copy_breaks = 1;
  fake_cuda_change(&config);
  for (Buffer& buffer : buffers) {
    fill(on, buffer, 1);
  }
  ends_with_one_line();
}

}  // namespace
}  // namespace spillway::cuda
