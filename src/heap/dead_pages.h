// A filter of dead pages: it may call a live page dead, never a dead one alive. Layer: heap.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/spread.h"
#include "base/units.h"

namespace spillway {

class DeadPages {
 public:
  // These bytes are dead, until all are forgotten.
  void add(std::uint64_t address, Bytes bytes) {
    for (Bytes offset = 0; offset < bytes; offset += kBlockBytes) {
      const std::size_t bit = spread((address + offset) / kBlockBytes, kBits);
      words_[bit / 64] |= std::uint64_t{1} << (bit % 64);
    }
  }
  void clear() { words_ = {}; }
  // Whether some page of these bytes, or the one in which `address` lies, may be one of them.
  [[nodiscard]] bool may_have(std::uint64_t address, Bytes bytes) const {
    const Bytes reach = bytes > 0 ? bytes - 1 : 0;
    for (auto page = address / kBlockBytes; page <= (address + reach) / kBlockBytes; ++page) {
      const std::size_t bit = spread(page, kBits);
      if ((words_[bit / 64] >> (bit % 64) & 1U) != 0) {
        return true;
      }
    }
    return false;
  }

 private:
  static constexpr int kBits = 12;
  std::array<std::uint64_t, (std::size_t{1} << kBits) / 64> words_{};  // by a spread of the page
};

}  // namespace spillway
