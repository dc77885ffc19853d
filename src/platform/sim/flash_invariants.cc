// What must always hold in a flash device, as code. Layer: platform (sim).
#include "platform/sim/flash.h"

namespace spillway {
namespace {

template <typename... Args>
Status broken(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kDefect, "flash invariant broken: {}",
                    fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace

// No page is mapped twice: each valid page is in one run, each run in one extent and in one block,
// and no block has more valid pages than were written to it.
Status Flash::check_invariants() const {
  std::vector<std::uint64_t> pages_in(blocks_.size());
  std::uint64_t live = 0;
  std::size_t runs_of_extents = 0;
  for (const auto& [id, extent] : extents_) {
    std::uint64_t pages = 0;
    for (Index run = extent.first_run; run != kNone; run = runs_[run].next_of_extent) {
      if (runs_[run].extent != id || runs_[run].pages == 0) {
        return broken("run {} is not extent {}'s, or empty", run, id);
      }
      pages += runs_[run].pages;
      pages_in[runs_[run].block] += runs_[run].pages;
      ++runs_of_extents;
    }
    if (pages != extent.pages) {
      return broken("extent {} has {} pages in runs, {} in sum", id, pages, extent.pages);
    }
    live += pages;
  }
  if (live != live_pages_ || live > capacity_pages_) {
    return broken("{} pages are live, {} counted, capacity {}", live, live_pages_, capacity_pages_);
  }
  std::size_t runs_in_blocks = 0;
  for (std::size_t block = 0; block < blocks_.size(); ++block) {
    const std::uint32_t written = block == open_      ? open_pages_
                                  : block == reserve_ ? 0
                                                      : pages_per_block_;
    if (pages_in[block] != blocks_[block].valid_pages || pages_in[block] > written) {
      return broken("erase block {}: {} valid pages, {} counted, {} written", block,
                    pages_in[block], blocks_[block].valid_pages, written);
    }
    for (Index run = blocks_[block].first_run; run != kNone; run = runs_[run].next_in_block) {
      if (runs_[run].block != block) {
        return broken("run {} is listed in erase block {}, not its own", run, block);
      }
      ++runs_in_blocks;
    }
  }
  std::size_t full_blocks = 0;
  for (std::uint32_t valid = 0; valid < buckets_.size(); ++valid) {
    for (Index block = buckets_[valid].first; block != kNone; block = blocks_[block].next) {
      if (blocks_[block].valid_pages != valid || block == open_ || block == reserve_ ||
          valid < lowest_) {
        return broken("erase block {} is in the bucket of {}, wrongly", block, valid);
      }
      ++full_blocks;
    }
  }
  const std::size_t not_full = (open_ == kNone ? 0U : 1U) + (reserve_ == kNone ? 0U : 1U);
  if (runs_of_extents != runs_in_blocks || full_blocks + not_full != blocks_.size() ||
      blocks_.size() > physical_blocks_) {
    return broken("{} runs of extents, {} in blocks; {} + {} of {} blocks, {} exist",
                  runs_of_extents, runs_in_blocks, full_blocks, not_full, blocks_.size(),
                  physical_blocks_);
  }
  return {};
}

}  // namespace spillway
