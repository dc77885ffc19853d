// What one event asks of many blocks is asked together: in the canonical order, never past
// something that was asked of the same block, and before a transfer or a launch.
#include "engine/moves/mechanism_batch.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/rng.h"
#include "engine/engine_world.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class OrdersTest : public testing::Test {
 protected:
  OrdersTest() { (void)space.allocate(8 * kBlockBytes, 0); }
  Space space;
  RecordingMechanism mechanism;
  MechanismBatch orders{space, mechanism};
};

TEST_F(OrdersTest, AreGatheredIntoSpansInTheCanonicalOrder) {
  orders.map(0, true);
  orders.zero(1);
  orders.map(2, false);
  orders.drop(3, Tier::kHost);
  orders.drop(4, Tier::kDevice);
  orders.unmap(5);
  orders.unmap(4 + 2);
  orders.map(1, true);
  EXPECT_THAT(mechanism.calls, IsEmpty());
  EXPECT_FALSE(orders.empty());
  orders.flush();
  EXPECT_THAT(mechanism.calls, ElementsAre("unmap 5", "unmap 6", "drop 4 device", "drop 3 host",
                                           "zero 1", "map 2 read-only", "map 0", "map 1"));
  EXPECT_THAT(mechanism.spans, ElementsAre(2, 1, 1, 1, 1, 2));
  EXPECT_TRUE(orders.empty());
  orders.flush();
  EXPECT_EQ(mechanism.spans.size(), 6U);
}

TEST_F(OrdersTest, OneBlocksLifeStaysInOrder) {
  orders.unmap(0);
  orders.drop(0, Tier::kDevice);
  orders.drop(0, Tier::kHost);
  orders.zero(0);
  orders.map(0, false);
  EXPECT_THAT(mechanism.calls, IsEmpty());  // all of it in one go
  orders.map(0, true);
  orders.unmap(0);
  orders.flush();
  EXPECT_THAT(mechanism.calls, ElementsAre("unmap 0", "drop 0 device", "drop 0 host", "zero 0",
                                           "map 0 read-only", "map 0", "unmap 0"));
}

TEST_F(OrdersTest, NothingIsHeldBackPastATransferOrALaunch) {
  orders.map(0, true);
  orders.now().start_transfer({.blocks = {1}});
  orders.unmap(2);
  orders.now().release_launch(7, {});
  EXPECT_THAT(mechanism.calls, ElementsAre("map 0", "fault host>device 1", "unmap 2", "ready 7"));
}

TEST_F(OrdersTest, OfEachBlockTheSameIsHeardAsWasAsked) {
  Rng rng(5);
  std::array<std::vector<std::string>, 8> asked;
  for (int i = 0; i < 20'000; ++i) {
    const auto id = static_cast<BlockId>(rng.below(8));
    switch (rng.below(6)) {
      case 0:
        orders.unmap(id);
        asked[id].push_back(fmt::format("unmap {}", id));
        break;
      case 1:
        orders.drop(id, Tier::kHost);
        asked[id].push_back(fmt::format("drop {} host", id));
        // The next drop of this tier comes after something has been put there again.
        orders.now().start_transfer({.blocks = {id}});
        asked[id].push_back(fmt::format("fault host>device {}", id));
        break;
      case 2:
        orders.zero(id);
        asked[id].push_back(fmt::format("zero {}", id));
        break;
      default:
        orders.map(id, true);
        asked[id].push_back(fmt::format("map {}", id));
    }
  }
  orders.flush();
  std::array<std::vector<std::string>, 8> heard;
  for (const std::string& call : mechanism.calls) {
    heard[static_cast<std::size_t>(
              *std::find_if(call.begin(), call.end(), [](char c) { return c >= '0' && c <= '9'; }) -
              '0')]
        .push_back(call);
  }
  EXPECT_EQ(heard, asked);
}

}  // namespace
}  // namespace spillway
