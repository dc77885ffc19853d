// Machines from TOML files, from the built-in ones, and from `--set KEY=VALUE`.
// Layer: machine. docs/simulator.md describes the format and the built-in machines.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "machine/machine.h"

namespace spillway {

// The names of the built-in machines, sorted; one that has two names is there under both.
[[nodiscard]] std::vector<std::string> builtin_machine_names();

// A built-in machine by one of its names, which it then has, or a machine file by path (a name that
// has a '/' or ends in .toml). Fails with kInvalidInput and one line (file, line:column, key, what
// is expected), or kIo.
[[nodiscard]] Result<Machine> load_machine(std::string_view name_or_path);

// `text` is a machine file; `origin` stands for it in messages. A machine without a name gets
// `default_name`. Fails with kInvalidInput.
[[nodiscard]] Result<Machine> parse_machine(std::string_view text, std::string_view origin,
                                            std::string_view default_name);

// "device.capacity=30GiB": sets any field. The keys are those of machine files, aliases included:
//   link.bandwidth     both directions
//   storage.bandwidth  read and write
//   storage.latency    read and write
// Fails with kInvalidInput, the machine unchanged. Only this field is checked: call
// validate_machine after the last setting.
[[nodiscard]] Status apply_setting(Machine& machine, std::string_view key_equals_value);

// Every field within its bounds, and the fields fit together. Fails with kInvalidInput and the
// first thing that is wrong.
[[nodiscard]] Status validate_machine(const Machine& machine);

// What `--machine NAME --set KEY=VALUE ...` means: the machine with the settings applied in order,
// and the whole validated. Fails as the three functions above do.
[[nodiscard]] Result<Machine> configured_machine(std::string_view name_or_path,
                                                 std::span<const std::string> settings);

// The machine as a file that parse_machine reads back as an equal machine.
[[nodiscard]] std::string to_toml(const Machine& machine);

}  // namespace spillway
