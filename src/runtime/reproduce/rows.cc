// Writing rows. See rows.h.
#include "runtime/reproduce/rows.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace spillway::reproduce {
namespace {

std::string number(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : "";
}

nlohmann::ordered_json json_number(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

std::string_view state_of(const ComparedRow& row) {
  return row.state == CaseState::kRan ? "ran" : name_of(row.state);
}

}  // namespace

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kWithin:
      return "within";
    case Verdict::kMiss:
      return "miss";
    case Verdict::kNotRun:
      return "not run";
    case Verdict::kNotAsked:
      return "";
  }
  return "";
}

std::string rows_csv(std::span<const ComparedRow> rows) {
  std::string out =
      "figure,model,batch_size,policy,variation,metric,published,ours,deviation,state,verdict\n";
  for (const ComparedRow& row : rows) {
    const Case& subject = row.reference.subject;
    out += fmt::format("{},{},{},{},{},{},{},{},{},{},{}\n", row.figure, subject.model,
                       subject.batch_size, subject.policy, to_text(subject.variation),
                       name_of(row.reference.metric), number(row.reference.value), number(row.ours),
                       number(row.deviation), state_of(row), name_of(row.verdict));
  }
  return out;
}

std::string row_json(const ComparedRow& row) {
  const Case& subject = row.reference.subject;
  return nlohmann::ordered_json{
      {"figure", row.figure},
      {"model", subject.model},
      {"batch_size", subject.batch_size},
      {"policy", subject.policy},
      {"variation", to_text(subject.variation)},
      {"metric", name_of(row.reference.metric)},
      {"published", json_number(row.reference.value)},
      {"ours", json_number(row.ours)},
      {"deviation", json_number(row.deviation)},
      {"state", state_of(row)},
      {"verdict", name_of(row.verdict)},
  }
      .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace spillway::reproduce
