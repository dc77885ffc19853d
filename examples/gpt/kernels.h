// What a GPT computes, on plain pointers: each function is the body of one launch. Layer: example.
// Matrices are row-major; a token is a row. Backward functions overwrite what they give unless a
// comment says that they add. The same inputs give the same bits.
#pragma once

#include <cstddef>
#include <span>

namespace gpt {

using Index = std::ptrdiff_t;

// Of one launch of attention: batch sequences of `context` tokens, `heads` of them in `width`.
struct AttentionShape {
  Index batch = 0;
  Index context = 0;
  Index heads = 0;
  Index width = 0;
};

// out[rows][width] = the tokens' rows of `tokens` + those of their positions.
void embed(float* out, const float* token_rows, const float* position_rows,
           std::span<const int> tokens, Index context, Index width);
// Adds to d_token_rows.
void embed_backward(float* d_token_rows, float* d_position_rows, const float* d_out,
                    std::span<const int> tokens, Index context, Index width);

// Keeps each row's mean and reciprocal deviation in statistics[2 * rows].
void layer_norm(float* out, float* statistics, const float* in, const float* gain,
                const float* bias, Index rows, Index width);
// Adds to d_in.
void layer_norm_backward(float* d_in, float* d_gain, float* d_bias, const float* d_out,
                         const float* in, const float* statistics, const float* gain, Index rows,
                         Index width);

// out[rows][outputs] = in[rows][inputs] weights[inputs][outputs] + bias (+ residual).
void linear(float* out, const float* in, const float* weights, const float* bias,
            const float* residual, Index rows, Index inputs, Index outputs);
void linear_backward(float* d_in, float* d_weights, float* d_bias, const float* d_out,
                     const float* in, const float* weights, Index rows, Index inputs,
                     Index outputs);

// Causal; qkv[rows][3 * width] holds queries, keys and values. Keeps the probabilities
// [batch][heads][context][context].
void attention(float* out, float* probabilities, const float* qkv, const AttentionShape& shape);
// scratch[context][context] holds anything afterwards.
void attention_backward(float* d_qkv, float* scratch, const float* d_out, const float* qkv,
                        const float* probabilities, const AttentionShape& shape);

void gelu(float* out, const float* in, Index count);
// In place: d becomes the gradient before the function from that behind it.
void gelu_backward(float* d, const float* in, Index count);

// logits[rows][classes] = in[rows][width] token_rows[classes][width]^T.
void head(float* logits, const float* in, const float* token_rows, Index rows, Index width,
          Index classes);
void head_backward(float* d_in, float* d_token_rows, const float* d_logits, const float* in,
                   const float* token_rows, Index rows, Index width, Index classes);

// The mean over the rows; logits become their own gradient.
[[nodiscard]] double cross_entropy(float* logits, std::span<const int> targets, Index classes);

struct AdamW {
  float rate = 1e-3F;
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float epsilon = 1e-8F;
  float decay = 0.1F;  // of weights that decay
};
// One step, counted from 1.
void adamw(float* values, float* first, float* second, const float* gradient, Index count,
           const AdamW& how, int step, bool decays);

}  // namespace gpt
