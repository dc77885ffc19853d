// Contents that are made again instead of moved: when they may be, and that what is not known stays
// as it is. docs/cuda.md.
#include "platform/cuda/recompute/recomputing.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "base/sanitizers.h"
#include "platform/cuda/remaking_world.h"

namespace spillway::cuda {
namespace {

// A budget of 32 MiB, of which a step leaves little: `crowd` takes the rest.
class Recomputes : public RemakingWorld {
 protected:
  static constexpr Bytes kBytes = 6 * kMiB;
  static constexpr std::uint64_t kNotTried = 100;  // ReplayableLaunch::kind
#if SPILLWAY_THREAD_SANITIZER
  static constexpr int kRounds = 20;
#elif SPILLWAY_ADDRESS_SANITIZER
  static constexpr int kRounds = 40;  // where each takes a second and a half
#else
  static constexpr int kRounds = 150;
#endif
  Recomputes() {
    options.device_bytes = 32 * kMiB;
    options.host_bytes = 256 * kMiB;
  }
  // More is alive than fits from now on.
  void press() {
    open(lookahead);
    on = stream();
    for (int i = 0; i < 7; ++i) {
      crowd_.push_back(allocate(kBytes));
      fill(on, crowd_.back(), seed_++);
    }
    settle();
    for (const bool derives : {true, false}) {
      try_kind(derives);
    }
  }
  // The first result of each kernel shows whether it writes all of it.
  void try_kind(bool derives) {
    const Buffer from = source();
    Buffer made = allocate(kBytes);
    if (derives) {
      derive(on, made, from, seed_++);
    } else {
      make(on, made, seed_++);
    }
    use(on, made);
    settle();
    check(on, made);
    settle();
    platform->memory().free(made.address);
    platform->memory().free(from.address);
  }
  // Everything alive but what is made is named, so whatever else is there has to leave.
  void crowd() {
    for (Buffer& buffer : crowd_) {
      rewrite(on, buffer, seed_++);
    }
    settle();
  }
  void settle() {
    synchronize(on);
    platform->wait_until_idle();
    whole();
  }
  // How often something was done, by its name among the platform's times.
  [[nodiscard]] std::uint64_t times(std::string_view name) const {
    std::uint64_t count = 0;
    for (const CudaPlatform::Work& work : platform->work()) {
      count += work.name == name ? work.count : 0;
    }
    return count;
  }
  [[nodiscard]] Buffer made_from(const Buffer& source) {
    Buffer made = allocate(kBytes);
    derive(on, made, source, seed_++);
    return made;
  }
  // What something was made of, and that, which has been given up.
  struct GivenUp {
    Buffer from;
    Buffer made;
  };
  [[nodiscard]] GivenUp one_given_up() {
    const Buffer from = source();
    const Buffer made = made_from(from);
    use(on, made);
    follow(from);  // behind which it is compared
    settle();
    crowd();
    EXPECT_EQ(given_up(), kBytes);
    return {.from = from, .made = made};
  }
  // Launches that name only this, behind which others are compared.
  void follow(const Buffer& other) { follow(other, on); }
  void follow(const Buffer& other, CuStream stream) {
    for (std::uint64_t i = 0; i <= Recomputing::kLaunchesBetween; ++i) {
      check(stream, other);
    }
  }
  // The stream stands still until FakeDevice::open.
  [[nodiscard]] std::uint64_t* stop(CuStream stream) {
    std::uint64_t* const gate = pinned(1);
    *gate = 0;
    EXPECT_EQ(launch(test::kernels().wait, stream, address_of(gate)), CuResult::kSuccess);
    return gate;
  }
  [[nodiscard]] Buffer source() { return source_on(on); }
  [[nodiscard]] Buffer source_on(CuStream stream) {
    Buffer made = allocate(kBytes);
    fill(stream, made, seed_++);
    return made;
  }
  void TearDown() override {
    EXPECT_EQ(wrong_words(), 0U);
    RemakingWorld::TearDown();
  }

  CuStream on = nullptr;

