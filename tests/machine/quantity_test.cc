// Times and bandwidths: what is read, what is refused, and that exact text reads back exactly.
#include "machine/quantity.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace spillway {
namespace {

TEST(ParseTime, ReadsUnits) {
  EXPECT_EQ(*parse_time("45us"), 45'000);
  EXPECT_EQ(*parse_time(" 1.5 ms "), 1'500'000);
  EXPECT_EQ(*parse_time("2s"), 2'000'000'000);
  EXPECT_EQ(*parse_time("7ns"), 7);
  EXPECT_EQ(*parse_time("0"), 0);
  EXPECT_EQ(*parse_time("0us"), 0);
}

TEST(ParseTime, RefusesTheRest) {
  for (const char* text :
       {"", "us", "45", "-1us", "45 minutes", "nan", "inf s", "1e30s", "4 5us"}) {
    EXPECT_FALSE(parse_time(text).has_value()) << text;
  }
}

TEST(ParseBandwidth, ReadsUnits) {
  EXPECT_EQ(*parse_bandwidth("15.754 GB/s"), 15.754e9);
  EXPECT_EQ(*parse_bandwidth("15.754GB"), 15.754e9);
  EXPECT_EQ(*parse_bandwidth("1 GiB/s"), 1073741824.0);
  EXPECT_EQ(*parse_bandwidth("3000000000"), 3e9);
}

TEST(ParseBandwidth, RefusesTheRest) {
  for (const char* text : {"", "/s", "fast", "-1 GB/s", "3 GB/h", "3 Gbit/s", "1e30 GB/s"}) {
    EXPECT_FALSE(parse_bandwidth(text).has_value()) << text;
  }
}

TEST(ExactText, IsShort) {
  EXPECT_EQ(exact_bytes(40 * kGiB), "40GiB");
  EXPECT_EQ(exact_bytes(3'200'000'000'000), "3200GB");
  EXPECT_EQ(exact_bytes(4097), "4097B");
  EXPECT_EQ(exact_bandwidth(15.754e9), "15.754 GB/s");
  EXPECT_EQ(exact_bandwidth(2e6), "2 MB/s");
  EXPECT_EQ(exact_time(45'000), "45us");
  EXPECT_EQ(exact_time(0), "0");
}

TEST(ExactText, ReadsBackExactly) {
  Rng rng(3);
  for (int round = 0; round < 20000; ++round) {
    const std::uint64_t value = rng.next() >> (11 + rng.below(53));
    ASSERT_EQ(*parse_bytes(exact_bytes(value)), value);
    ASSERT_EQ(*parse_bandwidth(exact_bandwidth(static_cast<double>(value))),
              static_cast<double>(value));
    const TimeNs time_ns = static_cast<TimeNs>(value % 86'400'000'000'000);
    ASSERT_EQ(*parse_time(exact_time(time_ns)), time_ns);
  }
}

}  // namespace
}  // namespace spillway
