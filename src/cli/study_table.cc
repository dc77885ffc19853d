// See study_table.h.
#include "cli/study_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/output_file.h"
#include "cli/table.h"

namespace spillway {
namespace {

using reproduce::NearRow;
using reproduce::NearTable;
using reproduce::Verdict;

// "baseline_forward_s" is "baseline forward" in "s".
std::pair<std::string, std::string_view> words_of(std::string_view metric) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kUnits{
      {{"_mp_per_s", "MP/s"}, {"_gb", "GB"}, {"_percent", "%"}, {"_ms", "ms"}, {"_s", "s"}}};
  std::string_view unit;
  for (const auto& [suffix, name] : kUnits) {
    if (metric.ends_with(suffix)) {
      metric.remove_suffix(suffix.size());
      unit = name;
      break;
    }
  }
  std::string words(metric);
  std::replace(words.begin(), words.end(), '_', ' ');
  return {words, unit};
}

std::string compared(const NearTable& table) {
  TextTable text({{"", Align::kLeft},
                  {"", Align::kLeft},
                  {"paper"},
                  {"ours"},
                  {"", Align::kLeft},
                  {"ratio"},
                  {"", Align::kLeft}});
  for (const NearRow& row : table.rows) {
    const auto& [words, unit] = words_of(row.metric);
    text.add({row.subject, words, fmt::format("{:.2f}", row.published.value_or(0)),
              fmt::format("{:.2f}", row.ours), std::string(unit),
              fmt::format("{:.3f}", row.ratio().value_or(0)),
              row.verdict() == Verdict::kMiss ? "MISS" : ""});
  }
  return text.text("  ");
}

// A column for each metric.
std::string ours_alone(const NearTable& table) {
  std::vector<TextTable::Column> columns{{"", Align::kLeft}};
  std::size_t width = 0;
  for (; width < table.rows.size() && table.rows[width].subject == table.rows.front().subject;
       ++width) {
    columns.push_back({words_of(table.rows[width].metric).first});
  }
  TextTable text(columns);
  for (std::size_t first = 0; first < table.rows.size(); first += width) {
    std::vector<std::string> cells{table.rows[first].subject};
    for (std::size_t i = first; i < first + width; ++i) {
      cells.push_back(fmt::format("{:.{}f}", table.rows[i].ours, table.rows[i].ours < 10 ? 2 : 1));
    }
    text.add(std::move(cells));
  }
  return text.text("  ");
}

}  // namespace

std::string study_table(const NearTable& table) {
  const bool is_compared = !table.rows.empty() && table.rows.front().published.has_value();
  std::string name = table.name;
  name.front() = static_cast<char>(std::toupper(name.front()));
  return fmt::format("{}: {}\n{}\n", name, table.title,
                     is_compared ? compared(table) : ours_alone(table));
}

std::string study_verdict(std::span<const NearTable> tables) {
  std::size_t asked = 0;
  std::size_t within = 0;
  for (const NearTable& table : tables) {
    for (const NearRow& row : table.rows) {
      asked += row.verdict() == Verdict::kNotAsked ? 0U : 1U;
      within += row.verdict() == Verdict::kWithin ? 1U : 0U;
    }
  }
  return fmt::format("{} of {} numbers are where they must be", within, asked);
}

std::string study_json(std::span<const NearTable> tables) {
  std::string json;
  for (const NearTable& table : tables) {
    for (const NearRow& row : table.rows) {
      json += reproduce::near_row_json(row) + "\n";
    }
  }
  return json;
}

Status write_study_rows(std::span<const NearTable> tables, const std::filesystem::path& folder) {
  if (Status status = write_output((folder / "rows.jsonl").string(), study_json(tables)); !status) {
    return status;
  }
  return write_output((folder / "rows.csv").string(), reproduce::near_rows_csv(tables));
}

}  // namespace spillway
