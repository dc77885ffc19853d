// Addresses that stand in one piece of device memory, by the bytes in which they were found, so
// that those that have been replaced can be forgotten. Layer: interpose, cuda. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "platform/cuda/memory/address_range.h"

namespace spillway::cuda {

// What addresses name: of each allocation, once, a run of its bytes. A program of whose memory
// tensors are known may name another place of it at each step, so what lies between two that are
// named counts as well.
class NamedMemory {
 public:
  struct One {
    std::uint64_t allocation = 0;  // its start, as it was when it was named
    AddressRange bytes;
  };

  // True if that is more than before.
  bool put(std::uint64_t allocation, const AddressRange& bytes);
  template <typename IsGone>
  void drop(const IsGone& is_gone) {
    std::erase_if(all_, [&](const One& one) { return is_gone(one.bytes); });
    places_.clear();
    for (const One& one : all_) {
      places_.emplace(one.allocation, places_.size());
    }
  }
  [[nodiscard]] bool has(std::uint64_t allocation) const { return places_.contains(allocation); }
  [[nodiscard]] const std::vector<One>& all() const { return all_; }

 private:
  std::vector<One> all_;  // in the order in which they came
  std::unordered_map<std::uint64_t, std::size_t> places_;
};

class HeldAddresses {
 public:
  // These bytes hold addresses of that, besides what was found there before. `now`: larger than at
  // any earlier call.
  void add(const AddressRange& where, NamedMemory named, std::uint64_t now);
  // The same, where `replaced` will not follow: what is added to the same bytes again and again
  // takes no more place.
  void add_more(const AddressRange& where, const NamedMemory& named, std::uint64_t now);
  // The bytes have been read, and these are all addresses that stood there: those that were read
  // there before are forgotten. Not those that were added, which may come only later.
  void read(const AddressRange& where, NamedMemory named, std::uint64_t now);
  // All of these bytes have been replaced, after what was added up to `then`. Of addresses found in
  // bytes that are replaced in part nobody knows where they stood: they stay, in the rest.
  void replaced(const AddressRange& where, std::uint64_t then);
  // What is named by no address any more.
  template <typename IsGone>
  void drop(const IsGone& is_gone) {
    for (Piece& piece : pieces_) {
      piece.named.drop(is_gone);
    }
    std::erase_if(pieces_, [](const Piece& it) { return it.named.all().empty(); });
  }

  // Whether some address that may stand in these bytes names something of this allocation.
  [[nodiscard]] bool names(std::uint64_t allocation, const AddressRange& where) const {
    return std::any_of(pieces_.begin(), pieces_.end(), [&](const Piece& it) {
      return it.start < where.start + where.bytes && where.start < it.end &&
             it.named.has(allocation);
    });
  }
  // An allocation may be visited more than once.
  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (const Piece& piece : pieces_) {
      for (const NamedMemory::One& one : piece.named.all()) {
        visit(one);
      }
    }
  }
  // How many `for_each` visits.
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::size_t pieces() const { return pieces_.size(); }

 private:
  // As many small copies into one allocation are kept apart.
  static constexpr std::size_t kMostPieces = 64;
  struct Piece {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    NamedMemory named;
    std::uint64_t added = 0;
    bool read = false;
    void take(const NamedMemory& more);
  };
  void insert(Piece piece);
  void join_two();

  std::vector<Piece> pieces_;  // by start; they may overlap
};

}  // namespace spillway::cuda
