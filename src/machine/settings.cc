// Keys: which fields they set, which were meant, and settings from the command line. Layer:
// machine.
#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>

#include "machine/fields.h"
#include "machine/load.h"

namespace spillway {
namespace {

// One setting for two fields that usually move together.
struct Alias {
  std::string_view name;
  std::array<std::string_view, 2> keys;
};

constexpr std::array<Alias, 3> kAliases{{
    {"link.bandwidth", {"link.to_device", "link.from_device"}},
    {"storage.bandwidth", {"storage.read_bandwidth", "storage.write_bandwidth"}},
    {"storage.latency", {"storage.read_latency", "storage.write_latency"}},
}};

// Levenshtein distance, one row at a time.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

// The key that was meant shares a part with what was typed, or differs from it by few letters.
bool is_close(std::string_view unknown, const std::string& key) {
  const std::string_view name = std::string_view(key).substr(key.find('.') + 1);
  return edit_distance(unknown, key) <= 2 + unknown.size() / 8 || unknown == name ||
         unknown.starts_with(key + "_");
}

}  // namespace

std::vector<const Field*> fields_of_key(std::string_view key) {
  std::vector<const Field*> fields;
  const auto* alias = std::find_if(kAliases.begin(), kAliases.end(),
                                   [key](const Alias& a) { return a.name == key; });
  for (const Field& field : machine_fields()) {
    const std::string field_key = field.key();
    if (alias == kAliases.end()
            ? field_key == key
            : std::count(alias->keys.begin(), alias->keys.end(), field_key) > 0) {
      fields.push_back(&field);
    }
  }
  return fields;
}

std::string suggest_key(std::string_view unknown) {
  constexpr std::size_t kLongestKey = 64;  // the distance to a longer one says nothing
  std::vector<std::string> keys;
  for (const Field& field : machine_fields()) {
    keys.push_back(field.key());
  }
  for (const Alias& alias : kAliases) {
    keys.emplace_back(alias.name);
  }
  std::vector<std::string> close;
  std::copy_if(keys.begin(), keys.end(), std::back_inserter(close),
               [unknown](const std::string& key) {
                 return unknown.size() <= kLongestKey && is_close(unknown, key);
               });
  return close.empty() ? fmt::format("the keys are {}", fmt::join(keys, ", "))
                       : fmt::format("did you mean {}?", fmt::join(close, " or "));
}

Status apply_setting(Machine& machine, std::string_view key_equals_value) {
  const std::size_t equals = key_equals_value.find('=');
  if (equals == std::string_view::npos) {
    return make_error(ErrorCode::kInvalidInput,
                      "setting '{}': write KEY=VALUE, for example device.capacity=30GiB",
                      key_equals_value);
  }
  const std::string_view key = key_equals_value.substr(0, equals);
  const std::vector<const Field*> fields = fields_of_key(key);
  if (fields.empty()) {
    return make_error(ErrorCode::kInvalidInput, "setting '{}': unknown key; {}", key_equals_value,
                      suggest_key(key));
  }
  Machine changed = machine;
  for (const Field* field : fields) {
    const Status status = set_field(changed, *field, key_equals_value.substr(equals + 1));
    if (!status) {
      return make_error(ErrorCode::kInvalidInput, "setting '{}': {}", key_equals_value,
                        status.error().message);
    }
  }
  machine = std::move(changed);
  return {};
}

}  // namespace spillway
