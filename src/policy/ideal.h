// Unlimited device memory: nothing ever has to leave. Layer: policy.
// What every other policy is compared with (G10 section 7.1, "Ideal").
#pragma once

#include "engine/policy.h"

namespace spillway {

class Ideal final : public Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "ideal"; }
};

}  // namespace spillway
