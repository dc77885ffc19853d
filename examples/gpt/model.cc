// See model.h.
#include "model.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>
#include <ranges>

namespace gpt {
namespace {

// Normal numbers that are the same with every standard library.
class Normal {
 public:
  explicit Normal(std::uint64_t seed) : bits_(seed) {}
  float operator()() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return static_cast<float>(radius * std::cos(2 * std::numbers::pi * uniform()));
  }

 private:
  double uniform() { return static_cast<double>(bits_() >> 11U) * 0x1p-53; }
  std::mt19937_64 bits_;
};

void fill(Memory& memory, Array& array, float deviation, Normal& normal) {
  memory.launch("initialize", {overwrites(array)}, [&] {
    for (std::size_t i = 0; i < array.size(); ++i) {
      array.data()[i] = deviation * normal();
    }
  });
}

void fill(Memory& memory, Array& array, Index from, Index count, float value) {
  memory.launch("initialize", {writes_part(array)},
                [&] { std::fill_n(array.data() + from, count, value); });
}

}  // namespace

Model::Model(Memory& memory, const Shape& shape, std::uint64_t seed, float deviation)
    : memory_(&memory), shape_(shape), layers_(static_cast<std::size_t>(shape.layers)) {
  const auto make = [&](Index size) { return memory.make(static_cast<std::size_t>(size)); };
  const auto parameter = [&](Index size, bool decays) {
    return Parameter{make(size), make(size), make(size), make(size), decays};
  };
  Normal normal(seed);
  const Index width = shape.width;
  const Index rows = shape.tokens();
  const float shrunk = deviation / std::sqrt(2 * static_cast<float>(shape.layers));
  token_rows_ = parameter(kBytes * width, true);
  fill(memory, token_rows_.values, deviation, normal);
  position_rows_ = parameter(shape.context * width, true);
  fill(memory, position_rows_.values, deviation, normal);
  final_norm_ = parameter(2 * width, false);
  fill(memory, final_norm_.values, 0, width, 1);
  for (Layer& layer : layers_) {
    layer.qkv = parameter(3 * width * width, true);
    fill(memory, layer.qkv.values, deviation, normal);
    layer.project = parameter(width * width, true);
    fill(memory, layer.project.values, shrunk, normal);
    layer.up = parameter(4 * width * width, true);
    fill(memory, layer.up.values, deviation, normal);
    layer.down = parameter(4 * width * width, true);
    fill(memory, layer.down.values, shrunk, normal);
    layer.vectors = parameter(kVectors * width, false);
    fill(memory, layer.vectors.values, kNorm1Gain * width, width, 1);
    fill(memory, layer.vectors.values, kNorm2Gain * width, width, 1);
    layer.in = make(rows * width);
    layer.norm1 = make(rows * width);
    layer.statistics1 = make(2 * rows);
    layer.attended = make(rows * 3 * width);
    layer.probabilities = make(rows * shape.heads * shape.context);
    layer.mixed = make(rows * width);
    layer.middle = make(rows * width);
    layer.norm2 = make(rows * width);
    layer.statistics2 = make(2 * rows);
    layer.raised = make(rows * 4 * width);
    layer.bent = make(rows * 4 * width);
  }
  out_ = make(rows * width);
  final_ = make(rows * width);
  final_statistics_ = make(2 * rows);
  logits_ = make(rows * kBytes);
  d_stream_ = make(rows * width);
  d_narrow_ = make(rows * width);
  d_qkv_ = make(rows * 3 * width);
  d_wide_ = make(rows * 4 * width);
  scratch_ = make(shape.context * shape.context);
}

std::vector<Parameter*> Model::parameters() {
  std::vector<Parameter*> all{&token_rows_, &position_rows_, &final_norm_};
  for (Layer& layer : layers_) {
    all.insert(all.end(), {&layer.qkv, &layer.project, &layer.up, &layer.down, &layer.vectors});
  }
  return all;
}

// --- One launch each ---------------------------------------------------------------------------

void Model::norm(const Array& in, Layer& layer, int gain, Array& out, Array& statistics) {
  Array& vectors = layer.vectors.values;
  memory_->launch("layer_norm",
                  {reads(in), reads(vectors), overwrites(out), overwrites(statistics)}, [&] {
                    layer_norm(out.data(), statistics.data(), in.data(), vector(vectors, gain),
                               vector(vectors, gain + 1), shape_.tokens(), shape_.width);
                  });
}

