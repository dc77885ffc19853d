// Evicts a block right after its last use if the program only held it from there on the last time.
// Layer: policy. docs/policies.md.
// A framework keeps some results long after the last kernel that reads them: PyTorch keeps the
// gradient of a compiled graph's output through the whole backward pass. By age such memory would
// leave last, because it has just been used, and nothing says yet that it is dead.
#pragma once

#include <array>
#include <vector>

#include "engine/policy.h"

namespace spillway {

class IdleEvictor {
 public:
  // Every launch is told of when it is issued and when it has ended: what it used may go then.
  void issued(const Launch& launch, const Control& control);
  void ended(const Launch& launch, Control& control);
  // The program has said that it is dead behind all launches that are issued so far.
  void dies(AllocationId id);

 private:
  // So many launches after its last use, and it lingered.
  static constexpr LaunchSeq kLong = 256;
  // So often behind the same launch, and not sooner in between: the next time it goes.
  static constexpr int kSurely = 2;
  // Where that was wrong, so many times do not count.
  static constexpr int kWrong = -8;
  // While so much of the device is free or dead nothing needs to go.
  static constexpr Bytes kRoomPart = 8;
  // What is smaller is not worth the calls.
  static constexpr Bytes kLeastBytes = 32 * kMiB;

  // Of an allocation, by its number: its tensor's as long as it lives, and mostly that of the same
  // tensor of the next iteration.
  struct Habit {
    struct Last {
      ExecutionId use = kNoExecution;
      int times = 0;
    };
    // Two tensors may have the number in turn.
    std::array<Last, 2> last{};
    ExecutionId used_by = kNoExecution;  // of the launches that are issued, the last
    LaunchSeq used = 0;
    bool gone = false;  // by habit, and nobody has used it since

    [[nodiscard]] Last* known();
  };
  Habit& habit_of(AllocationId id);
  [[nodiscard]] static bool may_go(AllocationId id, const Control& control);

  std::vector<Habit> habits_;
  LaunchSeq now_ = 0;  // the last that was issued
};

}  // namespace spillway
