// Trains a small model with Adam on the near device, and once more with a plain loop: the same
// losses. Uses Spillway's near device through its C++ header.
//   near_regression [FOLDER]      what does not fit goes to a file there; without it, to /var/tmp
//
// The model: y = w2 * relu(w1 * x), trained to imitate another one with the same form. Each of its
// two matrices has a channel of the device. Gradients are made from the last layer to the first, so
// the device updates w2 while the host still works on the gradient of w1. The states of w1 live on
// storage between the steps, as those of a model that the device's memory cannot hold would.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <spillway/near.hpp>
#include <vector>

namespace {

constexpr std::size_t kIn = 24;
constexpr std::size_t kHidden = 300;
constexpr std::size_t kOut = 20;
constexpr std::size_t kBatch = 16;
constexpr int kSteps = 60;
constexpr double kLearningRate = 0.01;

using Matrix = std::vector<float>;
using Weights = std::array<Matrix, 2>;

// Numbers from -scale to scale, the same on every machine.
Matrix noise(std::uint32_t seed, std::size_t count, float scale) {
  Matrix values(count);
  for (float& value : values) {
    seed = seed * 1664525U + 1013904223U;
    value = scale * (static_cast<float>(seed >> 8U) / 8388608.0F - 1.0F);
  }
  return values;
}

Weights weights(std::uint32_t seed) {
  return {noise(seed, kHidden * kIn, 0.4F), noise(seed + 1, kOut * kHidden, 0.1F)};
}

struct Activations {
  Matrix hidden;  // of each example in turn
  Matrix out;
};

Matrix product(const Matrix& matrix, std::size_t rows, const float* x, std::size_t columns) {
  Matrix y(rows);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) y[r] += matrix[r * columns + c] * x[c];
  }
  return y;
}

Activations forward(const Weights& w, const Matrix& inputs) {
  Activations all;
  for (std::size_t b = 0; b < kBatch; ++b) {
    Matrix hidden = product(w[0], kHidden, &inputs[b * kIn], kIn);
    for (float& value : hidden) value = std::max(value, 0.0F);
    const Matrix out = product(w[1], kOut, hidden.data(), kHidden);
    all.hidden.insert(all.hidden.end(), hidden.begin(), hidden.end());
    all.out.insert(all.out.end(), out.begin(), out.end());
  }
  return all;
}

// Who updates a layer, and has its parameters and states.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // The gradient of a layer is there; its update may begin.
  virtual void gradient_ready(std::size_t layer, const Matrix& gradient, int step) = 0;
  // All updates of the step are done: the new parameters.
  virtual void finish(Weights& w) = 0;
};

class PlainLoop final : public Optimizer {
 public:
  explicit PlainLoop(const Weights& w) : w_(w) {
    for (std::size_t layer = 0; layer < 2; ++layer) {
      first_[layer].resize(w[layer].size());
      second_[layer].resize(w[layer].size());
    }
  }
  void gradient_ready(std::size_t layer, const Matrix& gradient, int step) override {
    const spillway::NearAdam numbers;
    const double correction1 = 1 - std::pow(numbers.beta1, step);
    const double correction2 = 1 - std::pow(numbers.beta2, step);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const double g = gradient[i];
      const double m = numbers.beta1 * first_[layer][i] + (1 - numbers.beta1) * g;
      const double v = numbers.beta2 * second_[layer][i] + (1 - numbers.beta2) * g * g;
      first_[layer][i] = static_cast<float>(m);
      second_[layer][i] = static_cast<float>(v);
      w_[layer][i] -= static_cast<float>(kLearningRate * (m / correction1) /
                                         (std::sqrt(v / correction2) + numbers.epsilon));
    }
  }
  void finish(Weights& w) override { w = w_; }

 private:
  Weights w_, first_, second_;
};

class OnDevice final : public Optimizer {
 public:
  OnDevice(const Weights& w, const char* folder)
      : storage_(near_.register_storage(folder, 16 << 20)) {
    for (std::uint32_t layer = 0; layer < 2; ++layer) {
      const std::size_t size = w[layer].size();
      layers_[layer] = {{near_, size, layer},
                        {near_, size, layer},
                        {near_, size, layer},
                        {near_, size, layer},
                        {}};
      layers_[layer].parameter.copy_from(w[layer]);
    }
    evicted_ = {spillway::NearPlace(near_, layers_[0].first.size_bytes(), storage_),
                spillway::NearPlace(near_, layers_[0].second.size_bytes(), storage_)};
    evict();
  }

  void gradient_ready(std::size_t layer, const Matrix& gradient, int step) override {
    Layer& at = layers_[layer];
    if (layer == 0) {
      near_.copy(at.first.location(), evicted_[0].location(), at.first.size_bytes());
      near_.copy(at.second.location(), evicted_[1].location(), at.second.size_bytes());
    }
    at.gradient.copy_from(gradient);
    spillway::NearAdam adam;
    adam.parameter = at.parameter.data();
    adam.gradient = at.gradient.data();
    adam.expAvg = at.first.data();
    adam.expAvgSq = at.second.data();
    adam.count = at.parameter.size();
    adam.step = static_cast<std::uint64_t>(step);
    adam.learningRate = kLearningRate;
    const auto channel = static_cast<std::uint32_t>(layer);
    near_.set_mode(channel, spillwayNearModeAcceleration);
    at.update = near_.launch(adam, channel);
  }

