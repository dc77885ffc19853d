// A flash storage device: pages written out of place, erase blocks, greedy garbage collection,
// wear. Layer: platform (sim). It counts work and keeps no clock: the caller turns work into time.
// docs/simulator.md describes the model.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "machine/machine.h"

namespace spillway {

// The storage frame of one migrated block; numbers are the caller's choice.
using ExtentId = std::uint64_t;

// What one write made the device do. Collection reads moved_pages and writes them again.
struct FlashWork {
  std::uint64_t host_pages = 0;   // written for the caller
  std::uint64_t moved_pages = 0;  // copied by garbage collection, to make room for them
  std::uint64_t erases = 0;       // erase blocks erased
};

// Sums since the device was new.
struct FlashStats {
  std::uint64_t host_pages_written = 0;
  std::uint64_t host_pages_read = 0;
  std::uint64_t moved_pages = 0;
  std::uint64_t erases = 0;

  [[nodiscard]] std::uint64_t flash_pages_written() const {
    return host_pages_written + moved_pages;
  }
  // Flash pages written for each page that the host wrote; 1 while there is nothing to divide.
  [[nodiscard]] double write_amplification() const;
};

// How long a device lasts when `written_bytes` every `elapsed_ns` go on for ever: its endurance
// (drive writes a day * capacity * 365 * years) over that rate, in years of 365 days (G10 section
// 7.7). Empty where the endurance is unknown (0) or nothing was written.
[[nodiscard]] std::optional<double> storage_lifetime_years(const StorageTier& tier,
                                                           Bytes written_bytes, TimeNs elapsed_ns);

// Work is done for each run of pages, never for each page, and erase blocks take memory from their
// first use on. Not thread-safe. The same calls give the same results.
class Flash {
 public:
  // A new device. `tier` has passed validate_machine (load.h); capacity 0 refuses every write.
  explicit Flash(const StorageTier& tier);

  // Replaces the extent's contents by `bytes`, rounded up to flash pages. Fails with kCannotRun and
  // changes nothing when live contents would exceed the capacity.
  [[nodiscard]] Result<FlashWork> write(ExtentId extent, Bytes bytes);
  // Counts pages; contents are the caller's.
  void read(Bytes bytes) { stats_.host_pages_read += pages_for(bytes); }
  // The extent's contents are dead: collection will not copy them. Unknown extents are ignored.
  void trim(ExtentId extent);

  // Whether write(extent, bytes) would succeed.
  [[nodiscard]] bool fits(ExtentId extent, Bytes bytes) const;
  [[nodiscard]] Bytes live_bytes() const { return live_pages_ * tier_.flash_page_bytes; }
  [[nodiscard]] const FlashStats& stats() const { return stats_; }
  // From all pages that the flash took, collection's included: storage_lifetime_years.
  [[nodiscard]] std::optional<double> lifetime_years(TimeNs elapsed_ns) const;

  // Fails where the bookkeeping contradicts itself. For tests: walks every run and erase block.
  [[nodiscard]] Status check_invariants() const;

 private:
  using Index = std::uint32_t;
  static constexpr Index kNone = UINT32_MAX;

  // Pages of one extent in one erase block. In two lists: its extent's, its block's.
  struct Run {
    ExtentId extent = 0;
    std::uint32_t pages = 0;
    Index block = kNone;
    Index next_of_extent = kNone;
    Index previous_in_block = kNone;
    Index next_in_block = kNone;
  };
  struct Extent {
    std::uint64_t pages = 0;
    Index first_run = kNone;
    Index last_run = kNone;
  };
  struct EraseBlock {
    std::uint32_t valid_pages = 0;
    Index first_run = kNone;
    Index previous = kNone;  // in its bucket, once it is full
    Index next = kNone;
  };
  // Full erase blocks with the same number of valid pages, longest at that number first.
  struct Bucket {
    Index first = kNone;
    Index last = kNone;
  };

  [[nodiscard]] std::uint64_t pages_for(Bytes bytes) const;

  void open_block(FlashWork& work);
  void collect(FlashWork& work);
  void append(ExtentId id, Extent& extent, std::uint32_t pages);
  void invalidate(const Extent& extent);

  [[nodiscard]] Index new_block();
  [[nodiscard]] Index new_run();
  void put_in_block(Index run, Index block);
  void take_from_block(Index run);
  void enter_bucket(Index block);
  void leave_bucket(Index block);

  StorageTier tier_;
  std::uint32_t pages_per_block_;
  std::uint64_t capacity_pages_;   // that the host may use
  std::uint64_t physical_blocks_;  // that the device has; those never used are not in blocks_

  std::uint64_t live_pages_ = 0;
  std::unordered_map<ExtentId, Extent> extents_;
  std::vector<Run> runs_;
  Index free_run_ = kNone;  // list of unused runs, by next_of_extent
  std::vector<EraseBlock> blocks_;
  std::vector<Bucket> buckets_;  // by valid pages
  std::uint32_t lowest_ = 0;     // no bucket below it holds a block
  Index open_ = kNone;           // takes writes; kNone when the last one is full
  std::uint32_t open_pages_ = 0;
  Index reserve_ = kNone;  // erased, for collection to copy into
  FlashStats stats_;
};

}  // namespace spillway
