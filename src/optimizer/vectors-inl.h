// Vectors of single precision, and tensors' numbers as such. Included once for each processor that
// the kernels are compiled for (targets.h). Layer: optimizer.
#if defined(SPILLWAY_OPTIMIZER_VECTORS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPTIMIZER_VECTORS_INL
#undef SPILLWAY_OPTIMIZER_VECTORS_INL
#else
#define SPILLWAY_OPTIMIZER_VECTORS_INL
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::optimizer::HWY_NAMESPACE {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

namespace hn = hwy::HWY_NAMESPACE;

using Lanes = hn::ScalableTag<float>;
using Vector = hn::Vec<Lanes>;
using Words = hn::RebindToUnsigned<Lanes>;
using Halves = hn::Rebind<std::uint16_t, Lanes>;
inline constexpr std::size_t kLanes = HWY_LANES(float);

inline Vector all(float value) { return hn::Set(Lanes{}, value); }

// bfloat16 in memory.
struct Bfloat16 {
  std::uint16_t bits;
};

// Round to nearest, ties to even; what is not a number becomes the one of PyTorch's vectors.
inline hn::Vec<Words> bfloat16_bits(Vector value) {
  const Words words;
  const auto bits = hn::BitCast(words, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1U));
  const auto rounded = hn::ShiftRight<16>(bits + odd + hn::Set(words, 0x7FFFU));
  const auto nan = hn::RebindMask(words, hn::IsNaN(value));
  return hn::IfThenElse(nan, hn::Set(words, 0xFFFFU), rounded);
}

inline Vector load(const float* from) { return hn::LoadU(Lanes{}, from); }
inline void store(Vector value, float* to) { hn::StoreU(value, Lanes{}, to); }

inline Vector load(const Bfloat16* from) {
  const auto halves = hn::LoadU(Halves{}, reinterpret_cast<const std::uint16_t*>(from));
  return hn::BitCast(Lanes{}, hn::ShiftLeft<16>(hn::PromoteTo(Words{}, halves)));
}
inline void store(Vector value, Bfloat16* to) {
  const hn::RebindToSigned<Lanes> integers;
  const auto halves = hn::DemoteTo(Halves{}, hn::BitCast(integers, bfloat16_bits(value)));
  hn::StoreU(halves, Halves{}, reinterpret_cast<std::uint16_t*>(to));
}

// What PyTorch's operators round their results to, one after the other, and how the one that
// multiplies and adds does.
struct Unrounded {
  Vector operator()(Vector value) const { return value; }
  Vector add_product(Vector a, Vector b, Vector c) const { return hn::MulAdd(a, b, c); }
};
struct ToBfloat16 {
  Vector operator()(Vector value) const {
    return hn::BitCast(Lanes{}, hn::ShiftLeft<16>(bfloat16_bits(value)));
  }
  Vector add_product(Vector a, Vector b, Vector c) const { return (*this)(hn::MulAdd(a, b, c)); }
};
// Behind its vectors.
struct ToBfloat16Twice : ToBfloat16 {
  Vector add_product(Vector a, Vector b, Vector c) const {
    return (*this)(hn::Add((*this)(hn::Mul(a, b)), c));
  }
};

// `sign` is 1 or -1.
inline Vector with_sign(Vector value, Vector sign) {
  return hn::Xor(value, hn::And(sign, hn::SignBit(Lanes{})));
}

#endif
}  // namespace spillway::optimizer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
