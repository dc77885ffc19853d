// Copies below that are kept where the platform cannot stop the first write: the launches' access
// modes say what is written.
#include "engine/engine_world.h"

namespace spillway {
namespace {

using testing::Contains;
using testing::Not;

EngineOptions keeping(CleanCopies clean_copies, std::uint64_t host, std::uint64_t storage) {
  EngineOptions options = one_at_a_time(1, host, storage);
  options.clean_copies = clean_copies;
  return options;
}

TEST(CleanCopies, ABlockThatIsReadLeavesWithoutATransfer) {
  World world(keeping(CleanCopies::kAll, 4, 0));
  const auto [a, b] = world.written_blocks<2>();  // a is below
  world.run({world.read(a)});
  EXPECT_TRUE(world.block(a).spare.has(Tier::kHost));
  world.run({world.read(a)});
  world.forget();
  world.run({world.read(b)});
  EXPECT_THAT(world.calls(), Not(Contains(testing::StartsWith("evict"))));
  EXPECT_TRUE(world.block(a).copies.has(Tier::kHost));
  EXPECT_FALSE(world.block(a).spare.has(Tier::kHost));
}

class Written : public testing::TestWithParam<AccessMode> {};

TEST_P(Written, ABlockThatMayHaveBeenWrittenIsCopied) {
  World world(keeping(CleanCopies::kAll, 4, 0));
  const auto [a, b] = world.written_blocks<2>();
  world.run({world.read(a)});
  world.begin({world.use(a, GetParam())});
  EXPECT_TRUE(world.block(a).copies.has(Tier::kHost));  // it may not have run yet
  world.end(4);
  EXPECT_FALSE(world.block(a).frames.has(Tier::kHost));
  world.forget();
  world.run({world.read(b)});
  EXPECT_THAT(world.calls(), Contains("evict device>host 0"));
}

INSTANTIATE_TEST_SUITE_P(As, Written,
                         testing::Values(AccessMode::kWrite, AccessMode::kReadWrite,
                                         AccessMode::kOverwrite));

TEST(CleanCopies, OneOfTwoLaunchesThatWritesIsEnough) {
  EngineOptions options = keeping(CleanCopies::kAll, 4, 0);
  World world(options);
  const auto [a, b] = world.written_blocks<2>();
  world.begin({world.read(a)}, 0);
  world.finish_all();
  world.begin({world.write(a)}, 1);
  world.end(4);
  EXPECT_FALSE(world.block(a).frames.has(Tier::kHost));
  world.end(3);
  world.forget();
  world.run({world.read(b)});
  EXPECT_THAT(world.calls(), Contains("evict device>host 0"));
}

TEST(CleanCopies, OnlyThoseInStorageWhereThatIsTheOption) {
  World world(keeping(CleanCopies::kStorage, 1, 4));
  const auto [a, b, c] = world.written_blocks<3>();  // a in host memory, b in storage
  world.run({world.read(a)});                        // c goes to storage
  EXPECT_FALSE(world.block(a).frames.has(Tier::kHost));
  world.run({world.read(b)});
  EXPECT_TRUE(world.block(b).spare.has(Tier::kStorage));
  world.forget();
  world.run({world.read(c)});
  EXPECT_THAT(world.calls(), Not(Contains(testing::StartsWith("evict"))));
}

TEST(CleanCopies, NoneWhereThatIsTheOption) {
  World world(keeping(CleanCopies::kNone, 4, 4));
  const auto [a, b] = world.written_blocks<2>();
  world.run({world.read(a)});
  EXPECT_FALSE(world.block(a).frames.has(Tier::kHost));
}

// The room of a spare copy is free: a block that must go down takes it.
TEST(CleanCopies, GoWhenTheirRoomIsNeeded) {
  EngineOptions options = keeping(CleanCopies::kAll, 1, 0);
  options.device_capacity_bytes = 2 * kBlockBytes;
  World world(options);
  const auto [a, b, c] = world.written_blocks<3>();
  world.free(b);
  world.run({world.read(a)});
  EXPECT_TRUE(world.block(a).spare.has(Tier::kHost));
  const AllocationId d = world.allocate(1);
  world.run({world.write(d)});  // the oldest, c, is dirty
  EXPECT_FALSE(world.block(a).frames.has(Tier::kHost));
  EXPECT_TRUE(world.block(c).copies.has(Tier::kHost));
  EXPECT_EQ(world.block(a).contents, Contents::kLive);
}

}  // namespace
}  // namespace spillway
