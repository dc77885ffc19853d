// The model's gradients against differences of its loss, at a size where single precision allows
// it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "model.h"

namespace gpt {
namespace {

constexpr Shape kTiny{.layers = 2, .width = 12, .heads = 3, .context = 5, .batch = 2};

class GradientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // Gains and biases, too, are nothing special.
    for (Parameter* const one : model_.parameters()) {
      for (std::size_t i = 0; i < one->values.size(); ++i) {
        one->values.data()[i] += 0.1F * number();
      }
    }
    for (Index i = 0; i < kTiny.tokens(); ++i) {
      tokens_.push_back(static_cast<int>(random_() % 7));  // so that some are there twice
      targets_.push_back(static_cast<int>(random_() % kBytes));
    }
  }
  float number() { return static_cast<float>(random_() % 2001) / 1000.0F - 1; }
  double loss() { return model_.run(tokens_, targets_); }

  // How fast the loss grows along a direction, by a difference of the fourth order.
  double slope(Array& values, const std::vector<float>& direction) {
    constexpr double kStep = 0.01;
    const std::vector<float> before(values.data(), values.data() + values.size());
    const auto at = [&](double distance) {
      for (std::size_t i = 0; i < before.size(); ++i) {
        values.data()[i] = static_cast<float>(before[i] + distance * direction[i]);
      }
      return loss();
    };
    const double near = at(kStep) - at(-kStep);
    const double host_mapped = at(2 * kStep) - at(-2 * kStep);
    std::copy(before.begin(), before.end(), values.data());
    return (8 * near - host_mapped) / (12 * kStep);
  }

  std::mt19937_64 random_{11};
  Memory memory_;
  Model model_{memory_, kTiny, 3, 0.4F};
  std::vector<int> tokens_;
  std::vector<int> targets_;
};

double length(const std::vector<float>& v) {
  double squares = 0;
  for (const float x : v) squares += static_cast<double>(x) * x;
  return std::sqrt(squares);
}

TEST_F(GradientTest, AgreesWithDifferencesOfTheLoss) {
  std::size_t which = 0;
  for (Parameter* const one : model_.parameters()) {
    SCOPED_TRACE(which++);
    loss();
    const std::vector<float> gradient(one->gradient.data(),
                                      one->gradient.data() + one->gradient.size());
    const double steepness = length(gradient);
    ASSERT_GT(steepness, 1e-4);
    // Along the gradient itself, and along directions that know nothing of it.
    std::vector<float> direction = gradient;
    for (int attempt = 0; attempt < 5; ++attempt) {
      const double norm = length(direction);
      double expected = 0;
      for (std::size_t i = 0; i < direction.size(); ++i) {
        direction[i] = static_cast<float>(direction[i] / norm);
        expected += static_cast<double>(direction[i]) * gradient[i];
      }
      EXPECT_NEAR(slope(one->values, direction), expected, 1e-3 * steepness + 2e-5) << attempt;
      for (float& x : direction) x = number();
    }
  }
}

// Each number by itself, of the arrays in which parts have different roles.
TEST_F(GradientTest, OfEveryGainAndBias) {
  for (Parameter* const one : model_.parameters()) {
    if (one->decays) continue;
    loss();
    const std::vector<float> gradient(one->gradient.data(),
                                      one->gradient.data() + one->gradient.size());
    std::vector<float> direction(gradient.size(), 0.0F);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      direction[i] = 1;
      ASSERT_NEAR(slope(one->values, direction), gradient[i], 2e-4) << i;
      direction[i] = 0;
    }
  }
}

TEST_F(GradientTest, StepsMakeTheLossSmaller) {
  const double before = loss();
  for (int i = 0; i < 20; ++i) {
    model_.update({.rate = 5e-3F});
    loss();
  }
  EXPECT_LT(loss(), before / 2);
}

// A byte must not see those behind it.
TEST(AttentionTest, LooksOnlyBack) {
  constexpr AttentionShape kShape{.batch = 2, .context = 6, .heads = 2, .width = 8};
  constexpr std::size_t kRows = 12;
  std::mt19937_64 random(5);
  std::vector<float> qkv(kRows * 24);
  for (float& x : qkv) x = static_cast<float>(random() % 2001) / 1000.0F - 1;
  std::vector<float> probabilities(144);  // batch * heads * context^2
  std::vector<float> before(kRows * 8);
  std::vector<float> after(kRows * 8);
  attention(before.data(), probabilities.data(), qkv.data(), kShape);
  constexpr std::size_t kChanged = 3;  // of the first sequence
  for (std::size_t i = 0; i < 24; ++i) qkv[kChanged * 24 + i] += 1;
  attention(after.data(), probabilities.data(), qkv.data(), kShape);
  for (std::size_t row = 0; row < kRows; ++row) {
    const bool same = std::equal(&before[row * 8], &before[row * 8] + 8, &after[row * 8]);
    EXPECT_EQ(same, row < kChanged || row >= 6) << row;
  }
}

// What a byte hears is a mean of the values up to its own.
TEST(AttentionTest, WeightsAreAMean) {
  constexpr AttentionShape kShape{.batch = 1, .context = 6, .heads = 1, .width = 4};
  std::mt19937_64 random(6);
  std::vector<float> qkv(72);
  for (float& x : qkv) x = static_cast<float>(random() % 2001) / 1000.0F - 1;
  std::vector<float> probabilities(36);
  std::vector<float> out(24);
  attention(out.data(), probabilities.data(), qkv.data(), kShape);
  for (std::size_t row = 0; row < 6; ++row) {
    float sum = 0;
    float heard = 0;
    for (std::size_t i = 0; i < 6; ++i) {
      const float p = probabilities[row * 6 + i];
      EXPECT_EQ(p > 0, i <= row) << row << " " << i;
      sum += p;
      heard += p * qkv[i * 12 + 8];
    }
    EXPECT_NEAR(sum, 1, 1e-6);
    EXPECT_NEAR(out[row * 4], heard, 1e-6);
  }
}

}  // namespace
}  // namespace gpt
