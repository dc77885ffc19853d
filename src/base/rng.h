// A small seeded generator, the same on every machine (the standard distributions are not).
#pragma once

#include <cstdint>

namespace spillway {

// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). Copyable; a copy replays the same sequence.
class Rng {
 public:
  explicit Rng(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31U);
  }
  // In [0, bound); bound must not be 0. The bias is below 2^-32 for bounds below 2^32.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  // In [0, 1).
  double uniform() { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }
  bool chance(double probability) { return uniform() < probability; }

 private:
  std::uint64_t state_;
};

}  // namespace spillway
