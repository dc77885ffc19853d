// What had to be given up the last time is given up as soon as it has been used, by habit. Layer:
// policy. docs/lookahead.md, docs/recomputing.md.
// Of what a launch can make again a forward pass keeps the same sizes in each layer. Given up only
// when there is no room left, its frames come when another size is wanted, and all at once; given
// up when it has been used they are there for the next layer's, which have their sizes.
#pragma once

#include <limits>
#include <vector>

#include "engine/policy.h"

namespace spillway {

class GivenUp {
 public:
  // The launch has ended; what it used may go.
  void ended(const Launch& launch, Control& control);
  // It was chosen to make way, since a launch can make it again.
  void leaves(AllocationId id);

 private:
  // Of an allocation, by its number: its tensor's as long as it lives, and mostly that of the same
  // tensor of the next iteration.
  struct Habit {
    ExecutionId used_by = kNoExecution;     // last
    ExecutionId goes_after = kNoExecution;  // the launch behind which it had to go
    bool gone = false;                      // by habit, and nobody has used it since
  };
  Habit& habit_of(AllocationId id);

  std::vector<Habit> habits_;
  // How much was free or dead at least since something went by habit: so much of what went need not
  // have gone.
  static constexpr Bytes kNotKnown = std::numeric_limits<Bytes>::max();
  Bytes spare_bytes_ = kNotKnown;
  bool comes_back_ = false;  // something that went has been used since
};

}  // namespace spillway
