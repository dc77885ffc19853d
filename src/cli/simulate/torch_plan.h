// A plan as a file of Python: the instrumented program of G10's figure 9, which a script of PyTorch
// imports and python/spillway/instrumented carries out. Layer: cli. docs/commands.md.
#pragma once

#include <string>

#include "base/error.h"
#include "machine/machine.h"
#include "policy/planning/plan.h"
#include "trace/trace.h"

namespace spillway {

// What stands in the opening lines of the file.
struct TorchPlanSource {
  std::string policy;
  std::string machine;
  Bytes device_bytes = 0;  // what was planned for
};

// Smaller tensors are known by their sizes to too many: they stay where they are.
inline constexpr Bytes kLeastTorchPlanBytes = kMiB;

// `plan` must be one of `trace`. kInvalidInput where a kernel is no operator of PyTorch: a script
// launches operators, and nobody says which of a GPU's kernels are whose.
[[nodiscard]] Result<std::string> render_torch_plan(const Plan& plan, const Trace& trace,
                                                    const TorchPlanSource& source);

}  // namespace spillway
