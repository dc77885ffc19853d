// Behind which uses of a block something comes of it, as it did the last times: it has to leave, or
// is needed again. Layer: policy. docs/lookahead.md.
// A use is known by the execution id of its launch, which has addresses in it: a program of one
// shape meets the same ids in each iteration. One of changing shapes, or whose memory has moved,
// meets others, and then the same code counts as the same use. But a kernel may use a block several
// times in an iteration, and something comes of it only behind one of them: so the ids are kept,
// too, of uses behind which nothing came.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/types.h"

namespace spillway {

struct Use {
  ExecutionId execution = kNoExecution;  // kNoExecution: like no other
  std::uint64_t kind = 0;                // Launch::kind; 0: not known

  [[nodiscard]] static Use of(const Launch& launch) { return {launch.execution, launch.kind}; }
};

// Of one block.
class UseHabit {
 public:
  // A weight may leave, or return, once behind its forward pass and once behind its update.
  static constexpr std::size_t kPlaces = 2;

  // The place of the use that this one is, or is like; nullopt: nothing came behind such a one.
  [[nodiscard]] std::optional<std::size_t> find(const Use& use) const;
  // Something came behind it, whose execution is known. Its place, which may have been another's.
  std::size_t came(const Use& use);
  // The next use came behind it, and nothing else. That of a launch behind which something came
  // once is no reason to forget it: there may have been room.
  void nothing_came(const Use& use);
  // What was expected behind it was in vain.
  void in_vain(const Use& use);

 private:
  [[nodiscard]] std::optional<std::size_t> find_itself(const Use& use) const;
  [[nodiscard]] bool is_idle(ExecutionId execution) const;

  std::array<Use, kPlaces> uses_{};
  std::size_t next_place_ = 0;
  // As many as a weight has in an iteration, forward, backward and in its update.
  std::array<ExecutionId, 8> idle_{};
  std::size_t next_idle_ = 0;
};

}  // namespace spillway
