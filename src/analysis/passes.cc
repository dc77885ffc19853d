// Turns one by one, each where most of what is left lies idle. See passes.h.
#include "analysis/passes.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "analysis/sweep.h"

namespace spillway {
namespace {

constexpr std::size_t kFewTensors = 4;
// A turn has at least this part of the tensors that lie idle at the first one.
constexpr std::size_t kOfTheMost = 4;

// Gaps between uses that may span a turn.
struct Gap {
  KernelIndex from = 0;  // the first kernel in it
  KernelIndex to = 0;    // the kernel that ends it
};

// The last kernel that uses a gradient updates a parameter or a state of its size.
bool is_gradient(const Trace& trace, const TensorLife& life, Bytes bytes) {
  const std::vector<TensorId>& writes = trace.kernels[life.last_use].writes;
  return std::any_of(writes.begin(), writes.end(), [&](TensorId id) {
    return trace.tensors[id].persistent && trace.tensors[id].bytes == bytes;
  });
}

std::vector<Gap> gaps_of(const Trace& trace, const Vitality& vitality) {
  std::vector<Gap> gaps;
  for (const InactivePeriod& period : vitality.periods) {
    const Tensor& tensor = trace.tensors[period.tensor];
    const auto& life = vitality.lives[period.tensor];
    if (!period.wraps && !tensor.persistent && life && !is_gradient(trace, *life, tensor.bytes)) {
      gaps.push_back({period.after + 1, period.until});
    }
  }
  return gaps;
}

// How many lie idle during each kernel.
std::vector<Bytes> idle_tensors(const std::vector<Gap>& gaps, std::size_t kernels) {
  Sweep idle(kernels);
  for (const Gap& gap : gaps) {
    idle.add(gap.from, gap.to, 1);
  }
  return idle.totals();
}

std::vector<KernelIndex> turns_of(std::vector<Gap> gaps, std::size_t kernels) {
  std::vector<KernelIndex> turns;
  std::size_t enough = kFewTensors;
  while (true) {
    const std::vector<Bytes> idle = idle_tensors(gaps, kernels);
    const auto most = std::max_element(idle.begin(), idle.end());
    if (most == idle.end() || *most < enough) {
      break;
    }
    // Everything is kept and nothing read yet until the first kernel of the backward pass.
    const auto behind = std::find_if(most, idle.end(), [&](Bytes each) { return each < *most; });
    const auto turn = static_cast<KernelIndex>(behind - idle.begin());
    enough = std::max<std::size_t>(enough, *most / kOfTheMost);
    turns.push_back(turn);
    std::erase_if(gaps, [turn](const Gap& gap) { return gap.from < turn && turn <= gap.to; });
  }
  std::sort(turns.begin(), turns.end());
  return turns;
}

}  // namespace

std::vector<Pass> find_passes(const Trace& trace, const Vitality& vitality) {
  const std::vector<Gap> gaps = gaps_of(trace, vitality);
  const auto kernels = static_cast<KernelIndex>(trace.kernels.size());
  const std::vector<Bytes> idle = idle_tensors(gaps, trace.kernels.size());
  std::vector<Pass> passes;
  for (const KernelIndex turn : turns_of(gaps, trace.kernels.size())) {
    if (passes.empty()) {
      passes.push_back({0, turn, kernels});
      continue;
    }
    // Where least is kept between the two turns, the last such place, one backward pass has ended,
    // if it has.
    Pass& last = passes.back();
    const auto to_last = std::make_reverse_iterator(idle.begin() + last.turn);
    const auto least =
        std::min_element(std::make_reverse_iterator(idle.begin() + turn), to_last).base() - 1;
    const Bytes at_last = idle[last.turn - 1];
    const Bytes at_this = idle[turn - 1];
    if (kOfTheMost * *least > std::min(at_last, at_this)) {
      last.turn = at_this > at_last ? turn : last.turn;
      continue;
    }
    last.end = static_cast<KernelIndex>(least - idle.begin());
    passes.push_back({last.end, turn, kernels});
  }
  return passes;
}

}  // namespace spillway