void Model::norm_backward(const Array& in, Layer& layer, int gain, const Array& statistics) {
  Array& vectors = layer.vectors.values;
  Array& d_vectors = layer.vectors.gradient;
  memory_->launch("layer_norm_backward",
                  {reads(in), reads(statistics), reads(vectors), reads(d_narrow_),
                   updates(d_stream_), writes_part(d_vectors)},
                  [&] {
                    layer_norm_backward(d_stream_.data(), vector(d_vectors, gain),
                                        vector(d_vectors, gain + 1), d_narrow_.data(), in.data(),
                                        statistics.data(), vector(vectors, gain), shape_.tokens(),
                                        shape_.width);
                  });
}

void Model::linear_launch(Array& out, const Array& in, Layer& layer, Parameter& weights, int bias,
                          const Array* residual) {
  const auto rows = shape_.tokens();
  const Index inputs = static_cast<Index>(in.size()) / rows;
  const Index outputs = static_cast<Index>(out.size()) / rows;
  memory_->launch("linear",
                  {reads(in), reads(weights.values), reads(layer.vectors.values),
                   reads(residual == nullptr ? in : *residual), overwrites(out)},
                  [&] {
                    linear(out.data(), in.data(), weights.values.data(),
                           vector(layer.vectors.values, bias),
                           residual == nullptr ? nullptr : residual->data(), rows, inputs, outputs);
                  });
}

void Model::linear_backward_launch(Array& d_in, const Array& d_out, const Array& in, Layer& layer,
                                   Parameter& weights, int bias) {
  const auto rows = shape_.tokens();
  const Index inputs = static_cast<Index>(in.size()) / rows;
  const Index outputs = static_cast<Index>(d_out.size()) / rows;
  memory_->launch("linear_backward",
                  {reads(d_out), reads(in), reads(weights.values), overwrites(d_in),
                   overwrites(weights.gradient), writes_part(layer.vectors.gradient)},
                  [&] {
                    linear_backward(d_in.data(), weights.gradient.data(),
                                    vector(layer.vectors.gradient, bias), d_out.data(), in.data(),
                                    weights.values.data(), rows, inputs, outputs);
                  });
}

// --- Passes ------------------------------------------------------------------------------------

void Model::forward(Layer& layer, Array& out) {
  const AttentionShape attention_shape{shape_.batch, shape_.context, shape_.heads, shape_.width};
  norm(layer.in, layer, kNorm1Gain, layer.norm1, layer.statistics1);
  linear_launch(layer.attended, layer.norm1, layer, layer.qkv, kQkvBias, nullptr);
  memory_->launch("attention",
                  {reads(layer.attended), overwrites(layer.probabilities), overwrites(layer.mixed)},
                  [&] {
                    attention(layer.mixed.data(), layer.probabilities.data(), layer.attended.data(),
                              attention_shape);
                  });
  linear_launch(layer.middle, layer.mixed, layer, layer.project, kProjectBias, &layer.in);
  norm(layer.middle, layer, kNorm2Gain, layer.norm2, layer.statistics2);
  linear_launch(layer.raised, layer.norm2, layer, layer.up, kUpBias, nullptr);
  memory_->launch("gelu", {reads(layer.raised), overwrites(layer.bent)}, [&] {
    gelu(layer.bent.data(), layer.raised.data(), static_cast<Index>(layer.raised.size()));
  });
  linear_launch(out, layer.bent, layer, layer.down, kDownBias, &layer.middle);
}

