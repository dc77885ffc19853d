// Where memory that somebody may still use lies: what is alive, and what is freed while launches in
// flight name it. Nothing of it may be given out again. Knows only what the engine has answered.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/memory/space.h"

namespace spillway::sim {

class PlacedBuffers {
 public:
  // New memory; says with what it collides.
  std::string allocated(AllocationId id, const Space& space) {
    const Allocation& allocation = space.allocation(id);
    const Place made{.id = id,
                     .first_block = allocation.first_block,
                     .block_count = allocation.block_count,
                     .offset_bytes = allocation.offset_bytes,
                     .bytes = allocation.bytes,
                     .packed = allocation.packed,
                     .number = ++last_};
    std::string wrong;
    for (const Place& other : places_) {
      if (other.id == id || collide(made, other)) {
        wrong = fmt::format("allocation {} is given out where allocation {} {}", id, other.id,
                            other.live ? "lives" : "is still used by launches in flight");
      }
    }
    places_.push_back(made);
    return wrong;
  }

  void freed(AllocationId id) {
    Place& place = of(id);
    place.live = false;
    forget_if_gone(place);
  }

  void named(std::uint64_t number, const Launch& launch) {
    std::vector<std::uint64_t>& names = launches_[number];
    for (const Access& access : launch.accesses) {
      Place& place = of(access.allocation);
      ++place.names;
      names.push_back(place.number);
    }
  }
  void finished(std::uint64_t launch) {
    for (const std::uint64_t number : launches_[launch]) {
      Place& place = *std::find_if(places_.begin(), places_.end(),
                                   [&](const Place& one) { return one.number == number; });
      --place.names;
      forget_if_gone(place);
    }
    launches_.erase(launch);
  }

 private:
  struct Place {
    AllocationId id = 0;
    BlockId first_block = 0;
    std::uint32_t block_count = 0;
    Bytes offset_bytes = 0;
    Bytes bytes = 0;
    bool packed = false;
    bool live = true;
    std::uint32_t names = 0;   // by launches in flight
    std::uint64_t number = 0;  // no two places have the same
  };

  static bool collide(const Place& a, const Place& b) {
    const bool blocks = a.first_block < b.first_block + b.block_count &&
                        b.first_block < a.first_block + a.block_count;
    const bool bytes =
        a.offset_bytes < b.offset_bytes + b.bytes && b.offset_bytes < a.offset_bytes + a.bytes;
    return blocks && (!a.packed || !b.packed || bytes);
  }
  Place& of(AllocationId id) {
    return *std::find_if(places_.begin(), places_.end(),
                         [&](const Place& one) { return one.live && one.id == id; });
  }
  void forget_if_gone(const Place& place) {
    if (!place.live && place.names == 0) {
      std::erase_if(places_,
                    [number = place.number](const Place& one) { return one.number == number; });
    }
  }

  std::vector<Place> places_;
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> launches_;
  std::uint64_t last_ = 0;
};

}  // namespace spillway::sim
