// On-demand paging, as unified memory does it without help. Layer: policy.
// Blocks come when a launch faults on them; to make room the least recently migrated block goes, on
// the fault path, dead or not, since nobody says that it is (G10 section 7.1, "Base UVM"; UVM
// Discard section 5.5). It goes to host memory, or to storage when that is full.
#pragma once

#include "engine/policy.h"

namespace spillway {

// Every answer is the one that Policy gives by itself: no wishes, the oldest victim, host first.
class BaseUvm final : public Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "base_uvm"; }
};

}  // namespace spillway
