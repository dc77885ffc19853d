// Kernels that use only a little of a large operand, by their names. Layer: platform, common.
// docs/cuda.md. A wrong answer costs time only.
#pragma once

#include <string_view>

namespace spillway {

// Of those that PyTorch has: rows of a table by their numbers, read or added to.
[[nodiscard]] bool uses_a_little(std::string_view kernel_name);

}  // namespace spillway
