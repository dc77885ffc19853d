// Which elements of a tensor PyTorch's vectors compute, and which ones its scalar code behind them
// does: where the two round differently. Layer: optimizer.
#pragma once

#include <algorithm>
#include <cstddef>

#include "optimizer/numbers.h"

namespace spillway::optimizer {

// ATen gives each of `threads` a part of a tensor, as equal as can be, but no small ones.
inline std::size_t aten_part(std::size_t elements, std::size_t threads) {
  constexpr std::size_t kLeast = 32768;
  const std::size_t parts = std::min(threads, (elements + kLeast - 1) / kLeast);
  if (elements < kLeast || parts <= 1) return std::max<std::size_t>(elements, 1);
  return (elements + parts - 1) / parts;
}

// Calls visit(form, begin, end) for the pieces of [begin, end) of a tensor of `elements`. Each part
// of `part` elements has a tail behind its last `vector` elements.
template <class Visit>
void visit_parts(Form body, Form tail, std::size_t part, std::size_t vector, std::size_t elements,
                 std::size_t begin, std::size_t end, const Visit& visit) {
  for (std::size_t i = begin; i < end;) {
    const std::size_t start = i / part * part;
    const std::size_t stop = std::min(start + part, elements);
    const std::size_t full = stop - (stop - start) % vector;
    const std::size_t next = std::min(end, i < full ? full : stop);
    visit(i < full ? body : tail, i, next);
    i = next;
  }
}

template <class Visit>
void visit_pieces(const Options& options, std::size_t elements, std::size_t begin, std::size_t end,
                  const Visit& visit) {
  const bool bfloat16 = options.parameter_type == NumberType::kBfloat16;
  const auto visit_whole = [&](Form form) {
    if (begin < end) visit(form, begin, end);
  };
  switch (options.variant) {
    case Variant::kFusedCpu:  // its parts are whole cache lines
      return visit_parts(Form::kFusedVector, Form::kFusedTail, std::max<std::size_t>(elements, 1),
                         bfloat16 ? 16 : 8, elements, begin, end, visit);
    case Variant::kLoopCpu:
      if (!bfloat16 && !options.amsgrad) return visit_whole(Form::kLoop);
      return visit_parts(Form::kLoop, Form::kLoopTail, aten_part(elements, options.torch_threads),
                         bfloat16 ? 32 : 16, elements, begin, end, visit);
    case Variant::kLoopCuda:
      return visit_whole(Form::kLoopCuda);
    case Variant::kForeachCuda:
      return visit_whole(Form::kForeachCuda);
    case Variant::kFusedCuda:
      return visit_whole(Form::kFusedCuda);
  }
}

}  // namespace spillway::optimizer
