// Adam against the same operations one number at a time: the orders are written here once more.
// That they are PyTorch's is in tests/python/test_near_bits.py.
#include "optimizer/tensors.h"

namespace spillway::optimizer {
namespace {

struct AdamScalars {
  float left, lerp, beta2, square, root, epsilon, rate;
};

// lr * weight_decay, the powers and the quotient in double, each rounded to single at the end.
AdamScalars adam_scalars(const Step& step, bool fused) {
  const double part = step.learning_rate * step.weight_decay;
  const double corrected = 1 - std::pow(step.beta2, step.step);
  AdamScalars s{};
  s.left =
      static_cast<float>(fused ? std::fma(-step.learning_rate, step.weight_decay, 1.0) : 1 - part);
  s.lerp = static_cast<float>(1 - step.beta1);
  s.beta2 = static_cast<float>(step.beta2);
  s.square = static_cast<float>(1 - step.beta2);
  s.root = static_cast<float>(fused ? std::sqrt(corrected) : std::pow(corrected, 0.5));
  s.epsilon = static_cast<float>(step.epsilon);
  s.rate = static_cast<float>(-(step.learning_rate / (1 - std::pow(step.beta1, step.step))));
  return s;
}

float rounded(float value) {
  volatile float kept = value;  // no operation of two
  return kept;
}

enum class Place { kVectors, kTail, kForeachOnGpu };

// Element `i` of AdamW. kTail is behind the vectors of the fused kernel.
void adamw(Tensors& t, std::size_t i, const AdamScalars& s, Place place, float (*root)(float)) {
  const float g = t.gradient.data()[i];
  float& m = t.first.data()[i];
  float& v = t.second.data()[i];
  float& p = t.parameter.data()[i];
  p = rounded(p * s.left);
  m = std::fma(s.lerp, rounded(g - m), m);
  const float weighted = rounded(s.square * g);
  switch (place) {
    case Place::kVectors:
      v = std::fma(weighted, g, rounded(v * s.beta2));
      break;
    case Place::kTail:
      v = std::fma(v, s.beta2, rounded(weighted * g));
      break;
    case Place::kForeachOnGpu:
      v = std::fma(s.square, rounded(g * g), rounded(v * s.beta2));
      break;
  }
  const float divisor = rounded(rounded(root(v) / s.root) + s.epsilon);
  p = place == Place::kForeachOnGpu ? std::fma(s.rate, rounded(m / divisor), p)
                                    : rounded(rounded(rounded(s.rate * m) / divisor) + p);
}

float ieee_root(float value) { return std::sqrt(value); }
// Somebody's that is not IEEE's.
float odd_root(float value) { return std::nextafter(std::sqrt(value), 2 * value); }
void odd_roots(int count, const float* in, float* out, std::int64_t mode) {
  for (int i = 0; i < count; ++i) out[i] = mode == 5 ? odd_root(in[i]) : -1;
}

Options adamw_options(Variant variant) {
  Options options;
  options.variant = variant;
  options.decoupled_decay = true;
  return options;
}

void expect_adamw(const Options& options, float (*root)(float)) {
  const auto update = Update::make(options);
  if (!update) GTEST_SKIP() << update.error();
  const bool fused = options.variant == Variant::kFusedCpu;
  for (const std::size_t elements : {1U, 7U, 8U, 15U, 16U, 17U, 1000U, 4099U}) {
    Tensors ours(elements);
    Tensors theirs(elements);
    update->run(usual_step(), ours.operands(), elements, 0, elements);
    const AdamScalars scalars = adam_scalars(usual_step(), fused);
    for (std::size_t i = 0; i < elements; ++i) {
      const bool behind = fused && i >= elements / 8 * 8;
      adamw(theirs, i, scalars,
            options.variant == Variant::kForeachCuda ? Place::kForeachOnGpu
            : behind                                 ? Place::kTail
                                                     : Place::kVectors,
            root);
    }
    EXPECT_TRUE(ours.same_bits(theirs));
  }
}

TEST(OptimizerAdamBits, FusedIsVectorsOfEightAndAnotherProductBehindThem) {
  expect_adamw(adamw_options(Variant::kFusedCpu), ieee_root);
}

TEST(OptimizerAdamBits, ALoopIsTheSameForEveryElement) {
  expect_adamw(adamw_options(Variant::kLoopCpu), ieee_root);
}

TEST(OptimizerAdamBits, ForeachOnAGpuMultipliesTheSquaresFirst) {
  expect_adamw(adamw_options(Variant::kForeachCuda), ieee_root);
}

TEST(OptimizerAdamBits, ALoopTakesTheRootsThatItIsGiven) {
  Options options = adamw_options(Variant::kLoopCpu);
  options.square_roots = odd_roots;
  options.square_roots_mode = 5;
  expect_adamw(options, odd_root);
}

TEST(OptimizerAdamBits, FusedTakesItsOwn) {
  Options options = adamw_options(Variant::kFusedCpu);
  options.square_roots = odd_roots;
  expect_adamw(options, ieee_root);
}

TEST(OptimizerAdamBits, BehindTheVectorsWhatIsNotANumberIsNoMaximum) {
  Options options = adamw_options(Variant::kFusedCpu);
  options.amsgrad = true;
  const auto update = Update::make(options);
  if (!update) GTEST_SKIP() << update.error();
  Tensors tensors(9);
  tensors.gradient.data()[0] = tensors.gradient.data()[8] = std::nanf("");
  const float before = tensors.max_second.data()[8];
  update->run(usual_step(), tensors.operands(), 9, 0, 9);
  EXPECT_TRUE(std::isnan(tensors.max_second.data()[0]));
  EXPECT_EQ(tensors.max_second.data()[8], before);
}

}  // namespace
}  // namespace spillway::optimizer