 private:
  std::vector<Buffer> crowd_;
  std::uint64_t seed_ = 1;
};

TEST_F(Recomputes, WhatAKernelMadeThatSomethingHasReadSince) {
  press();
  const auto [from, made] = one_given_up();
  use(on, made);
  settle();
  EXPECT_EQ(times("remake"), 1U);  // the trials count as fingerprints
  crowd();
  check(on, made);  // it has been copied like anything else
  settle();
  EXPECT_EQ(given_up(), kBytes);
}

// Another process may change it at any time (docs/interposer.md), and nobody here hears of that.
TEST_F(Recomputes, NothingThatIsMadeOfExportedMemory) {
  press();
  const auto [from, before] = one_given_up();
  const CudaOperand all = operand(from, AccessMode::kReadWrite);
  (void)issue(stream(), {&all, 1}, "export", true, [this, address = from.address] {
    EXPECT_TRUE(platform->exports().export_memory(address));
    return CuResult::kSuccess;
  });
  EXPECT_EQ(times("remake"), 1U);  // as long as it is what it was
  const Buffer made = made_from(from);
  use(on, made);
  follow(from);
  settle();
  crowd();
  EXPECT_EQ(given_up(), kBytes);
  check(on, made);
  check(on, before);
  settle();
  EXPECT_EQ(times("remake"), 1U);
}

// Nobody may have written it, so there is nothing to compare.
TEST_F(Recomputes, WithoutFingerprintsOfWhatIsOnlyRead) {
  press();
  const Buffer from = source();
  const Buffer made = made_from(from);
  const std::uint64_t before = times("fingerprint");
  look(on, made);
  settle();
  crowd();
  EXPECT_EQ(given_up(), kBytes);
  look(on, made);
  follow(from);
  settle();
  EXPECT_EQ(times("fingerprint"), before);
  EXPECT_EQ(times("remake"), 1U);
}

// Who only reads it is followed by who may write it: then it is compared after all, once.
TEST_F(Recomputes, WhatIsReadAndThenDoubted) {
  press();
  const Buffer from = source();
  const Buffer made = made_from(from);
  look(on, made);
  use(on, made);
  follow(from);
  settle();
  crowd();
  EXPECT_EQ(given_up(), kBytes);
  use(on, made);
  settle();
  const Buffer other = source();
  const Buffer twice = made_from(other);
  look(on, twice);
  use(on, twice);
  follow(from);
  use(on, twice);
  settle();
  crowd();
  EXPECT_EQ(given_up(), kBytes);
  check(on, other);
}

// As two kernels of a norm do, with one for the running statistics between them.
TEST_F(Recomputes, WhatTwoLaunchesMayHaveWritten) {
  press();
  const Buffer from = source();
  const Buffer made = made_from(from);
  use(on, made);
  check(on, from);
  use(on, made);
  follow(from);
  settle();
  crowd();
  EXPECT_EQ(given_up(), kBytes);
  check(on, made);
  settle();
}

// What is put there for others does not count as a launch that has followed.
TEST_F(Recomputes, WhatTwoLaunchesMayHaveWrittenBesideOthers) {
  press();
  const Buffer from = source();
  const Buffer other = made_from(from);
  const Buffer made = made_from(from);
  use(on, other);
  check(on, from);
  use(on, made);
  for (std::uint64_t i = 0; i < Recomputing::kLaunchesBetween; ++i) {
    check(on, from);  // behind the first of which the other is compared
  }
  use(on, made);
  follow(from);
  settle();
  crowd();
  EXPECT_EQ(given_up(), 2 * kBytes);
  check(on, made);
  check(on, other);
  settle();
}

// What it uses besides is in the order of its own stream: it is made again there, and who asks on
// another one waits.
TEST_F(Recomputes, OnItsOwnStream) {
  press();
  stays_on_stream = true;
  const auto [from, made] = one_given_up();
  const CuStream other = stream();
  ran_on = nullptr;
  use(other, made);
  EXPECT_EQ(ran_on.load(), on);
  synchronize(other);
  settle();
}

// A product has promised to write all of it, and the same each time.
TEST_F(Recomputes, AnotherResultEndsTheRun) {
  press();
  makes_whole = true;
  Buffer made = allocate(kBytes);
  make(on, made, 8'000, kNotTried);
  look(on, made);
  settle();
  EXPECT_TRUE(fatal.empty());
  Buffer half = allocate(kBytes);
  make_half(on, half, 9'000);
  half.words /= 2;
  look(on, half);
  synchronize(on);
  platform->wait_until_idle();
  ASSERT_EQ(fatal.size(), 1U);
  EXPECT_THAT(fatal.front(), ::testing::HasSubstr("gave other bytes than before"));
  fatal.clear();
}

TEST_F(Recomputes, NotWhatSomethingHasWrittenSince) {
  press();
  const Buffer from = source();
  Buffer made = made_from(from);
  rewrite(on, made, 1'000);
  follow(from);
  settle();
  crowd();
  EXPECT_EQ(given_up(), 0U);
  check(on, made);
  settle();
}

// Of what was given up before: it is made while that is possible.
TEST_F(Recomputes, BeforeWhatItWasMadeOfChanges) {
  press();
  auto [from, made] = one_given_up();
  rewrite(on, from, 2'000);
  check(on, made);
  settle();
}

// Its address stands on the device, where another kernel has it from.
TEST_F(Recomputes, BeforeWhatItWasMadeOfIsChangedUnseen) {
  press();
  const Buffer table = source();
  auto [from, made] = one_given_up();
  expose(on, from, table);
  EXPECT_EQ(times("remake"), 1U);
  const Buffer again = made_from(from);
  use(on, again);
  follow(from);
  settle();
  crowd();
  check(on, from);  // it is there
  settle();
  rewrite_unseen(on, from, table, 2'000);
  check(on, made);
  check(on, again);
  check(on, from);
  settle();
  crowd();
  check(on, from);
  settle();
}

TEST_F(Recomputes, NotWhatWasMadeOfWhatHasBeenChangedUnseen) {
  press();
  const Buffer table = source();
  Buffer from = source();
  expose(on, from, table);
  const Buffer made = made_from(from);
  use(on, made);
  rewrite_unseen(on, from, table, 2'000);
  follow(from);
  settle();
  crowd();
  EXPECT_EQ(given_up(), 0U);
  check(on, made);
  settle();
}

TEST_F(Recomputes, NotWhatMayBeChangedUnseenLater) {
  press();
  const Buffer table = source();
  const Buffer from = source();
  Buffer made = made_from(from);
  expose(on, made, table);
  follow(from);
  settle();
  rewrite_unseen(on, made, table, 2'000);
  crowd();
  EXPECT_EQ(given_up(), 0U);
  check(on, made);
  settle();
}

TEST_F(Recomputes, BeforeWhatItWasMadeOfDies) {
  press();
  const auto [from, made] = one_given_up();
  platform->memory().retire(from.address, std::nullopt);
  ASSERT_TRUE(platform->memory().reuse(from.address));
  Buffer other = from;
  const CuStream elsewhere = stream();
  fill(elsewhere, other, 3'000);
  check(on, made);
  settle();
  synchronize(elsewhere);
}

TEST_F(Recomputes, OnceThatWasMadeOfWhatWasGivenUpItself) {
  press();
  const Buffer from = source();
  const Buffer first = made_from(from);
  const Buffer second = made_from(first);
  use(on, first);
  use(on, second);
  follow(from);
  settle();
  crowd();
  crowd();
  // The first was named as something that may be written, so only one of the two is known.
  EXPECT_GE(given_up(), kBytes);
  check(on, second);
  check(on, first);
  settle();
}

TEST_F(Recomputes, OutOfNothing) {
  press();
  Buffer made = allocate(kBytes);
  make(on, made, 4'000);
  use(on, made);
  const Buffer from = source();
  follow(from);
  settle();
  crowd();
  EXPECT_EQ(given_up(), kBytes);
  use(on, made);
  check(on, from);
  settle();
}

// It is made again on the stream that asks; the one on which it was made waits for that.
TEST_F(Recomputes, OnAnotherStream) {
  press();
  const auto [from, made] = one_given_up();
  const CuStream other = stream();
  use(other, made);
  use(on, made);
  synchronize(other);
  settle();
  EXPECT_EQ(wrong_words(), 0U);
}

// Nobody has defined the rest when it is made; whoever does so next leaves what is there, and is no
// change that a fingerprint would show.
TEST_F(Recomputes, NotWhatIsMadeInPart) {
  press();
  for (int round = 0; round < 3; ++round) {
    Buffer made = allocate(kBytes);
    make_half(on, made, 7'000);
    Buffer rest = made;
    rest.address += made.bytes() / 2;
    rest.words /= 2;
    fill(on, rest, 8'000);
    use(on, rest);
    use(on, rest);
    const Buffer from = source();
    follow(from);
    settle();
    crowd();
    Buffer half = made;
    half.words /= 2;
    check(on, half);
    check(on, rest);
    check(on, from);
    settle();
    platform->memory().free(made.address);
    platform->memory().free(from.address);
  }
  EXPECT_EQ(given_up(), 0U);
}

// What a result is made of is tried while, on another stream, that is being made again of it.
TEST_F(Recomputes, NothingIsTriedUnderWhatIsMadeOfIt) {
  std::uint64_t* gate = nullptr;
  const auto fill_memory = options.own_launches.fill;
  options.own_launches.fill = [&](CuStream stream, CuAddress to, Bytes bytes,
                                  std::uint32_t pattern) {
    const CuResult result = fill_memory(stream, to, bytes, pattern);
    if (gate != nullptr) {
      FakeDevice::open(gate);  // while the pattern is there
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return result;
  };
  press();
  const Buffer from = source();
  Buffer middle = allocate(kBytes);
  make(on, middle, 500, kNotTried);
  const Buffer made = made_from(middle);
  use(on, made);
  follow(from);
  settle();
  crowd();
  ASSERT_GT(given_up(), 0U);
  const CuStream other = stream();
  gate = stop(other);
  use(other, made);
  std::thread opens([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    FakeDevice::open(gate);
  });
  use(on, middle);
  opens.join();
  synchronize(other);
  settle();
  check(on, made);
  settle();
}

// The driver refuses what would show whether a kernel writes all: the bytes are as they were.
TEST_F(Recomputes, ATrialThatIsRefusedLosesNothing) {
  options.own_launches.fill = [](CuStream, CuAddress, Bytes, std::uint32_t) {
    return CuResult::kNotSupported;
  };
  press();
  Buffer made = allocate(kBytes);
  make(on, made, 500, kNotTried);
  settle();
  crowd();  // it is elsewhere
  use(on, made);
  settle();
  crowd();
  check(on, made);
  settle();
  EXPECT_EQ(given_up(), 0U);
}

// Most results are kept for a moment only, and the program is far ahead of the device: what a trial
// shows is learnt all the same, and no other result is tried meanwhile.
TEST_F(Recomputes, TriedOnceThoughItDiesFirst) {
  press();
  const Buffer from = source();
  settle();
  std::uint64_t* const gate = stop(on);
  const std::uint64_t before = times("fingerprint");
  std::uint64_t once = 0;
  for (std::uint64_t i = 0; i < 3; ++i) {
    Buffer passing = allocate(kBytes);
    make(on, passing, 600 + i, kNotTried);
    use(on, passing);
    platform->memory().free(passing.address);
    once = i == 0 ? times("fingerprint") : once;
  }
  EXPECT_GT(once, before);
  FakeDevice::open(gate);
  settle();
  Buffer made = allocate(kBytes);
  make(on, made, 700, kNotTried);
  look(on, made);
  settle();
  EXPECT_EQ(times("fingerprint"), once);
  crowd();
  EXPECT_EQ(given_up(), kBytes);
  check(on, made);
  check(on, from);
  settle();
}

// What is made again may die while the launch that makes it has yet to run. What that reads must
// not change before, on a stream that the program has ordered behind the first time only.
TEST_F(Recomputes, WhatIsReadForWhatHasDied) {
  press();
  for (const bool handed_on : {false, true}) {
    const Buffer from = source();
    const Buffer made = made_from(from);
    look(on, made);
    settle();
    const Bytes before = given_up();
    crowd();
    ASSERT_GT(given_up(), before);
    std::uint64_t* const gate = stop(on);
    use(on, made);
    platform->memory().free(made.address);
    std::thread opens([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      FakeDevice::open(gate);
    });
    const CuStream other = stream();
    Buffer changes = from;
    if (handed_on) {
      platform->memory().retire(from.address, other);
      ASSERT_TRUE(platform->memory().reuse(from.address));
      fill(other, changes, 801);
    } else {
      rewrite(other, changes, 801);
    }
    opens.join();
    synchronize(other);
    settle();
    check(other, changes);
    synchronize(other);
    settle();
    EXPECT_EQ(wrong_words(), 0U) << handed_on;
  }
}

// Two fingerprints of one that is gone already, on a stream that stands still, must not be taken
// for those of another.
TEST_F(Recomputes, NotByFingerprintsOfAnother) {
  options.marker_every = 1'000;  // nobody looks at any before all have been made
  press();
  const Buffer from = source();
  Buffer first = made_from(from);
  settle();
  std::uint64_t* const gate = stop(on);
  use(on, first);
  follow(from);
  platform->memory().free(first.address);
  const CuStream other = stream();
  Buffer second = allocate(kBytes);
  make(other, second, 9'000);
  rewrite(other, second, 9'001);
  const Buffer rest = source_on(other);
  follow(rest, other);
  FakeDevice::open(gate);
  synchronize(on);
  synchronize(other);
  settle();
  crowd();
  check(other, second);
  check(other, rest);
  synchronize(other);
  EXPECT_EQ(given_up(), 0U);
}

TEST_F(Recomputes, ACopyOutHasIt) {
  press();
  const auto [from, made] = one_given_up();
  std::uint64_t* const host = pinned(made.words);
  const CudaOperand it = operand(made, AccessMode::kRead);
  EXPECT_EQ(issue(on, {&it, 1}, "copy out", true,
                  [&] { return driver.copy_out(host, made.address, made.bytes(), on); }),
            CuResult::kSuccess);
  settle();
  std::uint64_t differ = 0;
  for (std::uint64_t i = 0; i < made.words; ++i) {
    differ += host[i] == test::pattern(made.seed, i) ? 0U : 1U;
  }
  EXPECT_EQ(differ, 0U);
}

TEST_F(Recomputes, BeforeCodeOrItsStreamGoes) {
  press();
  const auto [from, made] = one_given_up();
  platform->recompute().code_ends();
  const CuStream before = std::exchange(on, stream());
  synchronize(before);
  check(on, made);
  settle();
  crowd();
  EXPECT_EQ(given_up(), kBytes);
  check(on, made);
  settle();
}

TEST_F(Recomputes, NotWhileAllFits) {
  open(lookahead);
  on = stream();
  const Buffer from = source();
  const Buffer made = made_from(from);
  use(on, made);
  follow(from);
  settle();
  EXPECT_EQ(given_up(), 0U);
  EXPECT_EQ(times("fingerprint"), 0U);
}

TEST_F(Recomputes, NotWhatIsMadeOfMore) {
  press();
  Buffer from = allocate(3 * kBytes);
  fill(on, from, 5'000);
  const Buffer made = made_from(from);
  use(on, made);
  follow(from);
  settle();
  crowd();
  EXPECT_EQ(given_up(), 0U);
  check(on, made);
  settle();
}

// A kernel whose results nobody has room for again.
TEST_F(Recomputes, NoMoreOfWhatIsMadeAgainInVain) {
  press();
  std::uint64_t given_up_last = 0;
  int rounds = 0;
  for (bool more = true; more && rounds < 40; ++rounds) {
    const Buffer from = source();
    const Buffer made = made_from(from);
    use(on, made);
    follow(from);
    settle();
    crowd();
    more = std::exchange(given_up_last, given_up()) < given_up();
    platform->memory().free(from.address);  // before anybody has wanted what it was made of
    check(on, made);
    settle();
    platform->memory().free(made.address);
  }
  EXPECT_LT(rounds, 40);
}

// Two threads, each with its stream, use what both have given up.
TEST_F(Recomputes, ForTwoThreadsOnce) {
  press();
  for (int round = 0; round < 20; ++round) {
    const Buffer from = source();
    const Buffer made = made_from(from);
    use(on, made);
    follow(from);
    settle();
    crowd();
    const CuStream other = stream();
    std::thread second([&] {
      (void)driver.context_set_current(primary);
      look(other, made);
      synchronize(other);
    });
    look(on, made);
    second.join();
    settle();
    platform->memory().free(made.address);
    platform->memory().free(from.address);
  }
  EXPECT_GT(given_up(), 0U);
}

// Launches of both come to one stream in the order in which the platform has heard of them, and
// fingerprints with them.
TEST_F(Recomputes, TwoThreadsOnOneStream) {
  press();
  const auto run = [this](std::uint64_t seed) {
    (void)driver.context_set_current(primary);
    for (int round = 0; round < kRounds; ++round) {
      Buffer from = allocate(kBytes);
      fill(on, from, ++seed);
      Buffer made = allocate(kBytes);
      derive(on, made, from, ++seed);
      round % 3 == 0 ? rewrite(on, made, ++seed) : use(on, made);
      Buffer other = allocate(kBytes);
      fill(on, other, ++seed);
      rewrite(on, other, ++seed);
      follow(from);
      use(on, made);
      for (const Buffer& buffer : {from, made, other}) {
        platform->memory().free(buffer.address);
      }
    }
  };
  std::thread second([&] { run(1'000'000); });
  run(2'000'000);
  second.join();
  settle();
}

// The driver refuses the launch that would make it again: its bytes are nowhere.
TEST_F(Recomputes, ARefusedLaunchEndsTheRun) {
  press();
  const Buffer from = source();
  Buffer made = allocate(kBytes);
  bool refused = false;
  derive(on, made, from, 6'000, &refused);
  use(on, made);
  follow(from);
  settle();
  crowd();
  ASSERT_EQ(given_up(), kBytes);
  refused = true;
  const CudaOperand it = operand(made, AccessMode::kRead);
  EXPECT_EQ(platform->launches().before_launch(
                {.stream = on, .hash = {}, .name = "it", .operands = {&it, 1}}),
            0U);
  ASSERT_EQ(fatal.size(), 1U);
  EXPECT_THAT(fatal.front(), ::testing::HasSubstr("could not be made again"));
  fatal.clear();
  EXPECT_EQ(driver.stream_synchronize(on), CuResult::kSuccess);  // its stream wait is there
}

}  // namespace
}  // namespace spillway::cuda
