// A program whose framework hands out one range of unified memory by itself, as TensorFlow does:
// what the driver sees of it. Layer: runtime.
// AutoVM, section 6.3.1: the driver hears of one allocation at the start. A dead tensor's pages
// keep their contents for it, and move; the next tensor there finds them mapped.
#pragma once

#include <utility>
#include <vector>

#include "base/units.h"
#include "policy/planning/plan.h"
#include "trace/trace.h"

namespace spillway::reproduce {

struct Arena {
  // The kernels of the program over pieces of the range instead of tensors. A piece is a run of
  // whole pages in which the same tensors lie at one time or another, and is never dead.
  Trace trace;
  // By tensor: the pieces that it has a part in, first and last but one.
  std::vector<std::pair<TensorId, TensorId>> pieces;
  // By piece: whether several tensors that live at once have a part in it.
  std::vector<bool> shared;
};

// Each tensor lies in the smallest free hole that takes it from its first use to its last, in units
// of 256 bytes, weights before all others. The trace must be valid.
[[nodiscard]] Arena lay_out(const Trace& trace, Bytes page_bytes);

// What a plan for the tensors is for the pieces. Dead tensors free nothing. What is not the
// tensor's alone stays.
[[nodiscard]] Plan plan_of_arena(const Plan& plan, const Arena& arena);

}  // namespace spillway::reproduce
