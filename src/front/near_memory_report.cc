// Tables of near-memory rows. See near_memory_report.h.
#include "front/near_memory_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>
#include <vector>

#include "front/table.h"
#include "runtime/reproduce/near_memory_timeline.h"
#include "runtime/reproduce/rows.h"

namespace spillway {
namespace {

using reproduce::NearRow;
using reproduce::NearTable;
using reproduce::Verdict;

// "baseline_forward_s" is "baseline forward" in "s".
std::pair<std::string, std::string_view> words_of(std::string_view metric) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kUnits{
      {{"_mp_per_s", "MP/s"}, {"_gb", "GB"}, {"_s", "s"}}};
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

std::string near_memory_report(const reproduce::NearStudy& study) {
  constexpr std::size_t kColumns = 96;
  std::string out =
      "One number is fitted, to table 6: NVMe to GPU, 1.9 GB/s. All others are the paper's, of "
      "data sheets\nand standards, or chosen by an argument. Where the paper leaves the schedule "
      "open "
      "(one stream, one\nrequest to NVMe, updates that exclude transfers), it is as table 6 "
      "suggests; what else would do is\nbelow. docs/near-memory.md has the grounds.\n\n";
  std::size_t asked = 0;
  std::size_t within = 0;
  for (const NearTable& table : study.tables) {
    const bool is_compared = !table.rows.empty() && table.rows.front().published.has_value();
    std::string name = table.name;
    name.front() = static_cast<char>(std::toupper(name.front()));
    out += fmt::format("{}: {}\n{}\n", name, table.title,
                       is_compared ? compared(table) : ours_alone(table));
    for (const NearRow& row : table.rows) {
      asked += row.verdict() == Verdict::kNotAsked ? 0U : 1U;
      within += row.verdict() == Verdict::kWithin ? 1U : 0U;
    }
  }
  out += fmt::format("Figure 4: GPT-3 Large on the AXDIMM, {:.2f} s, a letter a layer\n{}\n",
                     to_seconds(study.timeline.total_ns()),
                     reproduce::timeline_text(study.timeline, kColumns));
  out += fmt::format(
      "{} of {} numbers are where they must be: table 5 within 5 %, table 6 within 15 %, its "
      "speed-ups within 0.1\n",
      within, asked);
  return out;
}

}  // namespace spillway
