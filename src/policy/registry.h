// Every policy by name: what it needs from the program and the machine, and how to make one.
// Layer: policy.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/error.h"
#include "engine/engine_options.h"
#include "engine/policy.h"
#include "machine/machine.h"
#include "policy/planning/plan.h"
#include "trace/trace.h"

namespace spillway {

// What a policy assumes of the world around it. The runtime arranges it; the policy relies on it.
struct PolicyTraits {
  bool unlimited_device = false;    // as if the device had memory enough
  bool told_of_deaths = true;       // the program says when a tensor dies
  bool reclaims_dead_first = true;  // see EngineOptions::reclaim_discarded_first
  bool pages = true;  // a launch may fault; else the program makes its operands resident
                      // first and waits for them
  bool uses_host = true;
  bool uses_storage = true;
  bool learns = true;  // from what launches use; else nobody need say
  // It sees launches when they are issued, not only when the device comes to them.
  bool sees_queue = false;
  bool recomputes = false;                        // Policy::recomputes
  CleanCopies clean_copies = CleanCopies::kNone;  // EngineOptions::clean_copies
};

// What planners and learners can be told from outside; the defaults are the papers'.
struct PolicyOptions {
  // Kernel times that a planner sees are off by up to this fraction, either way (G10 section 7.6).
  double profiling_error = 0;
  std::uint64_t profiling_seed = 1;
  // DeepUM's N and table shape; nullopt is the policy's own default.
  std::optional<std::uint32_t> prefetch_degree;
  std::optional<std::uint32_t> table_rows;
  bool prefetch_brake = false;  // see DeepUmOptions
  bool results_ahead = false;   // likewise
};

struct PolicyInfo {
  std::string_view name;
  std::string_view summary;  // one line for --help
  PolicyTraits traits;
  Result<std::unique_ptr<Policy>> (*make)(const Trace&, const Machine&, const PolicyOptions&);
  // What a policy that decides ahead has decided; nullptr for one that does not.
  Result<Plan> (*plan)(const Trace&, const Machine&, const PolicyOptions&) = nullptr;
  // The same policy where launches are issued ahead of the device; nullptr: it is no other.
  Result<std::unique_ptr<Policy>> (*make_with_queue)(const Trace&, const Machine&,
                                                     const PolicyOptions&) = nullptr;
};

// In the order in which tables show them.
[[nodiscard]] std::span<const PolicyInfo> all_policies();
// Fails with kInvalidInput and the list of names. The lifetime is the program's.
[[nodiscard]] Result<const PolicyInfo*> find_policy(std::string_view name);

}  // namespace spillway
