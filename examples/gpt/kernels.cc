// See kernels.h. Sums over rows are made in the order of the rows, so that they round the same
// every time.
#include "kernels.h"

#include <cblas.h>

#include <algorithm>
#include <cmath>

namespace gpt {
namespace {

struct Matrix {
  const float* data;
  Index stride;
  bool transposed;
};

// out[rows][columns] = scale * a b + keep * out
void multiply(float* out, Index out_stride, const Matrix& a, const Matrix& b, Index rows,
              Index columns, Index inner, float scale, float keep) {
  cblas_sgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans,
              b.transposed ? CblasTrans : CblasNoTrans, static_cast<int>(rows),
              static_cast<int>(columns), static_cast<int>(inner), scale, a.data,
              static_cast<int>(a.stride), b.data, static_cast<int>(b.stride), keep, out,
              static_cast<int>(out_stride));
}

}  // namespace

void embed(float* out, const float* token_rows, const float* position_rows,
           std::span<const int> tokens, Index context, Index width) {
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    const auto at = static_cast<Index>(row);
    const float* const token = token_rows + tokens[row] * width;
    const float* const position = position_rows + at % context * width;
    for (Index i = 0; i < width; ++i) {
      out[at * width + i] = token[i] + position[i];
    }
  }
}

void embed_backward(float* d_token_rows, float* d_position_rows, const float* d_out,
                    std::span<const int> tokens, Index context, Index width) {
  std::fill_n(d_position_rows, context * width, 0.0F);
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    const auto at = static_cast<Index>(row);
    float* const token = d_token_rows + tokens[row] * width;
    float* const position = d_position_rows + at % context * width;
    for (Index i = 0; i < width; ++i) {
      token[i] += d_out[at * width + i];
      position[i] += d_out[at * width + i];
    }
  }
}

void layer_norm(float* out, float* statistics, const float* in, const float* gain,
                const float* bias, Index rows, Index width) {
  constexpr double kEpsilon = 1e-5;
  for (Index row = 0; row < rows; ++row) {
    const float* const x = in + row * width;
    double sum = 0;
    for (Index i = 0; i < width; ++i) {
      sum += x[i];
    }
    const double mean = sum / static_cast<double>(width);
    double squares = 0;
    for (Index i = 0; i < width; ++i) {
      squares += (x[i] - mean) * (x[i] - mean);
    }
    const double reciprocal = 1 / std::sqrt(squares / static_cast<double>(width) + kEpsilon);
    statistics[2 * row] = static_cast<float>(mean);
    statistics[2 * row + 1] = static_cast<float>(reciprocal);
    for (Index i = 0; i < width; ++i) {
      out[row * width + i] =
          (x[i] - statistics[2 * row]) * statistics[2 * row + 1] * gain[i] + bias[i];
    }
  }
}

void layer_norm_backward(float* d_in, float* d_gain, float* d_bias, const float* d_out,
                         const float* in, const float* statistics, const float* gain, Index rows,
                         Index width) {
  std::fill_n(d_gain, width, 0.0F);
  std::fill_n(d_bias, width, 0.0F);
  for (Index row = 0; row < rows; ++row) {
    const float* const x = in + row * width;
    const float* const d = d_out + row * width;
    const float mean = statistics[2 * row];
    const float reciprocal = statistics[2 * row + 1];
    double sum = 0;         // of the gradients of the normalised values
    double projection = 0;  // ... times those values
    for (Index i = 0; i < width; ++i) {
      const float normal = (x[i] - mean) * reciprocal;
      d_gain[i] += d[i] * normal;
      d_bias[i] += d[i];
      sum += d[i] * gain[i];
      projection += d[i] * gain[i] * normal;
    }
    const auto mean_sum = static_cast<float>(sum / static_cast<double>(width));
    const auto mean_projection = static_cast<float>(projection / static_cast<double>(width));
    for (Index i = 0; i < width; ++i) {
      const float normal = (x[i] - mean) * reciprocal;
      d_in[row * width + i] += reciprocal * (d[i] * gain[i] - mean_sum - normal * mean_projection);
    }
  }
}

void linear(float* out, const float* in, const float* weights, const float* bias,
            const float* residual, Index rows, Index inputs, Index outputs) {
  for (Index row = 0; row < rows; ++row) {
    for (Index i = 0; i < outputs; ++i) {
      out[row * outputs + i] = bias[i] + (residual == nullptr ? 0 : residual[row * outputs + i]);
    }
  }
  multiply(out, outputs, {in, inputs, false}, {weights, outputs, false}, rows, outputs, inputs, 1,
           1);
}

void linear_backward(float* d_in, float* d_weights, float* d_bias, const float* d_out,
                     const float* in, const float* weights, Index rows, Index inputs,
                     Index outputs) {
  multiply(d_in, inputs, {d_out, outputs, false}, {weights, outputs, true}, rows, inputs, outputs,
           1, 0);
  multiply(d_weights, outputs, {in, inputs, true}, {d_out, outputs, false}, inputs, outputs, rows,
           1, 0);
  std::fill_n(d_bias, outputs, 0.0F);
  for (Index row = 0; row < rows; ++row) {
    for (Index i = 0; i < outputs; ++i) {
      d_bias[i] += d_out[row * outputs + i];
    }
  }
}

