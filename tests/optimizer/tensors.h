// Tensors of a test, with guards around them, and updates of them.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "optimizer/update.h"

namespace spillway::optimizer {

// Numbers, also very small, very large, zero and infinite ones, between guards that nobody may
// touch.
class Tensor {
 public:
  Tensor() = default;
  Tensor(std::size_t elements, std::uint32_t seed) : numbers_(elements + 2 * kGuard, kGuardNumber) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> exponent(-130, 60);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < elements; ++i) {
      const float number = normal(random);
      switch (random() % 16) {
        case 0:
          data()[i] = std::ldexp(number, exponent(random));
          break;
        case 1:
          data()[i] = std::copysign(0.0F, number);
          break;
        case 2:
          data()[i] = std::bit_cast<float>(static_cast<std::uint32_t>(random() % 0x800000));
          break;
        default:
          data()[i] = number;
      }
    }
  }
  float* data() { return numbers_.data() + kGuard; }
  [[nodiscard]] const float* data() const { return numbers_.data() + kGuard; }
  [[nodiscard]] std::size_t elements() const { return numbers_.size() - 2 * kGuard; }

  void take_magnitudes() {
    for (std::size_t i = 0; i < elements(); ++i) data()[i] = std::fabs(data()[i]);
  }
  [[nodiscard]] bool guards_are_whole() const {
    for (std::size_t i = 0; i < kGuard; ++i) {
      if (numbers_[i] != kGuardNumber || numbers_[numbers_.size() - 1 - i] != kGuardNumber)
        return false;
    }
    return true;
  }
  [[nodiscard]] bool same_bits(const Tensor& other) const {
    for (std::size_t i = 0; i < elements(); ++i) {
      if (std::bit_cast<std::uint32_t>(data()[i]) !=
              std::bit_cast<std::uint32_t>(other.data()[i]) &&
          !(std::isnan(data()[i]) && std::isnan(other.data()[i]))) {
        ADD_FAILURE() << "element " << i << " of " << elements() << ": " << data()[i] << " and "
                      << other.data()[i];
        return false;
      }
    }
    return true;
  }

 private:
  static constexpr std::size_t kGuard = 17;  // odd: vectors are not aligned
  static constexpr float kGuardNumber = 12345.0F;
  std::vector<float> numbers_ = std::vector<float>(2 * kGuard, kGuardNumber);
};

// All that an update may have.
struct Tensors {
  explicit Tensors(std::size_t elements)
      : parameter(elements, 1),
        gradient(elements, 2),
        first(elements, 3),
        second(elements, 4),
        max_second(elements, 5) {
    first.take_magnitudes();  // Adagrad's sum
    second.take_magnitudes();
    max_second.take_magnitudes();
  }

  Operands operands() {
    Operands operands;
    operands.parameter = operands.parameter_out = parameter.data();
    operands.gradient = gradient.data();
    operands.first = operands.first_out = first.data();
    operands.second = operands.second_out = second.data();
    operands.max_second = operands.max_second_out = max_second.data();
    return operands;
  }
  [[nodiscard]] bool guards_are_whole() const {
    return parameter.guards_are_whole() && gradient.guards_are_whole() &&
           first.guards_are_whole() && second.guards_are_whole() && max_second.guards_are_whole();
  }
  [[nodiscard]] bool same_bits(const Tensors& other) const {
    return parameter.same_bits(other.parameter) && gradient.same_bits(other.gradient) &&
           first.same_bits(other.first) && second.same_bits(other.second) &&
           max_second.same_bits(other.max_second);
  }

  Tensor parameter;
  Tensor gradient;
  Tensor first;
  Tensor second;
  Tensor max_second;
};

inline Step usual_step() {
  Step step;
  step.step = 7;
  step.learning_rate = 0.0123;
  step.weight_decay = 0.1;
  step.momentum = 0.9;
  step.dampening = 0.25;
  step.learning_rate_decay = 0.01;
  return step;
}

}  // namespace spillway::optimizer
