// Every field of a machine by its key in files and on the command line: its type and its bounds.
// Layer: machine, private to it: load.cc reads and writes files by this table,
// settings.cc sets single fields, validate.cc checks whole machines.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "machine/machine.h"

namespace spillway {

enum class FieldKind { kText, kBytes, kBandwidth, kTime, kNumber, kCount, kFaultModel };

using FieldRef = std::variant<std::string*, Bytes*, double*, TimeNs*, std::uint32_t*, FaultModel*>;

struct Field {
  std::string_view section;  // "" at the top of the file
  std::string_view name;
  FieldKind kind;
  double min;  // in bytes, bytes/s, ns or as it is; text and fault models have no bounds
  double max;
  bool zero_allowed;  // 0 is allowed although it is below min
  FieldRef (*ref)(Machine&);

  // "device.capacity"
  [[nodiscard]] std::string key() const;
};

// In the order in which a file lists them.
[[nodiscard]] std::span<const Field> machine_fields();
// The fields that a key sets: one, two for an alias (load.h), none for an unknown key.
[[nodiscard]] std::vector<const Field*> fields_of_key(std::string_view key);
// "did you mean ...?" or the list of all keys, for an unknown one.
[[nodiscard]] std::string suggest_key(std::string_view unknown);

// "a size from 4KiB to 1024TiB"
[[nodiscard]] std::string expected_value(const Field& field);

// Sets one field from text or from a number. Fails with kInvalidInput, the machine unchanged; the
// message does not name the key.
[[nodiscard]] Status set_field(Machine& machine, const Field& field, std::string_view text);
[[nodiscard]] Status set_field(Machine& machine, const Field& field, double number);

// Whether the field's present value is within its bounds.
[[nodiscard]] bool field_in_bounds(const Machine& machine, const Field& field);
// The value as a TOML value: quoted where it is text.
[[nodiscard]] std::string field_as_toml(const Machine& machine, const Field& field);

// The first thing that is wrong with a machine: the key to look at and what is expected there.
struct MachineProblem {
  std::string key;
  std::string message;
};
[[nodiscard]] std::optional<MachineProblem> find_problem(const Machine& machine);

}  // namespace spillway