void attention(float* out, float* probabilities, const float* qkv, const AttentionShape& shape) {
  const Index context = shape.context;
  const Index depth = shape.width / shape.heads;
  const Index stride = 3 * shape.width;
  const float scale = 1 / std::sqrt(static_cast<float>(depth));
  for (Index part = 0; part < shape.batch * shape.heads; ++part) {
    const Index first = part / shape.heads * context;
    const Index column = part % shape.heads * depth;
    const float* const queries = qkv + first * stride + column;
    float* const weights = probabilities + part * context * context;
    multiply(weights, context, {queries, stride, false}, {queries + shape.width, stride, true},
             context, context, depth, scale, 0);
    for (Index row = 0; row < context; ++row) {
      float* const p = weights + row * context;
      const float most = *std::max_element(p, p + row + 1);
      float sum = 0;
      for (Index i = 0; i <= row; ++i) {
        p[i] = std::exp(p[i] - most);
        sum += p[i];
      }
      for (Index i = 0; i <= row; ++i) {
        p[i] /= sum;
      }
      std::fill(p + row + 1, p + context, 0.0F);
    }
    multiply(out + first * shape.width + column, shape.width, {weights, context, false},
             {queries + 2 * shape.width, stride, false}, context, depth, context, 1, 0);
  }
}

void attention_backward(float* d_qkv, float* scratch, const float* d_out, const float* qkv,
                        const float* probabilities, const AttentionShape& shape) {
  const Index context = shape.context;
  const Index depth = shape.width / shape.heads;
  const Index stride = 3 * shape.width;
  const float scale = 1 / std::sqrt(static_cast<float>(depth));
  for (Index part = 0; part < shape.batch * shape.heads; ++part) {
    const Index first = part / shape.heads * context;
    const Index column = part % shape.heads * depth;
    const float* const queries = qkv + first * stride + column;
    const float* const keys = queries + shape.width;
    const float* const values = keys + shape.width;
    const float* const weights = probabilities + part * context * context;
    float* const d_queries = d_qkv + first * stride + column;
    const Matrix d{d_out + first * shape.width + column, shape.width, false};
    multiply(d_queries + 2 * shape.width, stride, {weights, context, true}, d, context, depth,
             context, 1, 0);
    multiply(scratch, context, d, {values, stride, true}, context, context, depth, 1, 0);
    for (Index row = 0; row < context; ++row) {
      const float* const p = weights + row * context;
      float* const s = scratch + row * context;
      float sum = 0;
      for (Index i = 0; i <= row; ++i) {
        sum += p[i] * s[i];
      }
      for (Index i = 0; i <= row; ++i) {
        s[i] = p[i] * (s[i] - sum);
      }
      std::fill(s + row + 1, s + context, 0.0F);
    }
    multiply(d_queries, stride, {scratch, context, false}, {keys, stride, false}, context, depth,
             context, scale, 0);
    multiply(d_queries + shape.width, stride, {scratch, context, true}, {queries, stride, false},
             context, depth, context, scale, 0);
  }
}

namespace {

// The approximation by tanh: x/2 (1 + tanh(a (x + b x^3))).
constexpr float kGeluA = 0.7978845608F;  // sqrt(2 / pi)
constexpr float kGeluB = 0.044715F;

}  // namespace

void gelu(float* out, const float* in, Index count) {
  for (Index i = 0; i < count; ++i) {
    const float x = in[i];
    out[i] = 0.5F * x * (1 + std::tanh(kGeluA * (x + kGeluB * x * x * x)));
  }
}

void gelu_backward(float* d, const float* in, Index count) {
  for (Index i = 0; i < count; ++i) {
    const float x = in[i];
    const float t = std::tanh(kGeluA * (x + kGeluB * x * x * x));
    const float inner = kGeluA * (1 + 3 * kGeluB * x * x);
    d[i] *= 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * inner;
  }
}

void head(float* logits, const float* in, const float* token_rows, Index rows, Index width,
          Index classes) {
  multiply(logits, classes, {in, width, false}, {token_rows, width, true}, rows, classes, width, 1,
           0);
}

void head_backward(float* d_in, float* d_token_rows, const float* d_logits, const float* in,
                   const float* token_rows, Index rows, Index width, Index classes) {
  multiply(d_in, width, {d_logits, classes, false}, {token_rows, width, false}, rows, width,
           classes, 1, 0);
  multiply(d_token_rows, width, {d_logits, classes, true}, {in, width, false}, classes, width, rows,
           1, 0);
}

double cross_entropy(float* logits, std::span<const int> targets, Index classes) {
  double loss = 0;
  const auto rows = static_cast<double>(targets.size());
  for (std::size_t row = 0; row < targets.size(); ++row) {
    float* const z = logits + static_cast<Index>(row) * classes;
    const double most = *std::max_element(z, z + classes);
    double sum = 0;
    for (Index i = 0; i < classes; ++i) {
      sum += std::exp(z[i] - most);
    }
    loss += std::log(sum) + most - z[targets[row]];
    for (Index i = 0; i < classes; ++i) {
      z[i] = static_cast<float>(std::exp(z[i] - most) / sum / rows);
    }
    z[targets[row]] -= static_cast<float>(1 / rows);
  }
  return loss / rows;
}

void adamw(float* values, float* first, float* second, const float* gradient, Index count,
           const AdamW& how, int step, bool decays) {
  const float unbias1 = 1 / (1 - std::pow(how.beta1, static_cast<float>(step)));
  const float unbias2 = 1 / (1 - std::pow(how.beta2, static_cast<float>(step)));
  const float keep = 1 - how.rate * (decays ? how.decay : 0);
  for (Index i = 0; i < count; ++i) {
    first[i] = how.beta1 * first[i] + (1 - how.beta1) * gradient[i];
    second[i] = how.beta2 * second[i] + (1 - how.beta2) * gradient[i] * gradient[i];
    values[i] = keep * values[i] -
                how.rate * first[i] * unbias1 / (std::sqrt(second[i] * unbias2) + how.epsilon);
  }
}

}  // namespace gpt
