// A flash device page by page, slow and plain, to compare the real one (platform/sim/flash.h) with.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "platform/sim/flash.h"

namespace spillway {

class NaiveFlash {
 public:
  NaiveFlash(std::uint64_t blocks, std::uint64_t pages_per_block, std::uint64_t capacity_pages)
      : blocks_(blocks), pages_per_block_(pages_per_block), capacity_pages_(capacity_pages) {}

  bool write(std::uint64_t extent, std::uint64_t pages, FlashWork& work) {
    if (live_pages() - map_[extent].size() + pages > capacity_pages_) {
      return false;
    }
    trim(extent);
    for (std::uint64_t page = 0; page < pages; ++page) {
      if (open_ == kNone) {
        open(work);
      }
      put(extent, page, open_);
      if (blocks_[open_].pages.size() == pages_per_block_) {
        blocks_[open_].full = true;
        blocks_[open_].since = ++clock_;
        open_ = kNone;
      }
    }
    work.host_pages += pages;
    return true;
  }

  void trim(std::uint64_t extent) {
    for (const Place& place : map_[extent]) {
      blocks_[place.block].pages[place.page].valid = false;
      blocks_[place.block].since = ++clock_;
    }
    map_[extent].clear();
  }

  [[nodiscard]] std::uint64_t live_pages() const {
    std::uint64_t live = 0;
    for (const auto& [extent, places] : map_) {
      live += places.size();
    }
    return live;
  }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;
  struct Page {
    std::uint64_t extent;
    std::uint64_t number;
    bool valid;
  };
  struct Block {
    std::vector<Page> pages;
    bool full = false;
    std::uint64_t since = 0;  // when it became full or its valid pages last changed
    [[nodiscard]] std::uint64_t valid() const {
      std::uint64_t count = 0;
      for (const Page& page : pages) {
        count += page.valid ? 1 : 0;
      }
      return count;
    }
  };
  struct Place {
    std::size_t block;
    std::size_t page;
  };

  void put(std::uint64_t extent, std::uint64_t number, std::size_t block) {
    auto& places = map_[extent];
    if (number == places.size()) {
      places.push_back({});
    }
    places[number] = {block, blocks_[block].pages.size()};
    blocks_[block].pages.push_back({extent, number, true});
  }

  // Among full blocks, the one with the fewest valid pages, longest so.
  [[nodiscard]] std::size_t best() const {
    std::size_t best = kNone;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (blocks_[i].full && (best == kNone || blocks_[i].valid() < blocks_[best].valid() ||
                              (blocks_[i].valid() == blocks_[best].valid() &&
                               blocks_[i].since < blocks_[best].since))) {
        best = i;
      }
    }
    return best;
  }

  void open(FlashWork& work) {
    const std::size_t victim = best();
    if (victim != kNone && blocks_[victim].valid() == 0) {
      blocks_[victim] = {};
      ++work.erases;
      open_ = victim;
      return;
    }
    std::vector<std::size_t> empty;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (blocks_[i].pages.empty()) {
        empty.push_back(i);
      }
    }
    open_ = empty.at(0);
    if (empty.size() == 1) {
      for (const Page& page : blocks_[victim].pages) {
        if (page.valid) {
          put(page.extent, page.number, open_);
          ++work.moved_pages;
        }
      }
      blocks_[victim] = {};
      ++work.erases;
    }
  }

  std::vector<Block> blocks_;
  std::uint64_t pages_per_block_;
  std::uint64_t capacity_pages_;
  std::map<std::uint64_t, std::vector<Place>> map_;
  std::size_t open_ = kNone;
  std::uint64_t clock_ = 0;
};

}  // namespace spillway
