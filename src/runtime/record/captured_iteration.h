// One iteration of a real run on its way from the program that ran it to the trace that is made of
// it: a file in between, and the trace. Layer: runtime. docs/traces.md.
// JSON and not a trace file: what is loaded into other people's programs brings no zstd with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "trace/trace.h"

namespace spillway {

struct CapturedIteration {
  std::uint64_t launches = 0;    // that the process has made, in all
  std::uint64_t iterations = 0;  // that have ended
  bool timed = false;            // one of them has been timed: only operands are missing
  std::string device;            // on which it ran, for people
  // What the launches used, in order; nullopt if it never came to that. Durations are those of an
  // iteration in which the operands were told.
  std::optional<Trace> used;
  // Whoever changes what was there says that it reads it: who only writes something first has made
  // it.
  bool tells_changes = false;
  // By kernel of it: it is part of the one before it. None behind the end of this.
  std::vector<bool> parts;
  // The iteration before: names and durations alone.
  std::vector<Kernel> times;
};

// How many launches the iteration has of which operands were told, without parts of others; 0
// without one. More or fewer than `times` has: the two were not the same iteration.
[[nodiscard]] std::size_t whole_launches(const CapturedIteration& captured);

// Text that is not UTF-8, which names of kernels may hold, is mended.
[[nodiscard]] std::string to_json(const CapturedIteration& captured);
// nullopt for what is none.
[[nodiscard]] std::optional<CapturedIteration> parse_captured_iteration(const std::string& json);

// The trace: what `used` says with the times of `times`; parts of launches put together; a launch
// that writes what is there already reads it as well. `used` must be there.
[[nodiscard]] Trace trace_of(const CapturedIteration& captured);

}  // namespace spillway
