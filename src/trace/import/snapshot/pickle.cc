// Looking at what was in a pickle. Layer: trace.
#include "trace/import/snapshot/pickle.h"

#include <algorithm>

namespace spillway {

const std::vector<Pickle::Id>& Pickle::elements(Id id) const {
  static const std::vector<Id> kEmpty;
  const Value& value = values_[id];
  return value.kind == PickleKind::kList || value.kind == PickleKind::kTuple
             ? elements_[static_cast<std::size_t>(value.number)]
             : kEmpty;
}

std::optional<Pickle::Id> Pickle::member(Id id, std::string_view key) const {
  constexpr std::size_t kMostLookedAt = 128;  // keys and values
  if (values_[id].kind != PickleKind::kDict) {
    return std::nullopt;
  }
  const std::vector<Id>& pairs = elements_[static_cast<std::size_t>(values_[id].number)];
  for (std::size_t i = 0; i + 1 < std::min(pairs.size(), kMostLookedAt); i += 2) {
    const Value& name = values_[pairs[i]];
    if (name.kind == PickleKind::kText && texts_[static_cast<std::uint32_t>(name.number)] == key) {
      return pairs[i + 1];
    }
  }
  return std::nullopt;
}

std::optional<std::int64_t> Pickle::integer(Id id, std::string_view key) const {
  const auto found = member(id, key);
  return found && values_[*found].kind == PickleKind::kInteger
             ? std::optional(values_[*found].number)
             : std::nullopt;
}

const std::string* Pickle::text(Id id, std::string_view key) const {
  const auto found = member(id, key);
  return found && values_[*found].kind == PickleKind::kText
             ? &texts_[static_cast<std::uint32_t>(values_[*found].number)]
             : nullptr;
}

}  // namespace spillway
