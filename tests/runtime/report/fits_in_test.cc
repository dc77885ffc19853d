// How much memory would have been enough, in numbers that a person may type again.
#include "runtime/report/fits_in.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(FitsIn, LeavesASixteenthFreeAndNotMuchMore) {
  for (Bytes peak_bytes = 0; peak_bytes < 200 * kGiB; peak_bytes += peak_bytes / 3 + 3 * kMiB) {
    const Bytes bytes = fits_in_bytes(peak_bytes);
    EXPECT_LE(peak_bytes, bytes - bytes / 16) << peak_bytes;
    EXPECT_GE(bytes, peak_bytes + 16 * kMiB);
    EXPECT_LE(bytes, peak_bytes + peak_bytes / 8 + 18 * kMiB) << peak_bytes;
    EXPECT_EQ(bytes % kBlockBytes, 0U);
  }
}

TEST(FitsIn, IsSaidWithoutRounding) {
  EXPECT_EQ(exact_size(46 * kMiB), "46 MiB");
  EXPECT_EQ(exact_size(1120 * kMiB), "1120 MiB");
  EXPECT_EQ(exact_size(27 * kGiB / 2), "13.5 GiB");
  EXPECT_EQ(exact_size(26 * kGiB), "26 GiB");
  for (Bytes peak_bytes = kMiB; peak_bytes < 300 * kGiB; peak_bytes += peak_bytes / 2 + kMiB) {
    const Bytes bytes = fits_in_bytes(peak_bytes);
    EXPECT_EQ(parse_bytes(exact_size(bytes)).value_or(0), bytes);
  }
}

}  // namespace
}  // namespace spillway
