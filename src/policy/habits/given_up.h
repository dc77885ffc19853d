// Gives up a recomputable result right after its last use if it had to be given up the last time.
// Layer: policy. docs/policies.md, docs/cuda.md.
// A forward pass keeps results of the same sizes in each layer. Given up only when there is no room
// left, all their frames come at once, when another size is wanted; given up after the last use,
// each frame is there for the next layer's result of the same size.
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <vector>

#include "engine/policy.h"

namespace spillway {

class GivenUp {
 public:
  // Every launch is told of when it is issued, when it is admitted and when it has ended: what it
  // used may go then.
  void issued(const Launch& launch);
  void admitted(const Launch& launch, const Control& control);
  void ended(const Launch& launch, Control& control);
  // It had to make way.
  void leaves(AllocationId id);
  // The program has said that it is dead behind all launches that are issued so far.
  void dies(AllocationId id);

 private:
  // Of an allocation, by its number: its tensor's as long as it lives, and mostly that of the same
  // tensor of the next iteration.
  struct Habit {
    ExecutionId used_by = kNoExecution;  // last
    // The launches behind which it had to go: two tensors may have the number in turn.
    std::array<ExecutionId, 2> goes_after{kNoExecution, kNoExecution};
    bool gone = false;     // by habit, and nobody has used it since
    bool returns = false;  // a launch that is issued will

    [[nodiscard]] bool goes() const {
      return used_by != kNoExecution && (goes_after[0] == used_by || goes_after[1] == used_by);
    }
  };
  Habit& habit_of(AllocationId id);
  void go(AllocationId id, Control& control);
  void note_spare(const Control& control, Bytes more_bytes);

  std::vector<Habit> habits_;
  // Those that could not go when they had been used: it is not known yet that they are what the
  // launch made, or they are on their way.
  std::vector<AllocationId> later_;
  // So many are gone, and so much has been free or dead at least since the first of them went: so
  // much of them need not have gone.
  std::size_t gone_ = 0;
  static constexpr Bytes kNotKnown = std::numeric_limits<Bytes>::max();
  Bytes spare_bytes_ = kNotKnown;
};

}  // namespace spillway
