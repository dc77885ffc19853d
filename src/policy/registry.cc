// The table of policies. See registry.h.
#include "policy/registry.h"

#include <algorithm>
#include <array>
#include <string>

#include "policy/autovm.h"
#include "policy/base_uvm.h"
#include "policy/deepum.h"
#include "policy/flashneuron.h"
#include "policy/g10.h"
#include "policy/ideal.h"
#include "policy/lookahead.h"

namespace spillway {
namespace {

template <typename P>
Result<std::unique_ptr<Policy>> make_plain(const Trace& /*trace*/, const Machine& /*machine*/,
                                           const PolicyOptions& /*options*/) {
  return std::make_unique<P>();
}

Result<std::unique_ptr<Policy>> make_deepum(const Trace& /*trace*/, const Machine& /*machine*/,
                                            const PolicyOptions& options) {
  return std::make_unique<DeepUm>("deepum", deepum_options(options));
}

Result<std::unique_ptr<Policy>> make_deepum_plus(const Trace& /*trace*/, const Machine& /*machine*/,
                                                 const PolicyOptions& options) {
  return std::make_unique<DeepUm>("deepum_plus", deepum_plus_options(options));
}

const std::array kPolicies{
    PolicyInfo{.name = "ideal",
               .summary = "a device with unlimited memory",
               .traits = {.unlimited_device = true, .learns = false},
               .make = make_plain<Ideal>},
    PolicyInfo{
        .name = "base_uvm",
        .summary = "on-demand paging, least recently migrated block evicted on the fault path",
        .traits = {.told_of_deaths = false, .learns = false},
        .make = make_plain<BaseUvm>},
    PolicyInfo{.name = "deepum",
               .summary = "correlation prefetching over host memory (DeepUM)",
               .traits = {.reclaims_dead_first = false, .uses_storage = false},
               .make = make_deepum},
    PolicyInfo{.name = "deepum_plus",
               .summary = "DeepUM with storage below host memory, as G10 evaluates it",
               .traits = {.reclaims_dead_first = false},
               .make = make_deepum_plus},
    PolicyInfo{
        .name = "autovm",
        .summary = "AutoVM's plan: forward results to host memory, back as early as they fit",
        .traits = {.uses_storage = false},
        .make = make_autovm,
        .plan = plan_autovm},
    PolicyInfo{.name = "flashneuron",
               .summary = "linear selection of intermediate tensors, device to storage only",
               .traits = {.pages = false, .uses_host = false},
               .make = make_flashneuron,
               .plan = plan_flashneuron},
    PolicyInfo{.name = "g10_gds",
               .summary = "G10's plan between device and storage only, without paging",
               .traits = {.pages = false, .uses_host = false},
               .make = make_g10_gds,
               .plan = plan_g10_gds},
    PolicyInfo{.name = "g10_host",
               .summary = "G10's plan over device, host memory and storage, without paging",
               .traits = {.pages = false},
               .make = make_g10_host,
               .plan = plan_g10_host},
    PolicyInfo{.name = "g10",
               .summary = "G10's plan over unified device, host memory and storage",
               .traits = {},
               .make = make_g10,
               .plan = plan_g10,
               .make_with_queue = make_g10_with_queue},
    PolicyInfo{.name = "lookahead",
               .summary = "fetches what queued launches need, in order; evicts what they need last",
               .traits = {.pages = false,
                          .learns = false,
                          .sees_queue = true,
                          .recomputes = true,
                          .clean_copies = CleanCopies::kAll},
               .make = make_plain<Lookahead>},
};

}  // namespace

std::span<const PolicyInfo> all_policies() { return kPolicies; }

Result<const PolicyInfo*> find_policy(std::string_view name) {
  const auto found = std::find_if(kPolicies.begin(), kPolicies.end(),
                                  [&](const PolicyInfo& info) { return info.name == name; });
  if (found != kPolicies.end()) {
    return &*found;
  }
  std::string names;
  for (const PolicyInfo& info : kPolicies) {
    names += names.empty() ? "" : ", ";
    names += info.name;
  }
  return make_error(ErrorCode::kInvalidInput, "unknown policy '{}'; the policies are {}", name,
                    names);
}

}  // namespace spillway
