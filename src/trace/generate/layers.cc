// Layers of any network: linear, element-wise, normalization, loss. Layer: trace.
#include "trace/generate/layers.h"

#include <utility>

namespace spillway {
namespace {

double real(std::uint64_t count) { return static_cast<double>(count); }

// x -> y with dx = f(dy, kept): the shape of every layer without parameters.
void backward_of(TrainingStep& step, const std::string& name, TensorId x, TensorId y, TensorId kept,
                 double flops_per_element) {
  step.on_backward([=](TrainingStep& s) {
    const TensorId dx = s.new_gradient(x);
    s.emit(name + ".backward", {s.gradient(y), kept}, {dx}, flops_per_element * s.elements(x));
    s.add_gradient(x, dx);
  });
}

// Scale, shift and saved statistics, common to both normalizations.
struct Norm {
  TensorId scale, shift, mean, deviation;
};

void normalize_backward(TrainingStep& step, const std::string& name, TensorId x, TensorId y,
                        const Norm& norm) {
  step.on_backward([=](TrainingStep& s) {
    const TensorId dx = s.new_gradient(x);
    const TensorId dscale = s.new_gradient(norm.scale);
    const TensorId dshift = s.new_gradient(norm.shift);
    s.emit(name + ".backward", {x, s.gradient(y), norm.scale, norm.mean, norm.deviation},
           {dx, dscale, dshift}, 12 * s.elements(x));
    s.add_gradient(x, dx);
    s.add_gradient(norm.scale, dscale);
    s.add_gradient(norm.shift, dshift);
  });
}

}  // namespace

TensorId linear(TrainingStep& step, const std::string& name, TensorId x, std::uint64_t rows,
                std::uint64_t inputs, std::uint64_t outputs) {
  const TensorId weight = step.parameter(product({inputs, outputs}));
  const TensorId bias = step.parameter(outputs);
  const TensorId y = step.activation(product({rows, outputs}));
  const double flops = 2 * real(rows) * real(inputs) * real(outputs);
  step.emit(name + ".forward", {x, weight, bias}, {y}, flops);
  step.on_backward([=](TrainingStep& s) {
    const TensorId dy = s.gradient(y);
    if (s.needs_gradient(x)) {
      const TensorId dx = s.new_gradient(x);
      s.emit(name + ".backward_input", {dy, weight}, {dx}, flops);
      s.add_gradient(x, dx);
    }
    const TensorId dweight = s.new_gradient(weight);
    s.emit(name + ".backward_weight", {x, dy}, {dweight}, flops);
    s.add_gradient(weight, dweight);
    const TensorId dbias = s.new_gradient(bias);
    s.emit(name + ".backward_bias", {dy}, {dbias}, s.elements(y));
    s.add_gradient(bias, dbias);
  });
  return y;
}

TensorId activate(TrainingStep& step, const std::string& name, TensorId x, Keeps keeps) {
  const double flops_per_element = keeps == Keeps::kOutput ? 1 : 8;
  const TensorId y = step.activation_like(x);
  step.emit(name + ".forward", {x}, {y}, flops_per_element * step.elements(x));
  backward_of(step, name, x, y, keeps == Keeps::kOutput ? y : x, flops_per_element);
  return y;
}

void activate_in_place(TrainingStep& step, const std::string& name, TensorId x) {
  step.emit(name + ".forward", {x}, {x}, step.elements(x));
  step.on_backward([=](TrainingStep& s) {
    const TensorId dx = s.gradient(x);
    s.emit(name + ".backward", {dx, x}, {dx}, s.elements(x));
  });
}

void bias_in_place(TrainingStep& step, const std::string& name, TensorId x,
                   std::uint64_t channels) {
  const TensorId bias = step.parameter(channels);
  step.emit(name + ".forward", {x, bias}, {x}, step.elements(x));
  step.on_backward([=](TrainingStep& s) {
    const TensorId dbias = s.new_gradient(bias);
    s.emit(name + ".backward", {s.gradient(x)}, {dbias}, s.elements(x));
    s.add_gradient(bias, dbias);
  });
}

void add_in_place(TrainingStep& step, const std::string& name, TensorId a, TensorId b) {
  step.emit(name + ".forward", {a, b}, {a}, step.elements(a));
  step.on_backward([=](TrainingStep& s) { s.add_gradient(b, s.gradient(a)); });
}

TensorId residual_add(TrainingStep& step, const std::string& name, TensorId a, TensorId b) {
  const TensorId y = step.activation_like(a);
  step.emit(name + ".forward", {a, b}, {y}, step.elements(y));
  step.on_backward([=](TrainingStep& s) {
    s.add_gradient(a, s.gradient(y));
    s.add_gradient(b, s.gradient(y));
  });
  return y;
}

TensorId batch_norm(TrainingStep& step, const std::string& name, TensorId x,
                    std::uint64_t channels) {
  const TensorId running_mean = step.buffer(channels);
  const TensorId running_deviation = step.buffer(channels);
  const Norm norm{step.parameter(channels), step.parameter(channels), step.intermediate(channels),
                  step.intermediate(channels)};
  const TensorId y = step.activation_like(x);
  step.emit(name + ".forward", {x, norm.scale, norm.shift, running_mean, running_deviation},
            {y, norm.mean, norm.deviation, running_mean, running_deviation}, 8 * step.elements(x));
  normalize_backward(step, name, x, y, norm);
  return y;
}

TensorId layer_norm(TrainingStep& step, const std::string& name, TensorId x, std::uint64_t rows,
                    std::uint64_t width) {
  const Norm norm{step.parameter(width), step.parameter(width), step.intermediate(rows),
                  step.intermediate(rows)};
  const TensorId y = step.activation_like(x);
  step.emit(name + ".forward", {x, norm.scale, norm.shift}, {y, norm.mean, norm.deviation},
            8 * step.elements(x));
  normalize_backward(step, name, x, y, norm);
  return y;
}

TensorId dropout(TrainingStep& step, const std::string& name, TensorId x) {
  const TensorId y = step.activation_like(x);
  const TensorId mask = step.intermediate_bytes(static_cast<Bytes>(step.elements(x)));
  step.emit(name + ".forward", {x}, {y, mask}, 4 * step.elements(x));
  backward_of(step, name, x, y, mask, 1);
  return y;
}

TensorId embedding(TrainingStep& step, const std::string& name, TensorId ids, std::uint64_t rows,
                   std::uint64_t entries, std::uint64_t width) {
  const TensorId table = step.parameter(product({entries, width}));
  const TensorId y = step.activation(product({rows, width}));
  step.emit(name + ".forward", {table, ids}, {y}, 0);
  step.on_backward([=](TrainingStep& s) {
    const TensorId dtable = s.new_gradient(table);
    s.emit(name + ".backward", {s.gradient(y), ids}, {dtable}, s.elements(y));
    s.add_gradient(table, dtable);
  });
  return y;
}

void cross_entropy(TrainingStep& step, TensorId logits, std::uint64_t rows) {
  constexpr Bytes kLabelBytes = 8;
  const TensorId labels = step.input(product({rows, kLabelBytes}));
  const TensorId probabilities = step.activation_like(logits);
  const TensorId loss = step.intermediate(1);
  step.emit("softmax.forward", {logits}, {probabilities}, 8 * step.elements(logits));
  step.emit("loss.forward", {probabilities, labels}, {loss}, 2 * step.elements(labels));
  step.on_backward([=](TrainingStep& s) {
    const TensorId dlogits = s.new_gradient(logits);
    s.emit("loss.backward", {probabilities, labels, loss}, {dlogits}, 2 * s.elements(logits));
    s.add_gradient(logits, dlogits);
  });
}

}  // namespace spillway
