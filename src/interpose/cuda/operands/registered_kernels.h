// Kernels of which the program's language says what they do with their parameters: those that
// torch.compile makes (python/spillway/triton_kernels.py). Layer: interpose, cuda. Thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace spillway::cuda {

// The letter of a parameter through which it only reads; there is one for each.
inline constexpr char kOnlyRead = 'r';

// What has been told of the function that has this name and as many parameters; "": nothing. There
// may be fewer letters than parameters: Triton adds some that are always null.
[[nodiscard]] std::string registered_roles(const void* function, std::string_view name,
                                           std::size_t parameters);
// Code has gone of which nobody tells.
void forget_registered_kernels();

}  // namespace spillway::cuda
