#include "optimizer/gpu_power.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace spillway::optimizer {
namespace {

float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// A logarithm to base 2 as a sum of two numbers.
struct Logarithm {
  float high;
  float low;
};

Logarithm logarithm(float a) {
  float shift = 0;
  if (a < 0x1p-126F) {
    a *= 0x1p24F;
    shift = -24;
  }
  const auto bits = std::bit_cast<std::uint32_t>(a);
  const std::uint32_t whole = (bits - 0x3F3504F3) & 0xFF800000;
  const float mantissa = from_bits(bits - whole);
  const float exponent =
      std::fma(static_cast<float>(static_cast<std::int32_t>(whole)), 0x1p-23F, shift);

  const float f = mantissa - 1.0F;
  const float reciprocal = 1.0F / (mantissa + 1.0F);
  const float s = reciprocal * (f + f);
  float rest = f - s;
  rest = std::fma(f, -s, rest + rest);
  rest = reciprocal * rest;
  const float square = s * s;

  constexpr std::uint32_t kLog2OfE = 0x3FB8AA3B;
  const float log2_of_e = from_bits(kLog2OfE);
  const float high = std::fma(s, log2_of_e, exponent);
  float low = std::fma(s, log2_of_e, exponent - high);
  low = std::fma(rest, log2_of_e, low);
  low = std::fma(s, 1.9251366722983220825e-08F, low);
  float series = from_bits(0x3A2C32E4);
  for (const float coefficient :
       {0.0032181653659790754318F, 0.018033718690276145935F, 0.12022458761930465698F}) {
    series = std::fma(square, series, coefficient);
  }
  series = square * series;
  low = std::fma(rest, series * 3.0F, low);
  low = std::fma(s, series, low);
  const float sum = high + low;
  return {sum, low - (sum - high)};
}

float power_of_two(float whole, float fraction, std::uint32_t half) {
  float y = from_bits(0x391FCB8E);
  for (const float coefficient :
       {0.0013391353422775864601F, 0.0096188392490148544312F, 0.055503588169813156128F,
        0.24022644758224487305F, 0.69314718246459960938F, 1.0F}) {
    y = std::fma(fraction, y, coefficient);
  }
  y *= from_bits(half + 0x7F000000);
  const auto exponent = static_cast<std::int32_t>(std::max(whole, -200.0F));
  return y * from_bits((static_cast<std::uint32_t>(exponent) << 23) - half);
}

}  // namespace

float gpu_power(float base, float exponent) {
  if (base == 0 || base == 1) return exponent == 0 ? 1.0F : base;
  const Logarithm log = logarithm(base);
  const float product = exponent * log.high;
  if (std::fabs(product) > 152) return 0;
  float error = std::fma(exponent, log.high, -product);
  error = std::fma(exponent, log.low, error);
  const float nearest = std::nearbyint(product);
  return power_of_two(nearest, error + (product - nearest), nearest > 0 ? 0 : 0x83000000);
}

}  // namespace spillway::optimizer
