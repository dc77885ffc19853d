// How much of a range of this process's memory is present. Layer: tests of the CUDA platform.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/units.h"
#include "platform/common/reservation.h"

namespace spillway::cuda {

// Whole pages.
inline Bytes present_bytes(char* start, Bytes bytes) {
  std::vector<unsigned char> pages(bytes / kPageBytes);
  EXPECT_EQ(::mincore(start, bytes, pages.data()), 0);
  return kPageBytes *
         static_cast<Bytes>(std::count_if(pages.begin(), pages.end(), [](const unsigned char page) {
           return (page & 1U) != 0;
         }));
}

// Whether this system can make pages present for somebody: Linux 5.14.
inline bool makes_present() {
  constexpr int kPopulateWrite = 23;
  const Result<Reservation> trial = Reservation::make(kBlockBytes);
  return trial && (::madvise(trial->start(), kBlockBytes, kPopulateWrite) == 0 || errno != EINVAL);
}

}  // namespace spillway::cuda
