// Which memory an optimizer step reads and writes, and whether it may be asked for. Layer:
// platform, near.
#pragma once

#include <cstddef>
#include <vector>

#include "base/error.h"
#include "optimizer/update.h"
#include "platform/near/memory/channel.h"

namespace spillway::near {

struct OperandSpan {
  const char* name;  // for people
  Span span;
};

// Without those that the rule does not read, and without gradients that are written back divided:
// here nobody wants them.
[[nodiscard]] optimizer::Operands needed_operands(const optimizer::Options& options,
                                                  const optimizer::Step& step,
                                                  const optimizer::Operands& operands);

// Of such operands, every one once. kInvalidInput: no elements, one that the rule needs is missing,
// one is not aligned to its numbers, or a result overlaps something other than its own input.
[[nodiscard]] Result<std::vector<OperandSpan>> operand_spans(const optimizer::Options& options,
                                                             const optimizer::Step& step,
                                                             const optimizer::Operands& operands,
                                                             std::size_t elements);

}  // namespace spillway::near
