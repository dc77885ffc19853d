// Which updates run at the host: an imagined machine says how long an iteration takes with each
// share, and the share that makes it shortest is found.
#include "policy/updates/update_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace spillway {
namespace {

constexpr Bytes kBytes = 16 * kMiB;

class Training {
 public:
  // `takes_ms(eighths)`: an iteration with so many eighths of the updates at the host.
  Training(std::size_t updates, std::function<double(unsigned)> takes_ms)
      : updates_(updates), takes_ms_(std::move(takes_ms)) {}

  // Updates are issued in the order of the layers, and read by the next forward pass in that order.
  void iterate(int times = 1) {
    for (int i = 0; i < times; ++i) {
      at_host_.assign(updates_, false);
      for (std::size_t layer = 0; layer < updates_; ++layer) {
        const Access parameter = written(layer);
        at_host_[layer] = share_.at_host(parameter, kBytes, now_ns_, layer % 2 == 0);
      }
      const auto at_host = static_cast<std::size_t>(at_host_count());
      now_ns_ += static_cast<TimeNs>(
          1e6 * takes_ms_(static_cast<unsigned>((at_host * UpdateShare::kParts + updates_ / 2) /
                                                updates_)));
      for (std::size_t layer = 0; layer < updates_; ++layer) {
        Access access = written(layer);
        share_.used({&access, 1});  // what updates it on the device
        access.mode = AccessMode::kRead;
        share_.used({&access, 1});
      }
    }
  }

  void takes(std::function<double(unsigned)> takes_ms) { takes_ms_ = std::move(takes_ms); }
  [[nodiscard]] std::ptrdiff_t at_host_count() const {
    return std::count(at_host_.begin(), at_host_.end(), true);
  }
  [[nodiscard]] bool at_host(std::size_t layer) const { return at_host_[layer]; }
  [[nodiscard]] std::optional<unsigned> share() const { return share_.share(); }
  void add_an_update() { ++updates_; }

 private:
  // Two tensors in each allocation, and in its one block.
  static Access written(std::size_t layer) {
    const Bytes from = layer % 2 * kBytes;
    return {.allocation = static_cast<AllocationId>(layer / 2),
            .first_block = static_cast<BlockId>(layer / 2),
            .block_count = 1,
            .mode = AccessMode::kReadWrite,
            .from_bytes = from,
            .to_bytes = from + kBytes};
  }

  std::size_t updates_;
  std::function<double(unsigned)> takes_ms_;
  std::vector<bool> at_host_;
  UpdateShare share_;
  TimeNs now_ns_ = 0;
};

std::function<double(unsigned)> shortest_with(unsigned eighths) {
  return [=](unsigned share) {
    return 300.0 + 20.0 * std::abs(static_cast<int>(share) - static_cast<int>(eighths));
  };
}

TEST(UpdateShare, RatesDecideUntilTheOrderIsKnown) {
  Training training(16, shortest_with(3));
  training.iterate(2);
  EXPECT_FALSE(training.share());
  EXPECT_EQ(training.at_host_count(), 8);
  training.iterate(2);
  EXPECT_EQ(training.share(), 4U);  // as by rates: 8 of 16
}

TEST(UpdateShare, FindsTheShareWithTheShortestIteration) {
  for (const unsigned eighths : {0U, 1U, 3U, 6U, 8U}) {
    Training training(16, shortest_with(eighths));
    training.iterate(3 + 5 * 7);
    EXPECT_EQ(training.share(), eighths);
    training.iterate(60);
    EXPECT_EQ(training.share(), eighths);
  }
}

// As on a GPU: what was begun with the share before ends late, some iterations are slower than
// others, and a few are much slower.
TEST(UpdateShare, FindsAGoodShareAmongTimesThatVary) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> varies(1.0, 0.02);
    const unsigned best = seed % 9;
    const auto takes = shortest_with(best);
    unsigned before = 99;
    int since = 0;
    Training training(16, [&](unsigned share) {
      since = share == before ? since + 1 : 0;
      before = share;
      const double late = since == 0 ? 0.65 : since == 1 ? 1.3 : 1.0;
      const double hiccup = random() % 20 == 0 ? 1.5 : 1.0;
      return takes(share) * late * hiccup * varies(random);
    });
    training.iterate(60);
    ASSERT_TRUE(training.share());
    EXPECT_LE(takes(*training.share()), 1.07 * takes(best)) << "seed " << seed;
  }
}

TEST(UpdateShare, TheLastLayersAreAtTheHost) {
  Training training(16, shortest_with(2));
  training.iterate(60);
  ASSERT_EQ(training.at_host_count(), 4);
  for (std::size_t layer = 0; layer < 16; ++layer) {
    EXPECT_EQ(training.at_host(layer), layer >= 12) << layer;
  }
}

TEST(UpdateShare, FollowsAMachineThatChanges) {
  Training training(16, shortest_with(3));
  training.iterate(60);
  training.takes(shortest_with(4));
  training.iterate(130);
  EXPECT_EQ(training.share(), 4U);
}

// An iteration in which an update is new, the first after an evaluation, say, tells nothing.
TEST(UpdateShare, AnIterationWithANewUpdateDoesNotCount) {
  Training training(16, shortest_with(4));
  training.iterate(50);
  ASSERT_EQ(training.share(), 4U);
  training.add_an_update();
  training.takes([](unsigned) { return 5'000.0; });
  training.iterate();
  training.takes(shortest_with(4));
  training.iterate(120);
  EXPECT_EQ(training.share(), 4U);
}

TEST(UpdateShare, RatesDecideWhereUpdatesAreFew) {
  Training training(7, shortest_with(0));
  training.iterate(40);
  EXPECT_FALSE(training.share());
  EXPECT_EQ(training.at_host_count(), 4);
}

}  // namespace
}  // namespace spillway
