// Addresses that are there before any memory is.
#include "platform/common/process/reservation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "platform/resident_pages.h"

namespace spillway {
namespace {

bool is_mapped(char* start) {
  unsigned char resident = 0;
  return ::mincore(start, kPageBytes, &resident) == 0 || errno != ENOMEM;
}

TEST(Reservation, IsAlignedAndTakesNoMemoryUntilItIsTouched) {
  const Result<Reservation> made = Reservation::make(64 * kGiB);
  ASSERT_TRUE(made) << made.error().message;
  char* const start = made->start();
  EXPECT_EQ(made->bytes(), 64 * kGiB);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(start) % kBlockBytes, 0U);  // NOLINT
  ::madvise(start, kBlockBytes, MADV_NOHUGEPAGE);
  EXPECT_EQ(resident_pages(start, kBlockBytes), 0U);
  EXPECT_EQ(start[64 * kGiB - 1], 0);
  start[0] = 1;
  EXPECT_EQ(resident_pages(start, kBlockBytes), 1U);
}

TEST(Reservation, EndsOnceWithWhoeverHasIt) {
  char* start = nullptr;
  {
    Result<Reservation> made = Reservation::make(4 * kMiB);
    ASSERT_TRUE(made);
    start = made->start();
    {
      const Reservation moved(std::move(*made));
      EXPECT_EQ(moved.start(), start);
      EXPECT_EQ(moved.bytes(), 4 * kMiB);
      EXPECT_TRUE(is_mapped(start));
    }
    EXPECT_FALSE(is_mapped(start));
  }
}

TEST(Reservation, SaysHowManyAddressesThereAre) {
  const Result<Reservation> made = Reservation::make(Bytes{1} << 60U);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kInvalidInput);
  EXPECT_THAT(made.error().message,
              testing::MatchesRegex(".* PiB of addresses are needed in one piece, and [0-9.]+ TiB "
                                    "can be had: ask for less"));
}

}  // namespace
}  // namespace spillway
