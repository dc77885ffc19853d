// A platform on a link of a given speed, on the fake driver: what moves takes its time, no word is
// wrong, nothing goes past the link, and planners know of it.
#include <gmock/gmock.h>

#include <vector>

#include "base/sanitizers.h"
#include "platform/common/process/clock.h"
#include "platform/cuda/direct_world.h"
#include "runtime/cuda/device_planner.h"

namespace spillway::cuda {
namespace {

constexpr double kBytesPerS = 200.0 * static_cast<double>(kMiB);

class SlowLink : public CudaWorld {
 protected:
  SlowLink() { options.link.bytes_per_s = kBytesPerS; }
  // Twice the budget, each rewritten in turn.
  void rewrite_all(int rounds) {
    const CuStream on = stream();
    std::vector<Buffer> buffers;
    for (int i = 0; i < 8; ++i) {
      buffers.push_back(allocate(4 * kMiB));
    }
    for (int round = 1; round <= rounds; ++round) {
      for (Buffer& buffer : buffers) {
        round == 1 ? fill(on, buffer, 1) : rewrite(on, buffer, static_cast<std::uint64_t>(round));
      }
    }
    synchronize(on);
    EXPECT_EQ(wrong_words(), 0U);
    whole();
  }
};

TEST_F(SlowLink, WhatMovesTakesItsTimeAndLittleMore) {
  open();
  const TimeNs begin_ns = now_ns();
  rewrite_all(4);
  const TimeNs took_ns = now_ns() - begin_ns;
  const Bytes in_bytes = moved(Tier::kHost, Tier::kDevice);
  const Bytes out_bytes = moved(Tier::kDevice, Tier::kHost);
  EXPECT_GT(in_bytes, 64 * kMiB);
  const auto on_link_ns = [](Bytes bytes) {
    return static_cast<TimeNs>(static_cast<double>(bytes) / kBytesPerS * 1e9);
  };
  EXPECT_GE(took_ns, on_link_ns(in_bytes));
  EXPECT_GE(took_ns, on_link_ns(out_bytes));
#if !SPILLWAY_THREAD_SANITIZER  // its own work on each word would be measured
  // One direction at most stands still while the other one carries.
  EXPECT_LT(took_ns, on_link_ns(in_bytes + out_bytes) * 3 / 2);
#endif
}

// Their memory is used over the device's own link, which nobody can hold back.
TEST_F(SlowLink, TablesAreMovedAndNotUsedWhereTheyLie) {
  options.link.bytes_per_s = 100 * kBytesPerS;
  open(lookahead);
  const CuStream on = stream();
  std::vector<Buffer> tables;
  for (std::uint64_t i = 0; i < 5; ++i) {
    tables.push_back(allocate(8 * kMiB));
    fill(on, tables.back(), i);
  }
  for (std::uint64_t step = 1; step <= 12; ++step) {
    for (Buffer& table : tables) {
      rewrite(on, table, 100 * step, "at::native::indexFuncLargeIndex<float, long>");
    }
    synchronize(on);
  }
  EXPECT_EQ(wrong_words(), 0U);
  EXPECT_EQ(platform->stats().engine.host_mapped_bytes, 0U);
  EXPECT_EQ(counters().host_handle_bytes, 0U);
}

TEST_F(SlowLink, PlannersKnowOfIt) {
  open();
  EXPECT_EQ(machine_of(*platform, options.link).link.to_device_bytes_per_s, kBytesPerS);
  EXPECT_EQ(machine_of(*platform, options.link).link.from_device_bytes_per_s, kBytesPerS);
  const Machine faster = machine_of(*platform, LinkSpeed{.bytes_per_s = 1e15});
  EXPECT_EQ(faster.link.to_device_bytes_per_s,
            machine_of(*platform, LinkSpeed{}).link.to_device_bytes_per_s);
}

class SlowLinkAndDirectStorage : public DirectStorageOnFakes {};

TEST_F(SlowLinkAndDirectStorage, NothingGoesPastTheLink) {
  options.link.bytes_per_s = 100 * kBytesPerS;
  open_direct();
  rewrite_all();
  EXPECT_GT(moved(Tier::kDevice, Tier::kStorage), 0U);
  EXPECT_EQ(count("direct_read") + count("direct_write"), 0U);
  EXPECT_EQ(platform->stats().copied_bytes,
            moved(Tier::kDevice, Tier::kStorage) + moved(Tier::kStorage, Tier::kDevice));
}

}  // namespace
}  // namespace spillway::cuda
