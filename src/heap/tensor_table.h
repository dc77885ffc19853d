// Where tensors live, or have lived, by their address. Layer: heap. An open hash table: the same
// addresses come again and again, and each must cost little with cold caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace spillway {

// An address at which a tensor lives, or has lived.
struct TensorPlace {
  static constexpr std::uint32_t kNoSegment = ~std::uint32_t{0};

  std::uint64_t address = 0;           // 0: nobody's
  Bytes bytes = 0;                     // 0: dead
  Bytes asked_bytes = 0;               // 0: not known
  std::uint32_t segment = kNoSegment;  // the first; of mapped ones, where it lies there still
  bool ordered = false;                // in Segments::in_order_
};

class TensorTable {
 public:
  TensorTable() : places_(std::size_t{1} << bits_) {}

  // nullptr: no tensor has lived there lately.
  [[nodiscard]] TensorPlace* at(std::uint64_t address) {
    TensorPlace& place = places_[index_of(address)];
    return place.address == address ? &place : nullptr;
  }
  // nullptr: none lives there.
  [[nodiscard]] const TensorPlace* living_at(std::uint64_t address) const {
    const TensorPlace& place = places_[index_of(address)];
    return place.address == address && place.bytes > 0 ? &place : nullptr;
  }
  // The place at this address; a new, dead one if there was none. References to other places are
  // invalid afterwards.
  TensorPlace& make_at(std::uint64_t address);

  // All, also those that are nobody's.
  [[nodiscard]] auto begin() { return places_.begin(); }
  [[nodiscard]] auto end() { return places_.end(); }

 private:
  [[nodiscard]] std::size_t index_of(std::uint64_t address) const;
  void grow();

  int bits_ = 10;
  std::vector<TensorPlace> places_;  // 2^bits_, by a spread of the address
  std::size_t used_ = 0;
};

}  // namespace spillway
