// What timelines say of the CUDA platform's transfers, on the fake driver: all of those that
// arrived and no other, each from when nothing stood before it.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "platform/common/event_log.h"
#include "platform/cuda/cuda_world.h"

namespace spillway::cuda {
namespace {

class TransferLog : public CudaWorld {
 protected:
  // Eight buffers of twice the device memory, each rewritten three times.
  void rewrite_all() {
    platform->log_events(&log);
    const CuStream on = stream();
    std::vector<Buffer> buffers;
    for (int i = 0; i < 8; ++i) {
      buffers.push_back(allocate(8 * kMiB));
    }
    for (std::uint64_t step = 1; step <= 4; ++step) {
      for (Buffer& buffer : buffers) {
        step == 1 ? fill(on, buffer, step) : rewrite(on, buffer, step);
      }
    }
    synchronize(on);
    platform->wait_until_idle();
    platform->log_events(nullptr);
    EXPECT_EQ(wrong_words(), 0U);
  }
  [[nodiscard]] std::vector<LoggedTransfer> logged() const { return log.events().transfers; }

  void expect_what_arrived() const {
    std::map<std::pair<Tier, Tier>, Bytes> bytes;
    for (const LoggedTransfer& it : logged()) {
      bytes[{it.from, it.to}] += it.bytes;
      EXPECT_GT(it.asked_ns, 0);
      EXPECT_LE(it.asked_ns, it.begin_ns);
      EXPECT_LE(it.begin_ns, it.end_ns);
    }
    for (const Tier from : {Tier::kDevice, Tier::kHost, Tier::kStorage}) {
      for (const Tier to : {Tier::kDevice, Tier::kHost, Tier::kStorage}) {
        EXPECT_EQ((bytes[{from, to}]), moved(from, to));
      }
    }
  }
  // Of what one lane of copies carries, which no disk holds up.
  void expect_one_after_another(Tier from, Tier to) const {
    std::vector<LoggedTransfer> all = logged();
    std::erase_if(all, [&](const LoggedTransfer& it) { return it.from != from || it.to != to; });
    std::sort(all.begin(), all.end(),
              [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
    EXPECT_GT(all.size(), 8U);
    for (std::size_t i = 1; i < all.size(); ++i) {
      EXPECT_LE(all[i - 1].end_ns, all[i].begin_ns);
    }
    EXPECT_TRUE(std::any_of(all.begin(), all.end(),
                            [](const auto& it) { return it.begin_ns > it.asked_ns; }));
  }

  EventLog log;
};

TEST_F(TransferLog, CopiesComeOneAfterAnother) {
  options.device_bytes = 32 * kMiB;
  config.copy_ns = 300'000;
  open(base_uvm);
  rewrite_all();
  expect_what_arrived();
  expect_one_after_another(Tier::kHost, Tier::kDevice);
  expect_one_after_another(Tier::kDevice, Tier::kHost);
}

TEST_F(TransferLog, TransfersWithTheSwapFileAreThere) {
  options.device_bytes = 32 * kMiB;
  options.host_bytes = 8 * kMiB;
  open(base_uvm, 128 * kMiB);
  rewrite_all();
  EXPECT_GT(moved(Tier::kDevice, Tier::kStorage), 0U);
  EXPECT_GT(moved(Tier::kStorage, Tier::kDevice), 0U);
  expect_what_arrived();
}

TEST_F(TransferLog, WhatFailedIsNotThere) {
  options.device_bytes = 32 * kMiB;
  config.copy_refused = 0.2;
  open(base_uvm);
  rewrite_all();
  EXPECT_GT(platform->stats().engine.failed_transfers, 0U);
  expect_what_arrived();
}

}  // namespace
}  // namespace spillway::cuda
