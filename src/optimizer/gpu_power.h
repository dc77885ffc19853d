// The power that fused Adam computes on a GPU. Layer: optimizer.
#pragma once

namespace spillway::optimizer {

// base to the power `exponent` in single precision, in the steps of CUDA's powf, for a base in [0,
// 1] and an exponent that is not negative. One of its steps is an approximate reciprocal, which the
// hardware defines to one unit in the last place; with the exact one, 1 minus the power has come
// out the same for every usual beta and step.
[[nodiscard]] float gpu_power(float base, float exponent);

}  // namespace spillway::optimizer
