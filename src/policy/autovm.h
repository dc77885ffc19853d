// AutoVM (Chen, thesis, University of Toronto 2020): what the forward pass makes and the backward
// pass uses leaves the device in between, and comes back as early as working sets leave room.
// Layer: policy. Chapter 3; docs/policies.md says what is chosen here.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "analysis/vitality.h"
#include "base/error.h"
#include "machine/machine.h"
#include "policy/planning/plan.h"
#include "policy/registry.h"
#include "trace/trace.h"

namespace spillway {

// When a prefetch begins (section 3.3.2.2).
enum class PrefetchTiming : std::uint8_t {
  kEarly,  // kernel times are not known: as early as it fits (listing 3.4), as evaluated
  kLate,   // they are: as late as the copy still hides (listing 3.3)
};

// What a kernel's working set is. With operands alone, prefetched tensors displace what the plan
// keeps on the device, and are displaced by it.
enum class WorkingSet : std::uint8_t {
  kOperands,  // what the kernel uses, as listings 3.3 and 3.4 read
  kResident,  // all that is alive then and not planned to be away
};

struct AutoVmOptions {
  // Smaller tensors stay (listing 3.1). nullopt: tuned (section 6.5.1).
  std::optional<Bytes> least_bytes;
  // Kernels between the last use in the forward pass and the first in the backward pass; tensors
  // with fewer stay. With two backward kernels a layer, 5 leaves out the last two layers' results
  // (section 3.3.1.1).
  std::uint32_t least_distance = 5;
  PrefetchTiming timing = PrefetchTiming::kEarly;
  WorkingSet working_set = WorkingSet::kResident;
};

// A tensor that leaves.
struct Offload {
  TensorId tensor = 0;
  KernelIndex after = 0;     // its last use in the forward pass (listing 3.2)
  KernelIndex needed = 0;    // its first use in the backward pass
  KernelIndex last_use = 0;  // ... and its last
  std::optional<KernelIndex> prefetch = std::nullopt;  // before it; nullopt: demand-paged
  friend bool operator==(const Offload&, const Offload&) = default;
};

// Listing 3.1 and 3.2: what the forward pass makes, at least of that size and that distance, in the
// order in which the backward pass needs it. Weights and what the backward pass makes stay
// (sections 3.3.1.1 and 3.3.1.3). `loss` is the kernel that ends the forward pass (forward_end).
[[nodiscard]] std::vector<Offload> offloads_of(const Trace& trace, const Vitality& vitality,
                                               KernelIndex loss, Bytes least_bytes,
                                               std::uint32_t least_distance);

// Gives each its `prefetch`, none before the backward pass begins, in the order in which they are
// needed; one that would come in before an earlier one begins with it (figure 3.5). None where the
// kernel right before the use has no room beside its working set (section 3.3.1.4).
void schedule_prefetches(const Trace& trace, const Vitality& vitality, KernelIndex loss,
                         const Machine& machine, const AutoVmOptions& options,
                         std::vector<Offload>& offloads);

// Results are allocated ahead of the kernel that makes them (pre-access, section 5.4). Where
// everything fits, nothing leaves. A size that is not given is the one of all different sizes (of
// at most 32, evenly chosen) under which estimate_plan finds the shortest iteration, of equal ones
// the largest. Deterministic.
[[nodiscard]] Plan plan_autovm(const Trace& trace, const Machine& machine,
                               const AutoVmOptions& options);

// Of the registry. They never fail.
[[nodiscard]] Result<Plan> plan_autovm(const Trace& trace, const Machine& machine,
                                       const PolicyOptions& options);
[[nodiscard]] Result<std::unique_ptr<Policy>> make_autovm(const Trace& trace,
                                                          const Machine& machine,
                                                          const PolicyOptions& options);
// The plan carried out as AutoVM's: beside it the driver evicts what came to the device first.
// Tensors may share memory that do not live at once.
[[nodiscard]] std::unique_ptr<Policy> follow_autovm(const Trace& trace, Plan plan);

}  // namespace spillway
