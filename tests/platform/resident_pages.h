// How much of a range of this process's memory is there. Layer: tests of the platforms.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/units.h"

namespace spillway {

// Of whole pages, those that are.
inline std::size_t resident_pages(char* start, Bytes bytes) {
  std::vector<unsigned char> resident(bytes / kPageBytes);
  EXPECT_EQ(::mincore(start, bytes, resident.data()), 0);
  return static_cast<std::size_t>(
      std::ranges::count_if(resident, [](unsigned char page) { return (page & 1U) != 0; }));
}

}  // namespace spillway
