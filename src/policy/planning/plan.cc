// Plans as programs. See plan.h.
#include "policy/planning/plan.h"

#include <fmt/format.h>

#include <iterator>

namespace spillway {
namespace {

void render(const PlanAction& action, const Trace& trace, std::string& out) {
  const Bytes bytes = trace.tensors[action.tensor].bytes;
  auto end = std::back_inserter(out);
  switch (action.step) {
    case PlanStep::kAlloc:
      fmt::format_to(end, "alloc(&tensor{}, {});\n", action.tensor, bytes);
      break;
    case PlanStep::kFree:
      fmt::format_to(end, "free(tensor{});\n", action.tensor);
      break;
    case PlanStep::kPrefetch:
      fmt::format_to(end, "prefetch(tensor{}, {});\n", action.tensor, bytes);
      break;
    case PlanStep::kPreEvict:
      fmt::format_to(end, "pre_evict(tensor{}, {}, {});\n", action.tensor, bytes,
                     name_of(action.to));
      break;
  }
}

}  // namespace

std::string render_program(const Plan& plan, const Trace& trace) {
  std::string out;
  for (KernelIndex index = 0; index < trace.kernels.size(); ++index) {
    for (const PlanAction& action : plan.before[index]) {
      render(action, trace, out);
    }
    const Kernel& kernel = trace.kernels[index];
    fmt::format_to(std::back_inserter(out), "// kernel {}, {}\n{}(", index,
                   format_time(kernel.duration_ns), kernel.name);
    std::string_view separator;
    for (const TensorId id : kernel.reads) {
      fmt::format_to(std::back_inserter(out), "{}tensor{}", separator, id);
      separator = ", ";
    }
    separator = kernel.reads.empty() ? "" : " -> ";
    for (const TensorId id : kernel.writes) {
      fmt::format_to(std::back_inserter(out), "{}tensor{}", separator, id);
      separator = ", ";
    }
    out += ");\n";
  }
  return out;
}

}  // namespace spillway
