// Vectors of single precision, and tensors' numbers as such. Included once for each processor that
// the kernels are compiled for (targets.h). Layer: optimizer.
#if defined(SPILLWAY_OPTIMIZER_VECTORS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPTIMIZER_VECTORS_INL
#undef SPILLWAY_OPTIMIZER_VECTORS_INL
#else
#define SPILLWAY_OPTIMIZER_VECTORS_INL
#endif

#include <cstdint>
#include <type_traits>

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
// The same where PyTorch stores one number after the other.
struct SingleBfloat16 {
  std::uint16_t bits;
};
template <class Type>
using Single = std::conditional_t<std::is_same_v<Type, Bfloat16>, SingleBfloat16, Type>;
// What is not a number becomes that of PyTorch's vectors, or that of its single numbers.
inline constexpr std::uint32_t kNanOfVectors = 0xFFFF;
inline constexpr std::uint32_t kNanOfSingles = 0x7FC0;

// Round to nearest, ties to even.
template <std::uint32_t kNan = kNanOfVectors>
hn::Vec<Words> bfloat16_bits(Vector value) {
  const Words words;
  const auto bits = hn::BitCast(words, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1U));
  const auto rounded = hn::ShiftRight<16>(bits + odd + hn::Set(words, 0x7FFFU));
  const auto nan = hn::RebindMask(words, hn::IsNaN(value));
  return hn::IfThenElse(nan, hn::Set(words, kNan), rounded);
}

inline Vector load(const float* from) { return hn::LoadU(Lanes{}, from); }
inline void store(Vector value, float* to) { hn::StoreU(value, Lanes{}, to); }

inline Vector load_halves(const std::uint16_t* from) {
  const auto halves = hn::LoadU(Halves{}, from);
  return hn::BitCast(Lanes{}, hn::ShiftLeft<16>(hn::PromoteTo(Words{}, halves)));
}
inline void store_halves(hn::Vec<Words> bits, std::uint16_t* to) {
  const hn::RebindToSigned<Lanes> integers;
  hn::StoreU(hn::DemoteTo(Halves{}, hn::BitCast(integers, bits)), Halves{}, to);
}
inline Vector load(const Bfloat16* from) { return load_halves(&from->bits); }
inline Vector load(const SingleBfloat16* from) { return load_halves(&from->bits); }
inline void store(Vector value, Bfloat16* to) { store_halves(bfloat16_bits(value), &to->bits); }
inline void store(Vector value, SingleBfloat16* to) {
  store_halves(bfloat16_bits<kNanOfSingles>(value), &to->bits);
}

// Of a value that was loaded from such a tensor, and may have got another sign: what is not a
// number stays as it is.
inline void store_bits(Vector value, float* to) { store(value, to); }
template <class Half>
void store_bits(Vector value, Half* to) {
  store_halves(hn::ShiftRight<16>(hn::BitCast(Words{}, value)), &to->bits);
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
