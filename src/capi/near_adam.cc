// See near_adam.h.
#include "capi/near_adam.h"

#include <array>
#include <string>

namespace spillway::capi {
namespace {

using optimizer::NumberType;
using optimizer::Variant;

constexpr std::array kNumberTypes{NumberType::kFloat32, NumberType::kBfloat16};
constexpr std::array kVariants{Variant::kLoopCpu, Variant::kFusedCpu, Variant::kLoopCuda,
                               Variant::kForeachCuda, Variant::kFusedCuda};

template <typename T, std::size_t count, typename Enumeration>
Outcome<T> chosen(const std::array<T, count>& from, const Enumeration& given, const char* type) {
  const int value = number_in(given);
  if (value < 0 || static_cast<std::size_t>(value) >= count) {
    return fail(spillwayErrorInvalidValue, "{} is no {}", value, type);
  }
  return from[static_cast<std::size_t>(value)];
}

Outcome<optimizer::Options> options_of(const spillwayNearAdam_t& adam) {
  const auto parameter = chosen(kNumberTypes, adam.parameterType, "spillwayNearType_t");
  const auto gradient = chosen(kNumberTypes, adam.gradientType, "spillwayNearType_t");
  const auto variant = chosen(kVariants, adam.arithmetic, "spillwayNearArithmetic_t");
  if (!parameter || !gradient) {
    return tl::unexpected<Failure>(parameter ? gradient.error() : parameter.error());
  }
  if (!variant) {
    return tl::unexpected<Failure>(variant.error());
  }
  optimizer::Options options;
  options.variant = *variant;
  options.parameter_type = *parameter;
  options.gradient_type = *gradient;
  options.decoupled_decay = adam.decoupledDecay != 0;
  options.amsgrad = adam.maxExpAvgSq != nullptr;
  options.maximize = adam.maximize != 0;
  options.coupled_decay = adam.decoupledDecay == 0 && adam.weightDecay != 0;
  options.torch_threads = adam.torchThreads;
  options.compute_capability = adam.computeCapability;
  return options;
}

}  // namespace

Outcome<AdamStep> checked_adam(const spillwayNearAdam_t& adam) {
  if (adam.size != sizeof(adam) || adam.torchThreads == 0 || adam.reserved != 0) {
    return fail(spillwayErrorInvalidValue,
                "a step that spillwayNearAdamInit has not filled in, or of another version of this "
                "library");
  }
  if (adam.step == 0) {
    return fail(spillwayErrorInvalidValue, "step 0; steps are counted from 1 on");
  }
  const Outcome<optimizer::Options> options = options_of(adam);
  if (!options) {
    return tl::unexpected<Failure>(options.error());
  }
  tl::expected<optimizer::Update, std::string> update = optimizer::Update::make(*options);
  if (!update) {
    return fail(spillwayErrorNotSupported, "{}", update.error());
  }
  optimizer::Step step;
  step.step = static_cast<double>(adam.step);
  step.learning_rate = adam.learningRate;
  step.beta1 = adam.beta1;
  step.beta2 = adam.beta2;
  step.epsilon = adam.epsilon;
  step.weight_decay = adam.weightDecay;
  step.gradient_scale = adam.gradientScale;
  optimizer::Operands operands;
  operands.parameter = operands.parameter_out = adam.parameter;
  operands.gradient = adam.gradient;
  operands.first = operands.first_out = adam.expAvg;
  operands.second = operands.second_out = adam.expAvgSq;
  operands.max_second = operands.max_second_out = adam.maxExpAvgSq;
  return AdamStep{.update = *update, .step = step, .operands = operands, .elements = adam.count};
}

}  // namespace spillway::capi

extern "C" spillwayError_t spillwayNearAdamInit(spillwayNearAdam_t* adam, size_t size) {
  return spillway::capi::guarded([&]() -> spillway::capi::Outcome<void> {
    if (adam == nullptr) {
      return spillway::capi::is_null("adam");
    }
    if (size != sizeof(*adam)) {
      return spillway::capi::fail(spillwayErrorInvalidValue,
                                  "a step of {} bytes is of another version of this library", size);
    }
    const spillway::optimizer::Step defaults;
    spillwayNearAdam_t filled{};
    filled.size = size;
    filled.torchThreads = 1;
    filled.step = 1;
    filled.learningRate = defaults.learning_rate;
    filled.beta1 = defaults.beta1;
    filled.beta2 = defaults.beta2;
    filled.epsilon = defaults.epsilon;
    filled.weightDecay = defaults.weight_decay;
    filled.gradientScale = defaults.gradient_scale;
    *adam = filled;
    return {};
  });
}