void Model::backward(Layer& layer) {
  const AttentionShape attention_shape{shape_.batch, shape_.context, shape_.heads, shape_.width};
  const auto dead = [&](Array& array) { memory_->discard(array); };
  linear_backward_launch(d_wide_, d_stream_, layer.bent, layer, layer.down, kDownBias);
  dead(layer.bent);
  memory_->launch("gelu_backward", {reads(layer.raised), updates(d_wide_)}, [&] {
    gelu_backward(d_wide_.data(), layer.raised.data(), static_cast<Index>(layer.raised.size()));
  });
  dead(layer.raised);
  linear_backward_launch(d_narrow_, d_wide_, layer.norm2, layer, layer.up, kUpBias);
  dead(layer.norm2);
  dead(d_wide_);
  norm_backward(layer.middle, layer, kNorm2Gain, layer.statistics2);
  dead(layer.middle);
  dead(layer.statistics2);
  linear_backward_launch(d_narrow_, d_stream_, layer.mixed, layer, layer.project, kProjectBias);
  dead(layer.mixed);
  memory_->launch("attention_backward",
                  {reads(d_narrow_), reads(layer.attended), reads(layer.probabilities),
                   overwrites(scratch_), overwrites(d_qkv_)},
                  [&] {
                    attention_backward(d_qkv_.data(), scratch_.data(), d_narrow_.data(),
                                       layer.attended.data(), layer.probabilities.data(),
                                       attention_shape);
                  });
  dead(layer.attended);
  dead(layer.probabilities);
  linear_backward_launch(d_narrow_, d_qkv_, layer.norm1, layer, layer.qkv, kQkvBias);
  dead(layer.norm1);
  dead(d_qkv_);
  norm_backward(layer.in, layer, kNorm1Gain, layer.statistics1);
  dead(layer.in);
  dead(layer.statistics1);
}

double Model::run(std::span<const int> tokens, std::span<const int> targets) {
  const Index rows = shape_.tokens();
  const Index width = shape_.width;
  Array& first = layers_.empty() ? out_ : layers_.front().in;
  memory_->launch(
      "embed", {reads(token_rows_.values), reads(position_rows_.values), overwrites(first)}, [&] {
        embed(first.data(), token_rows_.values.data(), position_rows_.values.data(), tokens,
              shape_.context, width);
      });
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    forward(layers_[i], i + 1 < layers_.size() ? layers_[i + 1].in : out_);
  }
  float* const gain = final_norm_.values.data();
  memory_->launch(
      "layer_norm",
      {reads(out_), reads(final_norm_.values), overwrites(final_), overwrites(final_statistics_)},
      [&] {
        layer_norm(final_.data(), final_statistics_.data(), out_.data(), gain, gain + width, rows,
                   width);
      });
  memory_->launch("head", {reads(final_), reads(token_rows_.values), overwrites(logits_)}, [&] {
    head(logits_.data(), final_.data(), token_rows_.values.data(), rows, width, kBytes);
  });
  double loss = 0;
  memory_->launch("cross_entropy", {updates(logits_)},
                  [&] { loss = cross_entropy(logits_.data(), targets, kBytes); });

  memory_->launch("head_backward",
                  {reads(logits_), reads(final_), reads(token_rows_.values), overwrites(d_narrow_),
                   overwrites(token_rows_.gradient)},
                  [&] {
                    head_backward(d_narrow_.data(), token_rows_.gradient.data(), logits_.data(),
                                  final_.data(), token_rows_.values.data(), rows, width, kBytes);
                  });
  memory_->discard(logits_);
  memory_->discard(final_);
  memory_->launch("layer_norm_backward",
                  {reads(out_), reads(final_statistics_), reads(final_norm_.values),
                   reads(d_narrow_), overwrites(d_stream_), overwrites(final_norm_.gradient)},
                  [&] {
                    std::fill_n(d_stream_.data(), rows * width, 0.0F);
                    float* const d_gain = final_norm_.gradient.data();
                    layer_norm_backward(d_stream_.data(), d_gain, d_gain + width, d_narrow_.data(),
                                        out_.data(), final_statistics_.data(), gain, rows, width);
                  });
  memory_->discard(out_);
  memory_->discard(final_statistics_);
  for (Layer& layer : std::views::reverse(layers_)) {
    backward(layer);
  }
  memory_->launch(
      "embed_backward",
      {reads(d_stream_), updates(token_rows_.gradient), overwrites(position_rows_.gradient)}, [&] {
        embed_backward(token_rows_.gradient.data(), position_rows_.gradient.data(),
                       d_stream_.data(), tokens, shape_.context, width);
      });
  for (Array* const done : {&d_stream_, &d_narrow_, &scratch_}) {
    memory_->discard(*done);
  }
  return loss;
}

void Model::update(const AdamW& how) {
  ++steps_;
  for (Parameter* const one : parameters()) {
    memory_->launch(
        "adamw",
        {updates(one->values), reads(one->gradient), updates(one->first), updates(one->second)},
        [&] {
          adamw(one->values.data(), one->first.data(), one->second.data(), one->gradient.data(),
                static_cast<Index>(one->values.size()), how, steps_, one->decays);
        });
    memory_->discard(one->gradient);
  }
}

}  // namespace gpt
