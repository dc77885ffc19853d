// Tensor vitality: one pass lists the uses of each tensor, a second reads the gaps off the lists.
#include "analysis/vitality.h"

#include <cstddef>
#include <limits>
#include <span>

namespace spillway {
namespace {

// The kernels that use each tensor, in order, each once. Rows lie one behind the other in one
// array: a trace has tens of thousands of tensors with few uses each.
class UseLists {
 public:
  explicit UseLists(const Trace& trace) : row_start_(trace.tensors.size() + 1, 0) {
    for_each_use(trace, [&](TensorId tensor, KernelIndex) { ++row_start_[tensor + 1]; });
    for (std::size_t row = 1; row < row_start_.size(); ++row) {
      row_start_[row] += row_start_[row - 1];
    }
    uses_.resize(row_start_.back());
    std::vector<std::size_t> next = row_start_;
    for_each_use(trace,
                 [&](TensorId tensor, KernelIndex kernel) { uses_[next[tensor]++] = kernel; });
  }

  [[nodiscard]] std::span<const KernelIndex> of(TensorId tensor) const {
    return {uses_.data() + row_start_[tensor], uses_.data() + row_start_[tensor + 1]};
  }
  [[nodiscard]] std::size_t size() const { return uses_.size(); }

 private:
  // A tensor that a kernel both reads and writes is one use.
  template <typename Visit>
  static void for_each_use(const Trace& trace, Visit visit) {
    constexpr KernelIndex kNever = std::numeric_limits<KernelIndex>::max();
    std::vector<KernelIndex> seen(trace.tensors.size(), kNever);
    for (KernelIndex kernel = 0; kernel < trace.kernels.size(); ++kernel) {
      for (const auto* operands : {&trace.kernels[kernel].reads, &trace.kernels[kernel].writes}) {
        for (const TensorId tensor : *operands) {
          if (seen[tensor] != kernel) {
            seen[tensor] = kernel;
            visit(tensor, kernel);
          }
        }
      }
    }
  }

  std::vector<std::size_t> row_start_;
  std::vector<KernelIndex> uses_;
};

std::vector<TimeNs> kernel_starts(const Trace& trace) {
  std::vector<TimeNs> starts;
  starts.reserve(trace.kernels.size() + 1);
  TimeNs now_ns = 0;
  for (const Kernel& kernel : trace.kernels) {
    starts.push_back(now_ns);
    now_ns += kernel.duration_ns;
  }
  starts.push_back(now_ns);
  return starts;
}

}  // namespace

Vitality analyze_vitality(const Trace& trace) {
  Vitality vitality;
  vitality.kernel_start_ns = kernel_starts(trace);
  vitality.lives.resize(trace.tensors.size());
  const TimeNs iteration_ns = vitality.kernel_start_ns.back();
  const UseLists uses(trace);
  vitality.periods.reserve(uses.size());

  // Neighbouring uses leave no time between them, hence no period.
  const auto add_period = [&](const InactivePeriod& period) {
    if (period.length_ns() > 0) {
      vitality.periods.push_back(period);
    }
  };
  for (TensorId tensor = 0; tensor < trace.tensors.size(); ++tensor) {
    const auto row = uses.of(tensor);
    if (row.empty()) {
      continue;
    }
    vitality.lives[tensor] = TensorLife{row.front(), row.back()};
    for (std::size_t i = 1; i < row.size(); ++i) {
      add_period({tensor, row[i - 1], row[i], false, vitality.kernel_start_ns[row[i - 1] + 1],
                  vitality.kernel_start_ns[row[i]]});
    }
    if (trace.tensors[tensor].persistent) {
      add_period({tensor, row.back(), row.front(), true, vitality.kernel_start_ns[row.back() + 1],
                  iteration_ns + vitality.kernel_start_ns[row.front()]});
    }
  }
  return vitality;
}

}  // namespace spillway
