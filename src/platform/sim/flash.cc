// The flash device: where pages go, and which erase block is collected. Layer: platform (sim).
//
// There is always room to collect. One block is kept erased and one more than the capacity needs
// exists, so when a write finds no other block, the full ones hold fewer valid pages than pages,
// and the emptiest of them fits into the erased block with at least a page to spare.
#include "platform/sim/flash.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

namespace spillway {

double FlashStats::write_amplification() const {
  return host_pages_written == 0
             ? 1.0
             : static_cast<double>(flash_pages_written()) / static_cast<double>(host_pages_written);
}

std::optional<double> storage_lifetime_years(const StorageTier& tier, Bytes written_bytes,
                                             TimeNs elapsed_ns) {
  constexpr double kDaysPerYear = 365;
  constexpr double kSecondsPerYear = kDaysPerYear * 24 * 3600;
  const double endurance_bytes = tier.endurance_drive_writes_per_day *
                                 static_cast<double>(tier.capacity_bytes) * kDaysPerYear *
                                 tier.endurance_years;
  if (endurance_bytes <= 0 || written_bytes == 0 || elapsed_ns <= 0) {
    return std::nullopt;
  }
  const double bytes_per_s = static_cast<double>(written_bytes) / to_seconds(elapsed_ns);
  return endurance_bytes / bytes_per_s / kSecondsPerYear;
}

Flash::Flash(const StorageTier& tier)
    : tier_(tier),
      pages_per_block_(static_cast<std::uint32_t>(tier.erase_block_bytes / tier.flash_page_bytes)),
      capacity_pages_(tier.capacity_bytes / tier.flash_page_bytes),
      buckets_(pages_per_block_ + 1) {
  const double wanted_blocks = std::ceil(static_cast<double>(capacity_pages_) *
                                         (1 + tier.over_provisioning) / pages_per_block_);
  const std::uint64_t needed_blocks = (capacity_pages_ + pages_per_block_ - 1) / pages_per_block_;
  physical_blocks_ = std::max(static_cast<std::uint64_t>(wanted_blocks), needed_blocks + 1);
}

bool Flash::fits(ExtentId extent, Bytes bytes) const {
  const auto found = extents_.find(extent);
  const std::uint64_t replaced = found == extents_.end() ? 0 : found->second.pages;
  return pages_for(bytes) <= capacity_pages_ - live_pages_ + replaced;
}

Result<FlashWork> Flash::write(ExtentId extent, Bytes bytes) {
  const std::uint64_t pages = pages_for(bytes);
  const auto found = extents_.find(extent);
  const std::uint64_t replaced = found == extents_.end() ? 0 : found->second.pages;
  if (pages > capacity_pages_ - live_pages_ + replaced) {
    return make_error(ErrorCode::kCannotRun, "storage is full: {} more do not fit beside {} of {}",
                      format_bytes(bytes), format_bytes(live_bytes()),
                      format_bytes(tier_.capacity_bytes));
  }
  Extent& written = found == extents_.end() ? extents_[extent] : found->second;
  invalidate(written);
  written = {};
  FlashWork work;
  work.host_pages = pages;
  for (std::uint64_t left = pages; left > 0;) {
    if (open_ == kNone) {
      open_block(work);
    }
    const auto run_pages =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(left, pages_per_block_ - open_pages_));
    append(extent, written, run_pages);
    left -= run_pages;
  }
  stats_.host_pages_written += work.host_pages;
  stats_.moved_pages += work.moved_pages;
  stats_.erases += work.erases;
  return work;
}

void Flash::trim(ExtentId extent) {
  const auto found = extents_.find(extent);
  if (found != extents_.end()) {
    invalidate(found->second);
    extents_.erase(found);
  }
}

std::optional<double> Flash::lifetime_years(TimeNs elapsed_ns) const {
  return storage_lifetime_years(tier_, stats_.flash_pages_written() * tier_.flash_page_bytes,
                                elapsed_ns);
}

std::uint64_t Flash::pages_for(Bytes bytes) const {
  return bytes / tier_.flash_page_bytes + (bytes % tier_.flash_page_bytes == 0 ? 0 : 1);
}

