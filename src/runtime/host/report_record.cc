// See report_record.h.
#include "runtime/host/report_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace spillway {
namespace {

using nlohmann::json;

const json& child(const json& object, const char* key) {
  static const json nothing;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : nothing;
}

std::uint64_t count_of(const json& object, const char* key) {
  const json& value = child(object, key);
  return value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
}

double seconds_of(const json& object, const char* key) {
  const json& value = child(object, key);
  return value.is_number() ? std::max(value.get<double>(), 0.0) : 0;
}

std::string text_of(const json& object, const char* key) {
  const json& value = child(object, key);
  return value.is_string() ? value.get<std::string>() : "";
}

std::array<Bytes, kTierCount> tiers_of(const json& tiers) {
  return {count_of(tiers, "device"), count_of(tiers, "host"), count_of(tiers, "storage")};
}

std::array<std::array<Bytes, kTierCount>, kTierCount> moved_of(const json& moved) {
  std::array<std::array<Bytes, kTierCount>, kTierCount> bytes{};
  for (const Tier from : {Tier::kDevice, Tier::kHost, Tier::kStorage}) {
    for (const Tier to : {Tier::kDevice, Tier::kHost, Tier::kStorage}) {
      const std::string key = fmt::format("{}_to_{}", name_of(from), name_of(to));
      bytes[index_of(from)][index_of(to)] = count_of(moved, key.c_str());
    }
  }
  return bytes;
}

SessionWait wait_of(const json& wait) {
  return {.name = text_of(wait, "name"),
          .launches = count_of(wait, "launches"),
          .blocks = count_of(wait, "blocks"),
          .wait_s = seconds_of(wait, "wait_s"),
          .host_s = seconds_of(wait, "for_host_memory_s"),
          .storage_s = seconds_of(wait, "for_storage_s"),
          .fresh_s = seconds_of(wait, "for_new_memory_s")};
}

RunSample sample_of(const json& sample) {
  return {.at_s = seconds_of(sample, "at_s"),
          .used_bytes = tiers_of(child(sample, "used_bytes")),
          .live_bytes = count_of(sample, "live_bytes"),
          .moved_bytes = moved_of(child(sample, "moved_bytes")),
          .page_faults = count_of(sample, "page_faults"),
          .stalled_s = seconds_of(sample, "stalled_s")};
}

}  // namespace

std::optional<SessionRecord> parse_session_record(const std::string& text) {
  constexpr std::uint64_t kVersion = 1;
  const json record = json::parse(text, nullptr, false);
  if (count_of(record, "version") != kVersion) {
    return std::nullopt;
  }
  SessionRecord session{
      .command = text_of(record, "command"),
      .pid = static_cast<std::int64_t>(count_of(record, "pid")),
      .policy = text_of(record, "policy"),
      .elapsed_s = seconds_of(record, "elapsed_s"),
      .stalled_s = seconds_of(record, "stalled_s"),
      .budget_bytes = tiers_of(child(record, "budget_bytes")),
      .peak_bytes = count_of(record, "peak_bytes"),
      .saved_by_discard_bytes = count_of(record, "saved_by_discard_bytes"),
      .moved_bytes = moved_of(child(record, "moved_bytes")),
      .page_faults = count_of(record, "page_faults"),
      .write_faults = count_of(record, "write_faults"),
      .launches = count_of(record, "launches"),
      .prefetched_blocks = count_of(record, "prefetched_blocks"),
      .prefetches_late = count_of(record, "prefetches_late"),
      .prefetches_used = count_of(record, "prefetches_used"),
      .prefetches_wasted = count_of(record, "prefetches_wasted"),
      .evictions = count_of(record, "evictions"),
      .longest_waits = {},
      .timeline = {},
  };
  for (const json& wait : child(record, "longest_waits")) {
    session.longest_waits.push_back(wait_of(wait));
  }
  for (const json& sample : child(record, "timeline")) {
    session.timeline.push_back(sample_of(sample));
  }
  // Samples are thinned out in long runs, and the last of them may be far from the end.
  if (!session.timeline.empty() && session.timeline.back().at_s < session.elapsed_s) {
    session.timeline.push_back({.at_s = session.elapsed_s,
                                .used_bytes = tiers_of(child(record, "used_bytes")),
                                .live_bytes = session.timeline.back().live_bytes,
                                .moved_bytes = session.moved_bytes,
                                .page_faults = session.page_faults,
                                .stalled_s = session.stalled_s});
  }
  return session;
}

}  // namespace spillway
