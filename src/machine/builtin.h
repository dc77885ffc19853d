// The built-in machines: the files of src/machine/builtin/, embedded by cmake/EmbedMachines.cmake.
// Layer: machine, private to it.
#pragma once

#include <span>
#include <string_view>

namespace spillway {

struct BuiltinMachine {
  std::string_view name;  // of the file, without .toml
  std::string_view text;
};

// Sorted by name. Defined in a generated file.
[[nodiscard]] std::span<const BuiltinMachine> builtin_machines();

}  // namespace spillway
