// What the arguments of launches, copies and memsets say that they use. Layer: interpose, cuda.
#pragma once

#include "interpose/cuda/operands/kernel_layouts.h"
#include "interpose/cuda/operands/operands.h"

namespace spillway::cuda {

// The parameters of a launch in one block, as an alternative to pointers to each: from a list of
// what and value. Empty if it has none.
[[nodiscard]] std::span<const std::byte> parameter_block(void* const* extra);

// Of one launch, from its parameters as the program gives them. What any kernel may reach without
// being given it (Operands::add_what_is_everywhere) is for the caller to add, afterwards.
void add_parameters(Operands& operands, const KernelLayout& kernel, const AddressUse& use,
                    void* const* parameters, void* const* extra);
// Both sides of a copy.
void add_copy(Operands& operands, const CuCopy2d& copy);
void add_copy(Operands& operands, const CuCopy3d& copy);
void add_memset(Operands& operands, const CuMemsetNode& set);
// Where the first byte of a side lies.
[[nodiscard]] std::uint64_t first_byte(const CuCopy3d& copy, const CuCopy3d::Side& side);
// The words of values that are written and waited for.
void add_stream_operation(Operands& operands, const CuStreamOperation& operation);

}  // namespace spillway::cuda