// The next block to write to: one whose pages are all dead costs an erase, one never used costs
// nothing, and only then are pages copied.
void Flash::open_block(FlashWork& work) {
  const Index dead = buckets_[0].first;
  open_pages_ = 0;
  if (dead != kNone) {
    leave_bucket(dead);
    ++work.erases;
    open_ = dead;
  } else if (reserve_ == kNone && blocks_.size() + 1 < physical_blocks_) {
    open_ = new_block();
  } else {
    collect(work);
  }
}

// Greedy: the full block with the fewest valid pages, of several the one that has been so longest.
void Flash::collect(FlashWork& work) {
  while (buckets_[lowest_].first == kNone) {
    ++lowest_;
  }
  assert(lowest_ < pages_per_block_);
  const Index victim = buckets_[lowest_].first;
  const std::uint32_t moved = blocks_[victim].valid_pages;
  leave_bucket(victim);
  open_ = reserve_ == kNone ? new_block() : reserve_;
  while (blocks_[victim].first_run != kNone) {
    const Index run = blocks_[victim].first_run;
    take_from_block(run);
    put_in_block(run, open_);
  }
  open_pages_ = moved;
  reserve_ = victim;
  work.moved_pages += moved;
  ++work.erases;
}

// Writes pages of an extent into the open block, which has room for them.
void Flash::append(ExtentId id, Extent& extent, std::uint32_t pages) {
  const Index run = new_run();
  runs_[run].extent = id;
  runs_[run].pages = pages;
  put_in_block(run, open_);
  if (extent.last_run == kNone) {
    extent.first_run = run;
  } else {
    runs_[extent.last_run].next_of_extent = run;
  }
  extent.last_run = run;
  extent.pages += pages;
  live_pages_ += pages;
  open_pages_ += pages;
  if (open_pages_ == pages_per_block_) {
    enter_bucket(std::exchange(open_, kNone));
  }
}

void Flash::invalidate(const Extent& extent) {
  for (Index run = extent.first_run; run != kNone;) {
    const Index block = runs_[run].block;
    const bool is_full = block != open_;
    if (is_full) {
      leave_bucket(block);
    }
    take_from_block(run);
    if (is_full) {
      enter_bucket(block);
    }
    const Index next = std::exchange(runs_[run].next_of_extent, free_run_);
    free_run_ = std::exchange(run, next);
  }
  live_pages_ -= extent.pages;
}

Flash::Index Flash::new_block() {
  blocks_.emplace_back();
  return static_cast<Index>(blocks_.size() - 1);
}

Flash::Index Flash::new_run() {
  if (free_run_ == kNone) {
    runs_.emplace_back();
    return static_cast<Index>(runs_.size() - 1);
  }
  return std::exchange(free_run_, std::exchange(runs_[free_run_].next_of_extent, kNone));
}

void Flash::put_in_block(Index run, Index block) {
  EraseBlock& to = blocks_[block];
  if (to.first_run != kNone) {
    runs_[to.first_run].previous_in_block = run;
  }
  runs_[run].block = block;
  runs_[run].previous_in_block = kNone;
  runs_[run].next_in_block = std::exchange(to.first_run, run);
  to.valid_pages += runs_[run].pages;
}

void Flash::take_from_block(Index run) {
  const Run& taken = runs_[run];
  EraseBlock& from = blocks_[taken.block];
  (taken.previous_in_block == kNone ? from.first_run
                                    : runs_[taken.previous_in_block].next_in_block) =
      taken.next_in_block;
  if (taken.next_in_block != kNone) {
    runs_[taken.next_in_block].previous_in_block = taken.previous_in_block;
  }
  from.valid_pages -= taken.pages;
}

void Flash::enter_bucket(Index block) {
  const std::uint32_t valid = blocks_[block].valid_pages;
  Bucket& bucket = buckets_[valid];
  blocks_[block].previous = bucket.last;
  blocks_[block].next = kNone;
  (bucket.last == kNone ? bucket.first : blocks_[bucket.last].next) = block;
  bucket.last = block;
  lowest_ = std::min(lowest_, valid);
}

void Flash::leave_bucket(Index block) {
  const EraseBlock& leaving = blocks_[block];
  Bucket& bucket = buckets_[leaving.valid_pages];
  (leaving.previous == kNone ? bucket.first : blocks_[leaving.previous].next) = leaving.next;
  (leaving.next == kNone ? bucket.last : blocks_[leaving.next].previous) = leaving.previous;
}

}  // namespace spillway
