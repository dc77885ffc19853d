// Which tensors share memory: those of one size that never live at once, and no others.
#include "platform/sim/tensor_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "analysis/vitality.h"
#include "trace/generate.h"

namespace spillway::sim {
namespace {

using testing::ElementsAre;

constexpr Bytes kFrame = 2 * kMiB;
constexpr Bytes kRoomForAll = kGiB;

Kernel kernel(std::vector<TensorId> reads, std::vector<TensorId> writes) {
  Kernel made;
  made.name = "k";
  made.reads = std::move(reads);
  made.writes = std::move(writes);
  return made;
}

// 0 and 1 are alive together; 2 is born when 0 has died, 3 when all have. 4 stays.
Program chain() {
  Program program;
  program.tensors = {{3 * kMiB, false, false},
                     {4 * kMiB, false, false},
                     {4 * kMiB, false, false},
                     {5 * kMiB, false, false},
                     {4 * kMiB, true, false}};
  program.graphs = {
      {kernel({4}, {0}), kernel({0}, {1}), kernel({1}, {2}), kernel({2}, {4}), kernel({4}, {3})}};
  return program;
}

TEST(TensorPlaces, AreHandedOnToTheNextOfTheirSize) {
  const TensorPlaces made = handed_on_places(chain(), kFrame, kRoomForAll);
  // What stays has the first. 0 and 1 take 4 MiB each, and 2 has the place of 0; 3 takes 6.
  EXPECT_THAT(made.of, ElementsAre(ElementsAre(1, 2, 1, 3, 0)));
  EXPECT_EQ(made.peak_bytes, 12 * kMiB);
  ASSERT_EQ(made.places.size(), 4U);
  EXPECT_EQ(made.places[1].bytes, 4 * kMiB);
  EXPECT_EQ(made.places[3].bytes, 6 * kMiB);
}

TEST(TensorPlaces, AreEachTensorsOwnOtherwise) {
  Program program = chain();
  program.tensors.push_back({kMiB, true, false});  // that nobody uses
  const TensorPlaces made = places_of_their_own(program);
  EXPECT_THAT(made.of, ElementsAre(ElementsAre(0, 1, 2, 3, 4, kNoPlace)));
  ASSERT_EQ(made.places.size(), 5U);
  for (TensorId id = 0; id < 5; ++id) {
    EXPECT_EQ(made.places[id].tensor, id);
    EXPECT_EQ(made.places[id].bytes, program.tensors[id].bytes);
  }
}

TEST(TensorPlaces, KeepWhatIsPersistentInAllGraphs) {
  Program program = chain();
  program.graphs.push_back({kernel({4}, {2}), kernel({2}, {4})});
  const TensorPlaces made = handed_on_places(program, kFrame, kRoomForAll);
  EXPECT_THAT(made.of[1], ElementsAre(kNoPlace, kNoPlace, 1, kNoPlace, 0));
}

// 18 and 20 MiB, at other times, beside one that stays.
TEST(TensorPlaces, AreOneForSizesThatAreNearWhereNotAllFits) {
  Program program;
  program.tensors = {
      {18 * kMiB, false, false}, {20 * kMiB, false, false}, {20 * kMiB, true, false}};
  program.graphs = {{kernel({2}, {0}), kernel({0}, {}), kernel({2}, {1}), kernel({1}, {})}};
  const TensorPlaces apart = handed_on_places(program, kFrame, kRoomForAll);
  EXPECT_THAT(apart.of, ElementsAre(ElementsAre(1, 2, 0)));
  const TensorPlaces made = handed_on_places(program, kFrame, 30 * kMiB);
  EXPECT_THAT(made.of, ElementsAre(ElementsAre(1, 1, 0)));
  ASSERT_EQ(made.places.size(), 2U);  // none is left that nobody uses any more
  EXPECT_EQ(made.places[1].bytes, 20 * kMiB);
  EXPECT_EQ(made.peak_bytes, 40 * kMiB);
}

class TensorPlacesWithin : public ::testing::TestWithParam<Bytes> {};
INSTANTIATE_TEST_SUITE_P(Budgets, TensorPlacesWithin, ::testing::Values(8 * kMiB, kRoomForAll));

TEST_P(TensorPlacesWithin, NeverHoldTwoTensorsAtOnce) {
  const Trace trace = generate_transformer({.batch_size = 8,
                                            .sequence = 128,
                                            .width = 256,
                                            .heads = 4,
                                            .layers = 3,
                                            .feed_forward = 1024,
                                            .vocabulary = 2000});
  const Program program{.tensors = trace.tensors, .graphs = {trace.kernels}, .iterations = {}};
  const TensorPlaces made = handed_on_places(program, kFrame, GetParam());
  EXPECT_LT(made.places.size(), trace.tensors.size());
  const Vitality vitality = analyze_vitality(trace);
  std::map<PlaceId, std::vector<TensorLife>> lives;
  for (TensorId id = 0; id < trace.tensors.size(); ++id) {
    if (!vitality.lives[id]) continue;
    const PlaceId place = made.of[0][id];
    ASSERT_NE(place, kNoPlace);
    EXPECT_GE(made.places[place].bytes, trace.tensors[id].bytes);
    for (const TensorLife& other : lives[place]) {
      EXPECT_FALSE(trace.tensors[id].persistent);
      EXPECT_TRUE(vitality.lives[id]->first_use > other.last_use ||
                  vitality.lives[id]->last_use < other.first_use);
    }
    lives[place].push_back(*vitality.lives[id]);
  }
}

}  // namespace
}  // namespace spillway::sim
