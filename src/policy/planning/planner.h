// Who makes plans for a policy that learns its iteration as the program runs. Layer: policy.
// Planning takes seconds, and a policy is called with a platform's lock held: so it asks, and looks
// later whether there is an answer.
#pragma once

#include <optional>

#include "policy/planning/plan.h"
#include "trace/trace.h"

namespace spillway {

class Planner {
 public:
  Planner() = default;
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;
  virtual ~Planner() = default;

  // Never while one that was asked for has not been taken.
  virtual void ask(Trace iteration) = 0;
  // The plan, once; nullopt as long as there is none.
  [[nodiscard]] virtual std::optional<Plan> take() = 0;
};

}  // namespace spillway
