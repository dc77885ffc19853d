// Asking another program something, without waiting for it for ever. Layer: cli.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/error.h"

namespace spillway {

struct ChildOutcome {
  int status = 0;   // as a shell tells it: 128 and more for a signal
  std::string out;  // standard output
  std::string err;  // standard error
};

// Runs `words`, the first of which is looked for in PATH, with nothing on standard input. When the
// time is over it is killed with all that it started. Fails with kUnsupported if there is no such
// program, and with kIo if it took too long or could not be run.
[[nodiscard]] Result<ChildOutcome> run_child(std::vector<std::string> words,
                                             std::chrono::milliseconds time);

}  // namespace spillway
