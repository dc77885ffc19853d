// What the host does for each kernel of a graph: its launch, what it makes, who dies after it. See
// replay.h.
#include <algorithm>
#include <iterator>
#include <optional>

#include "platform/common/sparse_kernels.h"
#include "platform/sim/replay.h"

namespace spillway::sim {
namespace {

// Whether this kernel is the first to use it.
bool begins_at(const Vitality& vitality, TensorId id, KernelIndex index) {
  const std::optional<TensorLife>& life = vitality.lives[id];
  return life && life->first_use == index;
}

// Whether what a matrix product writes there is its workspace and no result: one for all products,
// or its own, which nobody uses behind it, and of which it reads nothing but what a memset has set
// (by the name that the recorder gives those). An operand counts as written where a trace does not
// know better, and is none.
bool is_workspace(const Trace& trace, const Vitality& vitality, TensorId id, KernelIndex index) {
  const std::optional<TensorLife>& life = vitality.lives[id];
  const bool is_read = reads(trace.kernels[index], id);
  if (trace.tensors[id].bytes > kMostWorkspaceBytes || !life) {
    return false;
  }
  if (trace.tensors[id].persistent) {
    return is_read;
  }
  if (life->last_use != index || (is_read && life->first_use == index)) {
    return false;
  }
  const auto begin = trace.kernels.begin();
  return std::none_of(begin + life->first_use, begin + index, [id](const Kernel& kernel) {
    return reads(kernel, id) || (writes(kernel, id) && kernel.name != "memset");
  });
}

}  // namespace

std::vector<Replay::Step> Replay::steps_of(std::uint32_t graph) {
  const Trace trace = graph_of(program_, graph);
  const Vitality vitality = analyze_vitality(trace);
  const auto allocation_of = [&](TensorId id) { return allocations_[places_.of[graph][id]]; };
  const std::vector<Kernel>& base = program_.graphs[0];
  std::vector<Step> steps;
  for (KernelIndex index = 0; index < trace.kernels.size(); ++index) {
    const Kernel& kernel = trace.kernels[index];
    Step step;
    step.launch.kind = hash_launch(kernel.name, {}).first;
    step.launch.sparse = uses_a_little(kernel.name);
    step.duration_ns = kernel.duration_ns;
    step.synchronizes = kernel.synchronizes;
    // A kernel of another graph is at a place of the first one if it is the same kernel.
    const bool known =
        index < base.size() && base[index].name == kernel.name && base[index].reads == kernel.reads;
    step.launch.position = static_cast<std::uint32_t>(known ? index : base.size());
    std::vector<LaunchOperand> operands;
    const auto add = [&](TensorId id, AccessMode mode) {
      step.launch.accesses.push_back(access_to(allocation_of(id), mode));
      operands.push_back({allocation_of(id), trace.tensors[id].bytes});
    };
    for (const TensorId id : kernel.reads) {
      const bool written = writes(kernel, id);
      // A tensor whose first use is a read is input that the program has put there.
      const bool input = !trace.tensors[id].persistent && begins_at(vitality, id, index);
      add(id, written || input ? AccessMode::kReadWrite : AccessMode::kRead);
    }
    for (const TensorId id : kernel.writes) {
      if (!reads(kernel, id)) {
        add(id, AccessMode::kWrite);
      }
    }
    step.makes = made_by(trace, vitality, graph, index);
    step.launch.execution = executions_.id_of(hash_launch(kernel.name, operands));
    steps.push_back(std::move(step));
  }
  for (TensorId id = 0; id < trace.tensors.size(); ++id) {
    const std::optional<TensorLife>& life = vitality.lives[id];
    if (life && !trace.tensors[id].persistent) {
      steps[life->last_use].deaths.push_back(allocation_of(id));
    }
  }
  if (options_.near_optimizer != NearOptimizer::kOff) {
    make_updates(graph, trace, vitality, steps);
  }
  return steps;
}

// What is known of kernels on a GPU (docs/cuda.md).
Replay::Made Replay::made_by(const Trace& trace, const Vitality& vitality, std::uint32_t graph,
                             KernelIndex index) const {
  const Kernel& kernel = trace.kernels[index];
  const bool is_product = is_matrix_product(kernel.name);
  if (!is_product && !is_pointwise(kernel.name)) {
    return {};
  }
  std::vector<TensorId> results;
  std::copy_if(
      kernel.writes.begin(), kernel.writes.end(), std::back_inserter(results),
      [&](TensorId id) { return !is_product || !is_workspace(trace, vitality, id, index); });
  if (results.size() != 1 || reads(kernel, results[0])) {
    return {};
  }
  const TensorId made = results[0];
  if (!begins_at(vitality, made, index) || trace.tensors[made].persistent) {
    return {};
  }
  Made it{.id = allocations_[places_.of[graph][made]], .of = {}};
  Bytes read_bytes = 0;
  for (const TensorId id : kernel.reads) {
    const Bytes bytes = trace.tensors[id].bytes;
    if (writes(kernel, id) || (is_product && bytes <= kMostCopiedBytes)) {
      continue;
    }
    it.of.push_back(allocations_[places_.of[graph][id]]);
    read_bytes += bytes;
    if (it.of.back() == it.id) {
      return {};
    }
  }
  return !simulator_->engine().space().allocation(it.id).packed &&
                 worth_reading(read_bytes, trace.tensors[made].bytes)
             ? it
             : Made();
}

}  // namespace spillway::sim
