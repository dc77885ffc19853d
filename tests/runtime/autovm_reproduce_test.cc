// AutoVM's experiments: what of its table 6.2 holds, which numbers do not, and section 4.2.4 by
// hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/reproduce/autovm/autovm.h"

namespace spillway::reproduce {
namespace {

const AutoVmSetup& setup() {
  static const AutoVmSetup kSetup = autovm_setup().value();
  return kSetup;
}

// 2,048 blocks of 2 MiB, 488 us for each that is new, half of that ahead; two buffers' bytes at 616
// GB/s are 14 ms.
TEST(AutoVmFirstTouch, IsWhatChapter4Measured) {
  const auto ms = [](FirstTouch how, Bytes bytes) {
    return to_seconds(first_touch_ns(setup(), how, bytes).value()) * 1e3;
  };
  // Everything fits: 1,024 * 0.488 and 1,024 * 0.244, and 7 for the kernel.
  EXPECT_NEAR(ms(FirstTouch::kFault, 2 * kGiB), 507, 3);
  EXPECT_NEAR(ms(FirstTouch::kPreAccess, 2 * kGiB), 257, 3);
  // 4 GiB out at 12 GB/s take 358 ms, then 500 and 14. Measured: 844.
  EXPECT_NEAR(ms(FirstTouch::kOffloadAndPreAccess, 4 * kGiB), 872, 5);
  // Measured: 1,469.
  EXPECT_NEAR(ms(FirstTouch::kFault, 4 * kGiB) / 1469, 1, 0.2);
}

// What section 6.3 says that batches need, to an eighth.
TEST(AutoVmNetworks, NeedWhatTheThesisSays) {
  EXPECT_NEAR(static_cast<double>(batch_that_needs(setup(), ImageNetwork::kVgg19, 2.04)), 256, 26);
  EXPECT_NEAR(static_cast<double>(batch_that_needs(setup(), ImageNetwork::kVgg19, 0.68)), 64, 8);
  EXPECT_NEAR(static_cast<double>(batch_that_needs(setup(), ImageNetwork::kResNet152, 1.15)), 112,
              12);
  EXPECT_NEAR(static_cast<double>(batch_that_needs(setup(), ImageNetwork::kAlexNet, 1.04)), 2048,
              256);
}

TEST(AutoVmNetworks, ComputeAsLongAsTheThesisSays) {
  const auto seconds = [](ImageNetwork network, std::uint64_t batch) {
    TimeNs sum_ns = 0;
    for (const Kernel& kernel : autovm_trace(setup(), network, batch).kernels) {
      sum_ns += kernel.duration_ns;
    }
    return to_seconds(sum_ns);
  };
  EXPECT_NEAR(seconds(ImageNetwork::kVgg19, 128), 1.031, 0.001);
  EXPECT_NEAR(seconds(ImageNetwork::kAlexNet, 2048), 0.826 * 2.417, 0.001);
}

// The goal is 20 percent points for all 17. Those that miss it are in docs/results.md, with the
// reasons; a number that changes sides has to change it there too.
TEST(AutoVmTable62, WhatHoldsAndWhatDoesNot) {
  const NearTable table = autovm_table62(setup(), [] {}).value();
  ASSERT_EQ(table.rows.size(), 17U);
  std::vector<std::string> within;
  for (const NearRow& row : table.rows) {
    ASSERT_TRUE(row.published && row.limit);
    EXPECT_EQ(row.limit->distance, 20);
    if (row.verdict() == Verdict::kWithin) within.push_back(row.subject);
    if (row.subject.ends_with("need 0.5")) {
      EXPECT_EQ(row.ours, 0) << "everything fits";
    } else if (!row.subject.ends_with("need 1")) {
      EXPECT_GT(row.ours, 15) << row.subject;
      EXPECT_LT(row.ours, 110) << row.subject;
    }
  }
  EXPECT_THAT(within,
              ::testing::ElementsAre("AlexNet, need 0.5", "AlexNet, need 1.5", "VGG-19, need 0.5",
                                     "VGG-19, need 1.5", "VGG-19, need 2", "ResNet-152, need 0.5",
                                     "ResNet-152, need 1.5"));
}

TEST(AutoVmFigures, HaveALineForEachWayToTrain) {
  AutoVmStudy study;
  study.points = {{ImageNetwork::kVgg19,
                   0.5,
                   {.batch_size = 32,
                    .compute_ns = kNsPerS,
                    .paging_ns = kNsPerS,
                    .autovm_ns = kNsPerS,
                    .fits = true}},
                  {ImageNetwork::kVgg19,
                   1.5,
                   {.batch_size = 96,
                    .compute_ns = kNsPerS,
                    .paging_ns = 3 * kNsPerS,
                    .autovm_ns = 2 * kNsPerS,
                    .fits = false}}};
  study.thresholds = {{kMiB, kNsPerS}};
  EXPECT_DOUBLE_EQ(study.points[1].times.speedup_percent(), 50);
  const plot::Figure figure = autovm_figure(study, ImageNetwork::kVgg19);
  ASSERT_EQ(figure.panels.size(), 2U);
  const auto& times = std::get<plot::XyChart>(figure.panels[0]);
  ASSERT_EQ(times.series.size(), 3U);
  EXPECT_THAT(times.series[0].y, ::testing::ElementsAre(1));  // where it fits
  EXPECT_THAT(times.series[1].y, ::testing::ElementsAre(1, 3));
  EXPECT_THAT(times.series[2].x, ::testing::ElementsAre(32, 96));
  const auto& speedups = std::get<plot::XyChart>(figure.panels[1]);
  EXPECT_THAT(speedups.series[0].y, ::testing::ElementsAre(1, 1.5));
  EXPECT_TRUE(std::get<plot::XyChart>(autovm_figure(study, ImageNetwork::kAlexNet).panels[0])
                  .series[1]
                  .x.empty());
  EXPECT_EQ(autovm_threshold_figure(study).panels.size(), 1U);
}

}  // namespace
}  // namespace spillway::reproduce
