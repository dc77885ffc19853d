// Who may be admitted next: streams, windows and signals, and that the order of admission never
// goes against an order in which the program lets its launches run.
#include "engine/launches/launch_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/rng.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Slots are the numbers of issue less one.
class Order {
 public:
  [[nodiscard]] Launch launch_of(std::uint32_t slot) const {
    return {.seq = slot + std::uint64_t{1}, .stream = streams_[slot], .accesses = {}};
  }
  std::uint32_t issue(StreamId stream) {
    const auto slot = static_cast<std::uint32_t>(streams_.size());
    streams_.push_back(stream);
    order.issue(slot, launch_of(slot));
    return slot;
  }
  // Admits everything that may be.
  std::vector<std::uint32_t> admit_all() {
    std::vector<std::uint32_t> admitted;
    while (order.next() != LaunchOrder::kNoSlot) {
      admitted.push_back(order.next());
      order.admit_next(launch_of(order.next()));
    }
    return admitted;
  }
  void end(std::uint32_t slot) { order.ended(streams_[slot]); }
  [[nodiscard]] StreamId stream(std::uint32_t slot) const { return streams_[slot]; }

  LaunchOrder order;

 private:
  std::vector<StreamId> streams_;
};

TEST(LaunchOrder, TheOrderOfIssueWhereNothingWaits) {
  Order launches;
  for (const StreamId stream : {2U, 0U, kNoStream, 0U, 2U, 1U}) {
    launches.issue(stream);
  }
  EXPECT_THAT(launches.admit_all(), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(LaunchOrder, AWindowHoldsAStreamAndNobodyElse) {
  Order launches;
  launches.order.set_window(2);
  for (const StreamId stream : {0U, 0U, 0U, 0U, 1U, kNoStream, kNoStream, kNoStream}) {
    launches.issue(stream);
  }
  EXPECT_THAT(launches.admit_all(), ElementsAre(0, 1, 4, 5, 6, 7));
  launches.end(0);
  EXPECT_THAT(launches.admit_all(), ElementsAre(2));
  launches.order.set_window(1);
  launches.end(1);
  EXPECT_THAT(launches.admit_all(), IsEmpty());
  launches.order.set_window(3);
  EXPECT_THAT(launches.admit_all(), ElementsAre(3));
  launches.order.set_window(0);  // at least one
  launches.end(2);
  launches.end(3);
  launches.issue(0);
  EXPECT_THAT(launches.admit_all(), ElementsAre(8));
}

TEST(LaunchOrder, ASignalIsGivenWhenWhatCameBeforeHasBeenAdmitted) {
  Order launches;
  launches.order.set_window(1);
  launches.issue(0);
  launches.issue(0);
  const SignalId signal = launches.order.create_signal();
  launches.order.record(signal, 0);
  launches.issue(0);
  launches.order.wait(signal, 1);
  launches.issue(1);
  EXPECT_TRUE(launches.order.waits_for_signals());
  EXPECT_THAT(launches.admit_all(), ElementsAre(0));
  launches.end(0);
  EXPECT_THAT(launches.admit_all(), ElementsAre(1, 3));  // the second was before the recording
  EXPECT_FALSE(launches.order.waits_for_signals());
  launches.end(1);
  EXPECT_THAT(launches.admit_all(), ElementsAre(2));
}

TEST(LaunchOrder, AWaitMayComeBeforeTheRecordingOrLongAfterIt) {
  Order launches;
  const SignalId early = launches.order.create_signal();
  const SignalId late = launches.order.create_signal();
  launches.order.wait(early, 0);
  launches.issue(0);
  launches.issue(1);
  EXPECT_THAT(launches.admit_all(), ElementsAre(1));
  launches.order.record(early, 1);
  launches.order.record(late, 1);
  EXPECT_THAT(launches.admit_all(), ElementsAre(0));
  launches.order.wait(late, 2);  // given already: no wait
  launches.order.wait(late, 3);
  launches.issue(2);
  launches.issue(3);
  EXPECT_THAT(launches.admit_all(), ElementsAre(2, 3));
}

TEST(LaunchOrder, ASignalThatNobodyRecordsHoldsItsWaitersUntilItIsGiven) {
  Order launches;
  const SignalId signal = launches.order.create_signal();
  launches.order.wait(signal, 0);
  launches.order.wait(signal, 1);
  launches.order.wait(signal, 1);
  launches.issue(0);
  launches.issue(1);
  launches.issue(2);
  EXPECT_THAT(launches.admit_all(), ElementsAre(2));
  EXPECT_TRUE(launches.order.waits_for_signals());
  launches.order.give(signal);
  EXPECT_THAT(launches.admit_all(), ElementsAre(0, 1));
  launches.order.give(signal);       // twice is once
  launches.order.record(signal, 2);  // ... also by its recording
  launches.issue(2);
  EXPECT_THAT(launches.admit_all(), ElementsAre(3));
}

// Every stream waits for the one before it; all stand until the first signal is given.
TEST(LaunchOrder, AChainOverManyStreamsIsReleasedAtOnce) {
  constexpr StreamId kStreams = 2000;
  Order launches;
  std::vector<SignalId> signals(kStreams + 1);
  for (SignalId& signal : signals) {
    signal = launches.order.create_signal();
  }
  for (StreamId stream = 0; stream < kStreams; ++stream) {
    launches.order.wait(signals[stream], stream);
    launches.order.record(signals[stream + 1], stream);
    launches.issue(stream);
  }
  EXPECT_THAT(launches.admit_all(), IsEmpty());
  launches.order.give(signals[0]);
  EXPECT_EQ(launches.admit_all().size(), kStreams);
  EXPECT_FALSE(launches.order.waits_for_signals());
}

// Two streams that hand over to each other half a million times, without a launch in between: what
// follows from one event needs no more stack than there are streams.
TEST(LaunchOrder, AHandOverMayBeOfAnyLength) {
  constexpr int kTimes = 250'000;
  Order launches;
  const SignalId first = launches.order.create_signal();
  SignalId last = first;
  for (int i = 0; i < kTimes; ++i) {
    for (const StreamId stream : {0U, 1U}) {
      const SignalId next = launches.order.create_signal();
      launches.order.wait(last, stream);
      launches.order.record(next, stream);
      last = next;
    }
  }
  launches.order.wait(last, 2);
  launches.issue(2);
  EXPECT_THAT(launches.admit_all(), IsEmpty());
  launches.order.give(first);
  EXPECT_THAT(launches.admit_all(), ElementsAre(0));
}

// What a random program lets run: a launch after its predecessor on its stream, and after what was
// before the recording of every signal that its stream has waited for. Some waits come before their
// recording: of signals of a stream that itself waits for nobody, so that there is no circle.
struct Program {
  struct Behind {
    std::vector<std::uint32_t> launches;
    std::vector<std::size_t> promises;  // signals that were waited for before they were recorded
  };

  explicit Program(std::uint64_t seed) : rng(seed), streams(1 + rng.below(6)), last(streams + 1) {}

  void step(Order& launches) {
    const auto stream = static_cast<StreamId>(rng.below(streams + 1));
    const bool waits_for_nobody = stream == streams;
    const double what = rng.uniform();
    if (what < 0.5) {
      const std::uint32_t slot = launches.issue(stream);
      before.push_back(last[stream]);
      last[stream] = {.launches = {slot}, .promises = {}};
    } else if (what < 0.7) {
      record(launches, stream);
    } else if (what < 0.8 && !waits_for_nobody) {
      promises.push_back({.signal = launches.order.create_signal(), .behind = {}});
      launches.order.wait(promises.back().signal, stream);
      last[stream].promises.push_back(promises.size() - 1);
    } else if (!waits_for_nobody && !recorded.empty()) {
      const auto& [signal, behind] = recorded[rng.below(recorded.size())];
      launches.order.wait(signal, stream);
      Behind& own = last[stream];
      own.launches.insert(own.launches.end(), behind.launches.begin(), behind.launches.end());
      own.promises.insert(own.promises.end(), behind.promises.begin(), behind.promises.end());
    }
  }
  // A new signal, or the next one that was promised.
  void record(Order& launches, StreamId stream) {
    if (stream == streams && kept < promises.size()) {
      launches.order.record(promises[kept].signal, stream);
      promises[kept].behind = last[stream].launches;
      promises[kept++].recorded = true;
      return;
    }
    const SignalId signal = launches.order.create_signal();
    launches.order.record(signal, stream);
    recorded.emplace_back(signal, last[stream]);
  }
  void keep_promises(Order& launches) {
    while (kept < promises.size()) {
      record(launches, static_cast<StreamId>(streams));
    }
  }

  [[nodiscard]] bool may_run(std::uint32_t slot, const std::vector<bool>& admitted) const {
    const auto all = [&](const std::vector<std::uint32_t>& earlier) {
      return std::all_of(earlier.begin(), earlier.end(),
                         [&](std::uint32_t one) { return admitted[one]; });
    };
    return all(before[slot].launches) &&
           std::all_of(before[slot].promises.begin(), before[slot].promises.end(),
                       [&](std::size_t promise) {
                         return promises[promise].recorded && all(promises[promise].behind);
                       });
  }

  struct Promise {
    SignalId signal = 0;
    std::vector<std::uint32_t> behind;
    bool recorded = false;
  };
  Rng rng;
  std::size_t streams;
  std::vector<Behind> last;    // by stream: what the next one comes after
  std::vector<Behind> before;  // by launch
  std::vector<std::pair<SignalId, Behind>> recorded;
  std::vector<Promise> promises;
  std::size_t kept = 0;
};

TEST(LaunchOrder, AdmissionIsALinearExtensionOfEveryDependency) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Program program(seed);
    Order launches;
    launches.order.set_window(static_cast<std::uint32_t>(1 + program.rng.below(4)));
    std::vector<bool> admitted;
    std::vector<std::uint32_t> running;
    const auto admit = [&](std::size_t at_most) {
      for (std::size_t i = 0; i < at_most; ++i) {
        const std::uint32_t slot = launches.order.next();
        if (slot == LaunchOrder::kNoSlot) {
          return;
        }
        ASSERT_FALSE(admitted[slot]);
        ASSERT_TRUE(program.may_run(slot, admitted)) << "seed " << seed << ", launch " << slot;
        admitted[slot] = true;
        running.push_back(slot);
        launches.order.admit_next(launches.launch_of(slot));
      }
    };
    for (int step = 0; step < 600; ++step) {
      program.step(launches);
      admitted.resize(program.before.size());
      if (program.rng.chance(0.5)) {
        admit(program.rng.below(3));
      }
      if (!running.empty() && program.rng.chance(0.3)) {
        const auto at = program.rng.below(running.size());
        launches.end(running[at]);
        running[at] = running.back();
        running.pop_back();
      }
    }
    program.keep_promises(launches);
    for (admit(1000); !running.empty(); admit(1000)) {
      launches.end(running.back());
      running.pop_back();
    }
    EXPECT_THAT(admitted, testing::Each(true)) << "seed " << seed;
    EXPECT_FALSE(launches.order.waits_for_signals());
  }
}

}  // namespace
}  // namespace spillway
