// One line to people from inside somebody else's program. Layer: platform, common.
#pragma once

#include <string_view>

namespace spillway {

// With which a process ends that we end, or that could not begin: no program's own status, most
// likely, and none of a shell's.
inline constexpr int kOwnFailureStatus = 125;

// "spillway: ..." on standard error, without the C library's streams, of which the program may hold
// any lock. Nowhere if there was none when this program, or library, was loaded.
void say(std::string_view text);
// The same, and the process ends, with kOwnFailureStatus and without its exit handlers.
[[noreturn]] void end_run(std::string_view text);

}  // namespace spillway
