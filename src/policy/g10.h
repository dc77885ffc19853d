// G10 in the three forms that its paper evaluates (section 7.2). Layer: policy.
#pragma once

#include <memory>

#include "base/error.h"
#include "machine/machine.h"
#include "policy/planning/plan.h"
#include "policy/registry.h"
#include "trace/trace.h"

namespace spillway {

// The plans that the three would carry out. They never fail.
[[nodiscard]] Result<Plan> plan_g10_gds(const Trace& trace, const Machine& machine,
                                        const PolicyOptions& options);
[[nodiscard]] Result<Plan> plan_g10_host(const Trace& trace, const Machine& machine,
                                         const PolicyOptions& options);
[[nodiscard]] Result<Plan> plan_g10(const Trace& trace, const Machine& machine,
                                    const PolicyOptions& options);

// Device and storage only, launches wait for their operands.
[[nodiscard]] Result<std::unique_ptr<Policy>> make_g10_gds(const Trace& trace,
                                                           const Machine& machine,
                                                           const PolicyOptions& options);
// Device, host memory and storage, launches wait for their operands.
[[nodiscard]] Result<std::unique_ptr<Policy>> make_g10_host(const Trace& trace,
                                                            const Machine& machine,
                                                            const PolicyOptions& options);
// With the extended unified memory: launches fault on what is not there.
[[nodiscard]] Result<std::unique_ptr<Policy>> make_g10(const Trace& trace, const Machine& machine,
                                                       const PolicyOptions& options);
// The same, with what issued launches say about the near future.
[[nodiscard]] Result<std::unique_ptr<Policy>> make_g10_with_queue(const Trace& trace,
                                                                  const Machine& machine,
                                                                  const PolicyOptions& options);

}  // namespace spillway
