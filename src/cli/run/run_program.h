// What can be told of a program before it runs: whether a library can be loaded into it at all.
// Layer: cli.
#pragma once

#include <string>
#include <vector>

namespace spillway {

// Why the program of this name, looked for in PATH, will not meet Spillway: it is linked
// statically, for 32 bits, or runs with more rights than this user has. Of a script it is its
// interpreter that counts. Empty if nothing speaks against it.
[[nodiscard]] std::string why_not_preloaded(const std::string& name);
// The flag of a Python's command line with which it does not come to Spillway's hook; empty if
// there is none.
[[nodiscard]] std::string flag_that_keeps_hook_out(const std::vector<std::string>& command);

}  // namespace spillway