  void finish(Weights& w) override {
    for (std::uint32_t layer = 0; layer < 2; ++layer) {
      layers_[layer].update.wait();
      near_.set_mode(layer, spillwayNearModeNormal);
      layers_[layer].parameter.copy_to(w[layer]);
    }
    evict();
  }

  void report() const {
    const spillwayNearStatistics_t all = near_.statistics();
    std::printf("copied: %llu bytes to the device, %llu back, %llu to storage, %llu from there\n",
                count(all.copiedBytes[spillwayNearSideHost][spillwayNearSideNear]),
                count(all.copiedBytes[spillwayNearSideNear][spillwayNearSideHost]),
                count(all.copiedBytes[spillwayNearSideNear][spillwayNearSideStorage]),
                count(all.copiedBytes[spillwayNearSideStorage][spillwayNearSideNear]));
    for (std::uint32_t channel = 0; channel < 2; ++channel) {
      const spillwayNearChannelStatistics_t one = near_.statistics(channel);
      std::printf("channel %u: %llu kernels in %.3f ms, %llu changes of mode\n", channel,
                  count(one.kernels), static_cast<double>(one.kernelNs) / 1e6,
                  count(one.modeSwitches));
    }
  }

 private:
  struct Layer {
    spillway::NearBuffer<float> parameter, gradient, first, second;
    spillway::NearKernel update;
  };
  static unsigned long long count(std::uint64_t number) { return number; }
  void evict() {
    near_.copy(evicted_[0].location(), layers_[0].first.location(), layers_[0].first.size_bytes());
    near_.copy(evicted_[1].location(), layers_[0].second.location(),
               layers_[0].second.size_bytes());
  }

  spillway::NearDevice near_;
  std::uint32_t storage_;
  std::array<Layer, 2> layers_;
  std::array<spillway::NearPlace, 2> evicted_;
};

// The losses, one for each step.
std::vector<double> train(Optimizer& optimizer, Weights w) {
  const Weights teacher = weights(1000);
  std::vector<double> losses;
  for (int step = 1; step <= kSteps; ++step) {
    const Matrix inputs = noise(static_cast<std::uint32_t>(step), kBatch * kIn, 1.0F);
    const Matrix wanted = forward(teacher, inputs).out;
    const Activations now = forward(w, inputs);
    double loss = 0;
    Matrix error(now.out.size());
    for (std::size_t i = 0; i < error.size(); ++i) {
      error[i] = (now.out[i] - wanted[i]) / static_cast<float>(kBatch);
      loss += 0.5 * static_cast<double>(error[i]) * error[i] * kBatch;
    }
    losses.push_back(loss);
    std::array<Matrix, 2> gradients{Matrix(w[0].size()), Matrix(w[1].size())};
    for (std::size_t b = 0; b < kBatch; ++b) {
      for (std::size_t o = 0; o < kOut; ++o) {
        for (std::size_t h = 0; h < kHidden; ++h) {
          gradients[1][o * kHidden + h] += error[b * kOut + o] * now.hidden[b * kHidden + h];
        }
      }
    }
    optimizer.gradient_ready(1, gradients[1], step);
    for (std::size_t b = 0; b < kBatch; ++b) {
      for (std::size_t h = 0; h < kHidden; ++h) {
        float slope = 0;
        for (std::size_t o = 0; o < kOut; ++o) {
          slope += error[b * kOut + o] * w[1][o * kHidden + h];
        }
        slope = now.hidden[b * kHidden + h] > 0 ? slope : 0;
        for (std::size_t i = 0; i < kIn; ++i) {
          gradients[0][h * kIn + i] += slope * inputs[b * kIn + i];
        }
      }
    }
    optimizer.gradient_ready(0, gradients[0], step);
    optimizer.finish(w);
  }
  return losses;
}

}  // namespace

int main(int argc, char** argv) try {
  const Weights start = weights(1);
  OnDevice device(start, argc > 1 ? argv[1] : "/var/tmp");
  PlainLoop loop(start);
  const std::vector<double> on_device = train(device, start);
  const std::vector<double> plain = train(loop, start);
  double largest = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    largest = std::max(largest, std::abs(on_device[i] - plain[i]) / plain[i]);
  }
  std::printf("loss: %.6f at first, %.6f in the end; a plain loop: %.6f\n", on_device.front(),
              on_device.back(), plain.back());
  device.report();
  std::printf("largest difference from the plain loop: %.2g of a loss\n", largest);
  const bool fine = largest < 1e-3 && on_device.back() < 0.5 * on_device.front();
  std::puts(fine ? "the same" : "NOT the same");
  return fine ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "near_regression: %s\n", error.what());
  return 1;
}
