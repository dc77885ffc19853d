// Memory by slot against a plain list.
#include "policy/planning/pressure_curve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"

namespace spillway {
namespace {

struct PlainCurve {
  std::vector<Bytes> bytes;
  Bytes limit_bytes;
  std::vector<std::uint64_t> weights;

  [[nodiscard]] bool over_with(std::size_t first, std::size_t end, Bytes more) const {
    bool over = false;
    for (std::size_t slot = first; slot < end; ++slot) {
      over = over || bytes[slot % bytes.size()] + more > limit_bytes;
    }
    return over;
  }
  [[nodiscard]] double relief(std::size_t first, std::size_t end, Bytes less) const {
    double sum = 0;
    for (std::size_t slot = first; slot < end; ++slot) {
      const Bytes here = bytes[slot % bytes.size()];
      if (here > limit_bytes) {
        sum += double(std::min(less, here - limit_bytes)) * double(weights[slot % bytes.size()]);
      }
    }
    return sum;
  }
};

// Small weights, whose sums are exact, and large ones, whose sums are rounded in their order.
TEST(PressureCurve, AgreesWithAPlainList) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const std::size_t slots = 1 + rng.below(70);
    const Bytes unit = seed % 3 == 0 ? 1 : kPageBytes;
    const bool heavy = seed % 4 == 0;
    PlainCurve plain;
    plain.limit_bytes = 30 * unit + (seed % 5 == 0 ? 77 : 0);
    for (std::size_t slot = 0; slot < slots; ++slot) {
      plain.bytes.push_back((20 + rng.below(30)) * unit);
      plain.weights.push_back(rng.below(heavy ? std::uint64_t{1} << 50U : 1000));
    }
    PressureCurve curve(plain.bytes, plain.limit_bytes, unit, plain.weights);
    for (int step = 0; step < 200; ++step) {
      const std::size_t first = rng.below(2 * slots);
      const std::size_t end = first + rng.below(slots + 1);
      const Bytes amount = (1 + rng.below(12)) * unit;
      ASSERT_EQ(curve.relief(first, end, amount), plain.relief(first, end, amount));
      ASSERT_EQ(curve.over_limit_with(first, end, amount), plain.over_with(first, end, amount));
      const bool more = rng.chance(0.5);
      if (more) {
        curve.add(first, end, amount);
      } else {
        curve.subtract(first, end, amount);
      }
      for (std::size_t slot = first; slot < end; ++slot) {
        plain.bytes[slot % slots] += more ? amount : Bytes{0} - amount;
      }
      if (std::any_of(plain.bytes.begin(), plain.bytes.end(),
                      [&](Bytes bytes) { return bytes > 90 * unit; })) {
        break;  // below zero
      }
      ASSERT_EQ(curve.bytes(), plain.bytes);
      ASSERT_EQ(curve.over_limit(), plain.over_with(0, slots, 0));
    }
  }
}

}  // namespace
}  // namespace spillway
