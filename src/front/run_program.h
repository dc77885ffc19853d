// What can be told of a program before it runs: whether a library can be loaded into it at all.
// Layer: front.
#pragma once

#include <string>

namespace spillway {

// Why the program of this name, looked for in PATH, will not meet Spillway: it is linked
// statically, for 32 bits, or runs with another user's rights. Empty if nothing speaks against it.
[[nodiscard]] std::string why_not_preloaded(const std::string& name);

}  // namespace spillway
