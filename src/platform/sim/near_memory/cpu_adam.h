// Adam on one core of the host (paper section 6.2, the CPU baseline of table 5): a loop that reads
// four arrays and writes three, over the host's memory. Layer: platform, simulator. Burst by burst
// over a DramChannel; throughput is what comes out.
#pragma once

#include <cstdint>

#include "platform/sim/near_memory/dram_channel.h"

namespace spillway::sim::near_memory {

// Where the loop writes what it computes.
enum class Results : std::uint8_t {
  kApart,    // into arrays of their own, as the device's kernel has addresses of inputs and outputs
             // (paper section 3.3): a plain store reads its line first, to own it
  kInPlace,  // over its inputs, whose lines it owns
};

struct HostCore {
  Results results = Results::kApart;
  // Cache lines on their way at once. Chosen: 16, what the second-level cache of this generation
  // tracks; nothing in the loop depends on what it read before, so the prefetcher fills it.
  std::uint32_t lines_in_flight = 16;
  // Of a line, besides DRAM. Chosen: 50 ns; lines take 80 to 100 ns in all on such servers.
  double uncore_ns = 50;
  // A controller gathers writes and then writes many, for each turn of the bus takes time. Chosen:
  // 32 places, half of them written at a time.
  std::uint32_t writes_queued = 32;
  std::uint32_t writes_left = 16;
  // A modified line ages in the last-level cache before it is written.
  Bytes cache_bytes = 50 * kMiB;  // data sheet, Xeon E5-2698 v4
  Bytes page_bytes = 4 * kKiB;    // what is contiguous for a program is so in memory within a page
};

struct CoreRun {
  std::uint64_t parameters = 0;
  double seconds = 0;
  DramCounts counts;

  [[nodiscard]] double parameters_per_s() const {
    return static_cast<double>(parameters) / seconds;
  }
};

// The loop over so many fp32 parameters in its steady state: each line that is read makes a line of
// long ago leave the cache. The seed places pages.
[[nodiscard]] CoreRun run_core(const DramTiming& timing, const HostCore& core,
                               std::uint64_t parameters, std::uint64_t seed);

// What a device gets that copies from this memory or to it, in the order of addresses.
[[nodiscard]] double copy_bytes_per_s(const DramTiming& timing, bool is_write);

}  // namespace spillway::sim::near_memory
