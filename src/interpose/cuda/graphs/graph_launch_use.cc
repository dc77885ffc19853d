// See graph_launch_use.h.
#include "interpose/cuda/graphs/graph_launch_use.h"

#include <algorithm>

#include "interpose/cuda/operands/operands.h"
#include "interpose/cuda/operands/pointer_tables.h"

namespace spillway::cuda {
namespace {

// Once something may be written, or exposed, it stays so.
void add(GraphLaunchUse& use, const CudaOperand& operand) {
  const auto [place, added] = use.by_start.try_emplace(operand.address, use.operands.size());
  if (added) {
    use.operands.push_back(operand);
    return;
  }
  CudaOperand& there = use.operands[place->second];
  there.bytes = std::max(there.bytes, operand.bytes);
  there.mode = either(there.mode, operand.mode);
}

}  // namespace

GraphLaunchUse launch_use_of(const GraphUse& nodes, std::string_view name) {
  GraphLaunchUse use;
  for (const NodeUse& node : nodes) {
    if (node.enabled) {
      for (const CudaOperand& operand : node.operands) {
        add(use, operand);
        use.exposes |= operand.mode == AccessMode::kExpose;
      }
      use.reaches |= node.reaches;
      use.copies.insert(use.copies.end(), node.copies.begin(), node.copies.end());
      use.values.insert(use.values.end(), node.values.begin(), node.values.end());
    }
  }
  for (const CudaOperand& operand : use.operands) {
    use.bytes += operand.bytes;
  }
  use.hash = hash_of(hash_launch(name, {}), use.operands);
  return use;
}

std::vector<CudaOperand> operands_with_tables(const Session& session, const GraphLaunchUse& use) {
  std::vector<CudaOperand> all;
  if (!addresses_in_tables()) {
    return all;
  }
  Operands held(session);
  if (use.exposes) {
    held.exposes_what_it_finds();
  }
  held.add_what_is_everywhere();
  for (const std::uint64_t holder : holders_among(use.by_start)) {
    held.add_carried_by(holder);
  }
  if (held.empty()) {
    return all;
  }
  all = use.operands;
  for (const CudaOperand& operand : held.all()) {
    const auto there = use.by_start.find(operand.address);
    if (there == use.by_start.end()) {
      all.push_back(operand);
    } else {
      CudaOperand& named = all[there->second];
      named.mode = either(named.mode, operand.mode);
    }
  }
  return all;
}

}  // namespace spillway::cuda
