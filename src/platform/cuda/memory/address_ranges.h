// Hands out addresses: which are an allocation's, which are free, and since when. Layer: platform,
// cuda. Knows numbers only; what is mapped behind them is device_blocks.h's. Not thread-safe.
//
// Addresses that were never used come first, so that an address that a program still holds after a
// free stays unused for long. When none are left, the older half of the freed addresses becomes
// free again. Freed addresses whose pages cost memory are reused earlier, the oldest first, as soon
// as they are more than `rest_bytes`.
#pragma once

#include <cstdint>
#include <deque>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "base/free_ranges.h"
#include "base/units.h"

namespace spillway::cuda {

class AddressRanges {
 public:
  // Of a reservation that begins at a multiple of kBlockBytes; both numbers are multiples of it.
  // `rest_bytes`: no more rest than that (each page that was ever used takes 32 bytes).
  AddressRanges(std::uint64_t start, Bytes bytes, Bytes rest_bytes = Bytes{1} << 40U)
      : rest_bytes_(rest_bytes),
        start_(start),
        end_(start + bytes),
        fresh_(start),
        pages_(bytes / kBlockBytes / kPagesTogether + 1) {}

  // A run of addresses at a multiple of `alignment`; both are multiples of kBlockBytes. nullopt if
  // there is none.
  [[nodiscard]] std::optional<std::uint64_t> take(Bytes bytes, Bytes alignment);
  // Nothing is mapped there any more. A run that `take` gave.
  void give_back(std::uint64_t address, Bytes bytes);

  // An allocation begins here, or is gone. The number is the caller's; the bytes are the program's,
  // at least one. None lies in another.
  void name(std::uint64_t address, Bytes bytes, std::uint32_t number);
  void forget(std::uint64_t address);
  struct Named {
    std::uint64_t start = 0;
    Bytes bytes = 0;
    std::uint32_t number = 0;
    bool dead = false;        // any thread's; by is_dead and set_dead
    bool keeps_room = false;  // while it is dead: it will live again, whatever else is allocated
    bool hidden = false;      // it lives, and the program cannot use it at any address
    bool placed = false;      // the program has said where, and its memory was promised before
    [[nodiscard]] bool is_dead() const { return __atomic_load_n(&dead, __ATOMIC_RELAXED); }
    // It is kept, and names nothing meanwhile; or lives again.
    void set_dead(bool yes) { __atomic_store_n(&dead, yes, __ATOMIC_RELAXED); }
  };
  // The allocation that begins there; nullptr if none does. Valid until the next name or forget.
  [[nodiscard]] Named* starting_at(std::uint64_t address);
  // The allocation in which the address lies, likewise.
  [[nodiscard]] const Named* at(std::uint64_t address) const;
  // What a pointer may mean: the allocation in which it lies, and the one that ends right before
  // it, of which it is the end. Likewise.
  struct Pointed {
    const Named* in = nullptr;
    const Named* ends = nullptr;
  };
  [[nodiscard]] Pointed pointed_at(std::uint64_t address) const;

  [[nodiscard]] bool contains(std::uint64_t address) const {
    return address >= start_ && address < end_;
  }
  [[nodiscard]] std::uint64_t start() const { return start_; }
  [[nodiscard]] Bytes bytes() const { return end_ - start_; }

 private:
  struct Run {
    std::uint64_t address = 0;
    Bytes bytes = 0;
  };
  // What begins in a page of kBlockBytes, lowest first, and the page in which what reaches into it
  // from before, or ends at its first byte, begins.
  static constexpr std::uint64_t kNoPage = ~std::uint64_t{0};
  struct Page {
    std::vector<Named> names;
    std::uint64_t reached_from = kNoPage;
  };
  static constexpr std::size_t kPagesTogether = 4096;
  [[nodiscard]] std::optional<std::uint64_t> take_freed(Bytes bytes, Bytes alignment);
  // What was freed last rests on, up to so much.
  void end_rest_beyond(Bytes keep_bytes);
  [[nodiscard]] std::uint64_t page_of(std::uint64_t address) const {
    return (address - start_) / kBlockBytes;
  }
  // nullptr: nothing was ever near there.
  [[nodiscard]] Page* page(std::uint64_t number) const {
    const std::unique_ptr<Page[]>& together = pages_[number / kPagesTogether];
    return together == nullptr ? nullptr : &together[number % kPagesTogether];
  }
  [[nodiscard]] Page& page_made(std::uint64_t number);
  // What begins last in a page up to that name, or before the page and reaches there; nullptr:
  // nothing.
  [[nodiscard]] const Named* last_before(const Page& there,
                                         std::vector<Named>::const_iterator after) const {
    if (after != there.names.begin()) {
      return &*std::prev(after);
    }
    return there.reached_from == kNoPage ? nullptr : &page(there.reached_from)->names.back();
  }
  // The pages behind the first that the allocation, or its end, reaches into.
  void reach(const Named& named, std::uint64_t from);

  Bytes rest_bytes_;
  std::uint64_t start_;
  std::uint64_t end_;
  std::uint64_t fresh_;      // from here on nothing has been used
  std::deque<Run> resting_;  // freed, oldest first
  Bytes resting_bytes_ = 0;
  FreeRanges free_;  // to be given out again
  // Looked at for every word of every launch.
  std::vector<std::unique_ptr<Page[]>> pages_;
};

}  // namespace spillway::cuda
