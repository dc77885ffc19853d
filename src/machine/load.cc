// Machine files: finding, reading and writing them. Layer: machine.
#include "machine/load.h"

#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "machine/builtin.h"
#include "machine/fields.h"

namespace spillway {
namespace {

constexpr std::size_t kLargestFileBytes = 1 << 20;  // a machine file has 23 keys

struct OtherName {
  std::string_view name;
  std::string_view machine;  // the built-in machine that is also called so
};

constexpr OtherName kOtherNames[] = {{"h100-80gb", "h100"}};

std::string place(std::string_view origin, const toml::source_region& region) {
  return fmt::format("{}:{}:{}", origin, region.begin.line, region.begin.column);
}

// A file being read: where each key stood, so that later checks can point at it.
struct Reading {
  std::string_view origin;
  Machine machine;
  std::map<std::string, std::string> places;  // key -> "file:line:column"
};

Status set_from_node(Machine& machine, const Field& field, const toml::node& node) {
  if (const auto* text = node.as_string()) {
    return set_field(machine, field, std::string_view(text->get()));
  }
  if (const auto* integer = node.as_integer()) {
    return set_field(machine, field, static_cast<double>(integer->get()));
  }
  if (const auto* real = node.as_floating_point()) {
    return set_field(machine, field, real->get());
  }
  return make_error(ErrorCode::kInvalidInput, "a value of the wrong type; expected {}",
                    expected_value(field));
}

Status read_value(Reading& reading, const std::string& key, const toml::node& node) {
  const std::string where = place(reading.origin, node.source());
  const std::vector<const Field*> fields = fields_of_key(key);
  if (fields.empty()) {
    return make_error(ErrorCode::kInvalidInput, "{}: unknown key '{}'; {}", where, key,
                      suggest_key(key));
  }
  for (const Field* field : fields) {
    const Status status = set_from_node(reading.machine, *field, node);
    if (!status) {
      return make_error(ErrorCode::kInvalidInput, "{}: {}: {}", where, key, status.error().message);
    }
    reading.places[field->key()] = where;
  }
  return {};
}

// In the order of the keys: link.bandwidth comes before link.to_device, which has the last word.
Status read_table(Reading& reading, const std::string& prefix, const toml::table& table) {
  for (const auto& [name, node] : table) {
    const std::string key =
        prefix.empty() ? std::string(name.str()) : fmt::format("{}.{}", prefix, name.str());
    const auto fields = machine_fields();
    const bool section =
        prefix.empty() && std::any_of(fields.begin(), fields.end(),
                                      [&key](const Field& field) { return field.section == key; });
    if (section && !node.is_table()) {
      return make_error(ErrorCode::kInvalidInput, "{}: '{}' is a section; write [{}]",
                        place(reading.origin, node.source()), key, key);
    }
    Status status =
        section ? read_table(reading, key, *node.as_table()) : read_value(reading, key, node);
    if (!status) {
      return status;
    }
  }
  return {};
}

Result<std::string> read_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return make_error(ErrorCode::kInvalidInput,
                      "{}: no such file; 'spillway machine list' names the built-in machines",
                      path);
  }
  std::ifstream in(path, std::ios::binary);
  std::string text(kLargestFileBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || !in.is_open()) {
    return make_error(ErrorCode::kIo, "{}: cannot be read; check its permissions", path);
  }
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kLargestFileBytes) {
    return make_error(ErrorCode::kInvalidInput, "{}: larger than 1 MiB, not a machine file", path);
  }
  return text;
}

}  // namespace

std::vector<std::string> builtin_machine_names() {
  std::vector<std::string> names;
  for (const BuiltinMachine& machine : builtin_machines()) {
    names.emplace_back(machine.name);
  }
  for (const OtherName& other : kOtherNames) {
    names.emplace_back(other.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<Machine> load_machine(std::string_view name_or_path) {
  for (const OtherName& other : kOtherNames) {
    if (other.name == name_or_path) {
      return load_machine(other.machine).map([&other](Machine machine) {
        machine.name = other.name;
        return machine;
      });
    }
  }
  for (const BuiltinMachine& machine : builtin_machines()) {
    if (machine.name == name_or_path) {
      return parse_machine(machine.text, fmt::format("built-in {}.toml", machine.name),
                           machine.name);
    }
  }
  if (!name_or_path.ends_with(".toml") && name_or_path.find('/') == std::string_view::npos) {
    return make_error(ErrorCode::kInvalidInput,
                      "unknown machine '{}'; use one of {}, or the path of a .toml file",
                      name_or_path, fmt::join(builtin_machine_names(), ", "));
  }
  const std::string path(name_or_path);
  return read_file(path).and_then([&path](const std::string& text) {
    return parse_machine(text, path, std::filesystem::path(path).stem().string());
  });
}

Result<Machine> parse_machine(std::string_view text, std::string_view origin,
                              std::string_view default_name) {
  Reading reading{origin, {}, {}};
  reading.machine.name = std::string(default_name);
  try {
    const toml::table table = toml::parse(text, origin);
    if (const Status status = read_table(reading, "", table); !status) {
      return tl::unexpected(status.error());
    }
  } catch (const toml::parse_error& error) {
    return make_error(ErrorCode::kInvalidInput, "{}: not TOML: {}", place(origin, error.source()),
                      error.description());
  }
  if (const auto problem = find_problem(reading.machine)) {
    const auto found = reading.places.find(problem->key);
    return make_error(ErrorCode::kInvalidInput, "{}: {}: {}",
                      found == reading.places.end() ? origin : std::string_view(found->second),
                      problem->key, problem->message);
  }
  return std::move(reading.machine);
}

std::string to_toml(const Machine& machine) {
  std::string out;
  std::string_view section;
  for (const Field& field : machine_fields()) {
    if (field.section != section) {
      section = field.section;
      out += fmt::format("\n[{}]\n", section);
    }
    out += fmt::format("{} = {}\n", field.name, field_as_toml(machine, field));
  }
  return out;
}

Result<Machine> configured_machine(std::string_view name_or_path,
                                   std::span<const std::string> settings) {
  Result<Machine> machine = load_machine(name_or_path);
  if (!machine) {
    return machine;
  }
  for (const std::string& setting : settings) {
    if (const Status status = apply_setting(*machine, setting); !status) {
      return tl::unexpected<Error>(status.error());
    }
  }
  if (const Status status = validate_machine(*machine); !status) {
    return tl::unexpected<Error>(status.error());
  }
  return machine;
}

}  // namespace spillway
