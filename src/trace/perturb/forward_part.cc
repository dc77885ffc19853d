// The peak of what backward will need. Layer: trace, internal to perturb.
#include "trace/perturb/forward_part.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace spillway {
namespace {

constexpr KernelIndex kNotBorn = std::numeric_limits<KernelIndex>::max();

// By TensorId: does a kernel that writes no persistent tensor read it?
std::vector<bool> read_outside_updates(const Trace& trace) {
  std::vector<bool> read(trace.tensors.size(), false);
  for (const Kernel& kernel : trace.kernels) {
    if (std::none_of(kernel.writes.begin(), kernel.writes.end(),
                     [&](TensorId id) { return trace.tensors[id].persistent; })) {
      for (const TensorId id : kernel.reads) {
        read[id] = true;
      }
    }
  }
  return read;
}

}  // namespace

KernelIndex forward_kernels(const Trace& trace) {
  std::vector<KernelIndex> births(trace.tensors.size(), kNotBorn);
  std::vector<KernelIndex> deaths(trace.tensors.size(), 0);
  for (KernelIndex k = 0; k < trace.kernels.size(); ++k) {
    for (const auto* list : {&trace.kernels[k].reads, &trace.kernels[k].writes}) {
      for (const TensorId id : *list) {
        births[id] = births[id] == kNotBorn ? k : births[id];
        deaths[id] = k;
      }
    }
  }
  const std::vector<bool> counts = read_outside_updates(trace);
  std::vector<Bytes> born(trace.kernels.size(), 0);
  std::vector<Bytes> dead(trace.kernels.size(), 0);
  for (TensorId id = 0; id < trace.tensors.size(); ++id) {
    if (!trace.tensors[id].persistent && counts[id] && births[id] != kNotBorn) {
      born[births[id]] += trace.tensors[id].bytes;
      dead[deaths[id]] += trace.tensors[id].bytes;
    }
  }
  Bytes live = 0;
  Bytes most = 0;
  KernelIndex last = 0;
  for (KernelIndex k = 0; k < trace.kernels.size(); ++k) {
    live = live + born[k] - dead[k];
    if (live > most) {
      most = live;
      last = k;
    }
  }
  return last + 1;
}

}  // namespace spillway
