// FlashNeuron (Bae et al., FAST 2021), as G10 evaluates it (section 7.1): intermediate tensors go
// to storage and back, chosen by linear selection; weights stay; no paging. Layer: policy.
#pragma once

#include <memory>
#include <vector>

#include "analysis/vitality.h"
#include "base/error.h"
#include "machine/machine.h"
#include "policy/planning/plan.h"
#include "policy/registry.h"
#include "trace/trace.h"

namespace spillway {

// The kernel that ends the forward pass: the first one with "loss" in its name, or, where no kernel
// is called so, the one during which most memory is alive.
[[nodiscard]] KernelIndex forward_end(const Trace& trace, const Vitality& vitality);

// Linear selection: the intermediate tensors that are made in the forward pass and used in the
// backward pass, in the order of their making, until what remains fits beside the weights and the
// largest kernel. Fails with kCannotRun where even all of them do not suffice.
[[nodiscard]] Result<std::vector<TensorId>> select_linearly(const Trace& trace,
                                                            const Vitality& vitality,
                                                            const Machine& machine);

// Offloads each selected tensor after its last use in the forward pass; fetches them back during
// the backward pass, in the order of use, whenever the memory manager has room beyond the largest
// kernel. Found by a dry run over contiguous device memory; fails with kCannotRun where that run
// gets stuck.
[[nodiscard]] Result<Plan> plan_flashneuron(const Trace& trace, const Machine& machine,
                                            const PolicyOptions& options);

[[nodiscard]] Result<std::unique_ptr<Policy>> make_flashneuron(const Trace& trace,
                                                               const Machine& machine,
                                                               const PolicyOptions& options);

}  // namespace spillway
