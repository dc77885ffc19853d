// See policy_list.h.
#include "cli/policy_list.h"

#include <fmt/format.h>

#include "policy/registry.h"

namespace spillway {

std::string policy_list() {
  std::string out = "Policies:\n";
  for (const PolicyInfo& policy : all_policies()) {
    out += fmt::format("  {:<14}{}\n", policy.name, policy.summary);
  }
  return out;
}

}  // namespace spillway
