// Memory over one iteration.
#include "analysis/memory_curve.h"

#include <cstddef>
#include <limits>

#include "analysis/sweep.h"

namespace spillway {
namespace {

std::vector<Bytes> active_bytes(const Trace& trace, Bytes granularity_bytes) {
  constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> counted_at(trace.tensors.size(), kNever);
  std::vector<Bytes> active(trace.kernels.size(), 0);
  for (std::size_t kernel = 0; kernel < trace.kernels.size(); ++kernel) {
    for (const auto* operands : {&trace.kernels[kernel].reads, &trace.kernels[kernel].writes}) {
      for (const TensorId tensor : *operands) {
        if (counted_at[tensor] != kernel) {
          counted_at[tensor] = kernel;
          active[kernel] += round_up(trace.tensors[tensor].bytes, granularity_bytes);
        }
      }
    }
  }
  return active;
}

std::vector<Bytes> live_bytes(const Trace& trace, const Vitality& vitality,
                              Bytes granularity_bytes) {
  Sweep live(trace.kernels.size());
  for (TensorId id = 0; id < trace.tensors.size(); ++id) {
    const Bytes bytes = round_up(trace.tensors[id].bytes, granularity_bytes);
    if (trace.tensors[id].persistent) {
      live.add(0, trace.kernels.size(), bytes);
    } else if (const auto& life = vitality.lives[id]) {
      live.add(life->first_use, std::size_t{life->last_use} + 1, bytes);
    }
  }
  return live.totals();
}

}  // namespace

MemoryCurve memory_curve(const Trace& trace, const Vitality& vitality, Bytes granularity_bytes) {
  const std::vector<Bytes> active = active_bytes(trace, granularity_bytes);
  const std::vector<Bytes> live = live_bytes(trace, vitality, granularity_bytes);
  MemoryCurve curve;
  curve.kernels.reserve(active.size());
  for (KernelIndex kernel = 0; kernel < active.size(); ++kernel) {
    curve.kernels.push_back({active[kernel], live[kernel]});
    if (live[kernel] > curve.peak_live_bytes) {
      curve.peak_live_bytes = live[kernel];
      curve.peak_kernel = kernel;
    }
    if (active[kernel] > curve.largest_working_set_bytes) {
      curve.largest_working_set_bytes = active[kernel];
      curve.largest_working_set_kernel = kernel;
    }
  }
  return curve;
}

}  // namespace spillway
