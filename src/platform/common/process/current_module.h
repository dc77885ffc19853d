// In which module of the program's model a thread runs, as the program's own hooks tell
// (python/spillway/modules.py). Layer: platform, common. For people only: it names launches in the
// log, and nothing is decided by it.
#pragma once

#include <string_view>

namespace spillway {

// Of the calling thread; empty where none is known. Valid until the process ends.
[[nodiscard]] std::string_view current_module();
// The calling thread's from now on; empty: none. Behind the first KeptNames::kMost names of the
// process a new one is as none. Thread-safe.
void set_current_module(std::string_view name);

}  // namespace spillway
