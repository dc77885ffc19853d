// What a program has been promised: every byte of it has a place in some tier, so that no later
// fault runs out of room. Layer: platform, common. Not thread-safe.
#pragma once

#include <array>

#include "base/error.h"
#include "base/units.h"
#include "engine/types.h"

namespace spillway {

class Commitment {
 public:
  // Of tiers with these capacities. Fails with kUnsupported and which budgets are in the way.
  Status promise(Bytes bytes, const std::array<Bytes, kTierCount>& capacity_bytes);
  // Where the platform itself says what can be held. False, and nothing has happened, if that is
  // too little.
  [[nodiscard]] bool promise_within(Bytes bytes, Bytes limit_bytes);
  void take_back(Bytes bytes) { bytes_ -= bytes; }
  // What was promised last, as if it never had been.
  void undo(Bytes bytes) {
    bytes_ -= bytes;
    peak_bytes_ = peak_before_bytes_;
  }

  [[nodiscard]] Bytes bytes() const { return bytes_; }
  [[nodiscard]] Bytes peak_bytes() const { return peak_bytes_; }

 private:
  Bytes bytes_ = 0;
  Bytes peak_bytes_ = 0;
  Bytes peak_before_bytes_ = 0;  // the last promise
};

}  // namespace spillway
