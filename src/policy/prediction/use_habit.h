// After which uses of a block something happened to it (it had to leave, or was needed again), so
// that it is expected after the same use in the next iteration. Layer: policy. docs/policies.md. A
// use is known by the execution id of its launch, which contains addresses: a program of one shape
// has the same ids in each iteration. A program of changing shapes, or whose memory has moved, has
// new ids, and then a kernel of the same name counts as the same use. But a kernel may use a block
// several times in an iteration while something happens only after one of them: so the ids of uses
// after which nothing happened are kept, too.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/types.h"

namespace spillway {

// Of one block.
class UseHabit {
 public:
  // A weight may leave, or return, once behind its forward pass and once behind its update.
  static constexpr std::size_t kPlaces = 2;

  UseHabit() { without_.fill(kNoExecution); }

  // The launch has ended and used the block; behind the use before nothing came but what has been
  // said. A launch that names the block twice uses it once.
  void used(const Launch& launch);
  // The number of that one; 0 if there was none.
  [[nodiscard]] LaunchSeq last_use() const { return last_use_; }

  // All of the last use.
  // The place of the use that it is, or is like; nullopt: nothing came behind such a one.
  [[nodiscard]] std::optional<std::size_t> place() const;
  // Something came behind it. Its place from now on, which may have been another's; one that is
  // not known has none.
  std::optional<std::size_t> came();
  // What was done for the use that it is, or is like, was in vain.
  void in_vain();

 private:
  struct Use {
    ExecutionId execution = kNoExecution;  // kNoExecution: like no other
    std::uint64_t kind = 0;                // Launch::kind; 0: not known
  };
  struct Place {
    Use use;
    unsigned in_vain = 0;  // so often in a row, for others that are like it
  };
  [[nodiscard]] std::optional<std::size_t> place_itself() const;
  [[nodiscard]] std::optional<std::size_t> place_of_like() const;
  [[nodiscard]] bool is_without(ExecutionId execution) const;
  // One behind which something came before stays known: there may have been room this time.
  void nothing_came();

  Use last_;
  LaunchSeq last_use_ = 0;
  std::array<Place, kPlaces> places_{};
  std::size_t next_place_ = 0;
  // As many as a weight has in an iteration, forward, backward and in its update.
  std::array<ExecutionId, 8> without_;
  std::size_t next_without_ = 0;
};

}  // namespace spillway
