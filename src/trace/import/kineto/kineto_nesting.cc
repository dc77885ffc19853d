// A sweep over each thread with the stack of what is open. Layer: trace.
#include "trace/import/kineto/kineto_nesting.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "trace/import/iteration_choice.h"

namespace spillway {
namespace {

constexpr std::string_view kEngine = "autograd::engine::evaluate_function: ";

// aten::mm and mylib::fused, but not ReluBackward0 or torch::autograd::AccumulateGrad.
bool is_library_operator(const KinetoOperator& op, std::string_view name) {
  return !op.annotation && name.find("::") != std::string_view::npos &&
         !name.starts_with("autograd::") && !name.starts_with("torch::autograd::");
}

}  // namespace

std::vector<KinetoPlace> places_of(const KinetoFile& file) {
  const std::vector<KinetoOperator>& ops = file.operators;
  std::vector<std::uint32_t> order(ops.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&ops](std::uint32_t a, std::uint32_t b) {
    const KinetoOperator& x = ops[a];
    const KinetoOperator& y = ops[b];
    if (x.thread != y.thread) {
      return x.thread < y.thread;
    }
    return x.begin_ns != y.begin_ns ? x.begin_ns < y.begin_ns : x.end_ns > y.end_ns;
  });
  std::vector<KinetoPlace> places(ops.size());
  std::vector<std::uint32_t> open;
  for (const std::uint32_t i : order) {
    const KinetoOperator& op = ops[i];
    while (!open.empty() &&
           (ops[open.back()].thread != op.thread || ops[open.back()].end_ns <= op.begin_ns)) {
      open.pop_back();
    }
    const std::string_view name = file.names[op.name];
    KinetoPlace& place = places[i];
    place = open.empty() ? KinetoPlace{} : places[open.back()];
    if (place.outermost == KinetoPlace::kNone && is_library_operator(op, name)) {
      place.outermost = i;
    }
    if (name.starts_with(kEngine)) {
      place.backward = op.sequence;
    }
    place.in_optimizer = place.in_optimizer || (op.annotation && is_optimizer_step(name));
    open.push_back(i);
  }
  return places;
}

}  // namespace spillway
