// Records to JSON and back, from the descriptions of their fields. See run_record.h.
#include "runtime/record/run_record.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/record/run_fields.h"

namespace spillway {
namespace {

using nlohmann::json;

// --- Writing -------------------------------------------------------------------------------------

json written(std::uint64_t count) { return count; }
json written(double seconds) { return seconds; }
json written(TimeNs time_ns) { return to_seconds(time_ns); }
json written(const std::string& text) { return text; }

json written(const TierBytes& bytes) {
  json tiers = json::object();
  for (const Tier tier : kRecordTiers) {
    tiers[std::string(name_of(tier))] = bytes[index_of(tier)];
  }
  return tiers;
}

json written(const MovedBytes& bytes) {
  json routes = json::object();
  for (const Route& route : kRoutes) {
    routes[route.key] = bytes[index_of(route.from)][index_of(route.to)];
  }
  return routes;
}

template <typename Record>
json written(const Record& record);

template <typename Record>
json written(const std::vector<Record>& records) {
  json all = json::array();
  for (const Record& record : records) {
    all.push_back(written(record));
  }
  return all;
}

template <typename Record>
json written(const std::optional<Record>& record) {
  return record ? written(*record) : json();
}

template <typename Record>
json written(const Record& record) {
  json object = json::object();
  for_each_field<Record>([&](const auto& field) {
    if (json value = written(field.of(record)); !value.is_null()) {
      object[field.key] = std::move(value);
    }
  });
  return object;
}

std::string text_of(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

// --- Reading -------------------------------------------------------------------------------------

const json& child(const json& object, const std::string& key) {
  static const json nothing;
  const auto found = object.find(key);
  return found != object.end() ? *found : nothing;
}

void read(const json& value, std::uint64_t& count) {
  count = value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
}

void read(const json& value, double& seconds) {
  seconds = value.is_number() ? std::max(value.get<double>(), 0.0) : 0;
}

void read(const json& value, TimeNs& time_ns) {
  double seconds = 0;
  read(value, seconds);
  time_ns = std::llround(seconds * static_cast<double>(kNsPerS));
}

void read(const json& value, std::string& text) {
  text = value.is_string() ? value.get<std::string>() : "";
}

void read(const json& value, TierBytes& bytes) {
  for (const Tier tier : kRecordTiers) {
    read(child(value, std::string(name_of(tier))), bytes[index_of(tier)]);
  }
}

void read(const json& value, MovedBytes& bytes) {
  for (const Route& route : kRoutes) {
    read(child(value, route.key), bytes[index_of(route.from)][index_of(route.to)]);
  }
}

template <typename Record>
void read(const json& value, Record& record);

template <typename Record>
void read(const json& value, std::vector<Record>& records) {
  if (value.is_array()) {
    for (const json& one : value) {
      read(one, records.emplace_back());
    }
  }
}

template <typename Record>
void read(const json& value, std::optional<Record>& record) {
  if (value.is_object()) {
    read(value, record.emplace());
  }
}

template <typename Record>
void read(const json& value, Record& record) {
  for_each_field<Record>(
      [&](const auto& field) { read(child(value, field.key), field.of(record)); });
}

}  // namespace

std::string to_json(const RunRecord& record) { return text_of(written(record)); }

std::size_t copy_json(const RunRecord& record, char* to, std::size_t bytes) {
  const std::string text = to_json(record);
  if (bytes > 0) {
    to[text.copy(to, bytes - 1)] = '\0';
  }
  return text.size();
}

std::optional<RunRecord> parse_run_record(const std::string& text) {
  const json value = json::parse(text, nullptr, false);
  RunRecord record;
  read(value, record);
  return record.version == RunRecord::kVersion ? std::optional(std::move(record)) : std::nullopt;
}

}  // namespace spillway
