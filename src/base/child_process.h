// Other programs: started, looked after, waited for. The one place that starts any.
// Ground floor.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace spillway {

// What is to run. It takes Ctrl-C as any program does, also where this process ignores it.
struct ChildProgram {
  std::vector<std::string> words{};  // the first is looked for in PATH
  // What it finds in its environment instead of, or beside, what this process has in its own.
  std::vector<std::pair<std::string, std::string>> environment{};
  // Descriptors that become its standard input, output and error; -1: this process's own.
  int in = -1;
  int out = -1;
  int err = -1;
  bool leads_group = false;  // so that a signal to -pid reaches all that it starts
};

struct ChildEnd {
  int status = 0;  // as a shell tells it: 128 and more for a signal
  int signal = 0;  // that ended it; 0: none
};

// It is killed when the calling thread ends, in whatever way that ends: who kills this process
// means what it has started. Not so what runs with more rights than this process (set-user-id).
// Fails with kUnsupported where there is no such program, and with kIo where it cannot be run.
[[nodiscard]] Result<pid_t> start_child(const ChildProgram& program);
// Until it has ended.
[[nodiscard]] Result<ChildEnd> wait_for_child(pid_t child);
// Whether it has; nullopt while it runs. Not to be asked again once it has ended.
[[nodiscard]] Result<std::optional<ChildEnd>> look_after_child(pid_t child);

}  // namespace spillway
