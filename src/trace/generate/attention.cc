// Multi-head attention: projections, scores, softmax, dropout, context. Layer: trace.
#include "trace/generate/layers.h"

namespace spillway {
namespace {

// c = a b for a batch of matrices, with both gradients.
TensorId matrix_product(TrainingStep& step, const std::string& name, TensorId a, TensorId b,
                        std::uint64_t outputs, double flops) {
  const TensorId c = step.activation(outputs);
  step.emit(name + ".forward", {a, b}, {c}, flops);
  step.on_backward([=](TrainingStep& s) {
    const TensorId dc = s.gradient(c);
    const TensorId da = s.new_gradient(a);
    s.emit(name + ".backward_left", {dc, b}, {da}, flops);
    s.add_gradient(a, da);
    const TensorId db = s.new_gradient(b);
    s.emit(name + ".backward_right", {dc, a}, {db}, flops);
    s.add_gradient(b, db);
  });
  return c;
}

}  // namespace

TensorId attention(TrainingStep& step, const std::string& name, TensorId x,
                   const Attention& shape) {
  const std::uint64_t rows = product({shape.batch, shape.sequence});
  const std::uint64_t scores = product({rows, shape.heads, shape.sequence});
  const auto project = [&](const std::string& part, TensorId from) {
    return linear(step, name + "." + part, from, rows, shape.width, shape.width);
  };
  const TensorId query = project("query", x);
  const TensorId key = project("key", x);
  const TensorId value = project("value", x);
  // Each head works on width / heads columns, so the heads together cost as much as one.
  const double flops = 2 * static_cast<double>(rows) * static_cast<double>(shape.sequence) *
                       static_cast<double>(shape.width);
  const TensorId raw = matrix_product(step, name + ".scores", query, key, scores, flops);
  const TensorId probabilities = activate(step, name + ".softmax", raw, Keeps::kOutput);
  const TensorId kept = dropout(step, name + ".dropout", probabilities);
  const TensorId context =
      matrix_product(step, name + ".context", kept, value, product({rows, shape.width}), flops);
  return project("output", context);
}

}  // namespace spillway
