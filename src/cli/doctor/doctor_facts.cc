// See doctor_facts.h.
#include "cli/doctor/doctor_facts.h"

#include <fmt/format.h>

namespace spillway {
namespace {

const char* name_of(Mark mark) {
  return mark == Mark::kOk ? "ok" : mark == Mark::kSlow ? "slow" : "missing";
}

}  // namespace

std::string facts_text(const std::vector<FactGroup>& groups, bool run_works) {
  std::string text;
  for (const FactGroup& group : groups) {
    text += group.title + "\n";
    for (const Fact& fact : group.facts) {
      text += fmt::format("  {:<7}  {}\n", name_of(fact.mark), fact.text);
      if (!fact.advice.empty()) {
        text += fmt::format("  {:<7}  -> {}\n", "", fact.advice);
      }
    }
    text += "\n";
  }
  return text +
         (run_works ? "`spillway run` works here.\n" : "`spillway run` does not work here.\n");
}

std::string facts_json(const std::vector<FactGroup>& groups, bool run_works) {
  nlohmann::ordered_json all{{"run_works", run_works}};
  for (const FactGroup& group : groups) {
    nlohmann::ordered_json& facts = all[group.key];
    for (const Fact& fact : group.facts) {
      facts[fact.key] = {{"mark", name_of(fact.mark)}, {"value", fact.value}, {"text", fact.text}};
      if (!fact.advice.empty()) {
        facts[fact.key]["advice"] = fact.advice;
      }
    }
  }
  // Paths and what other programs print may hold anything.
  return all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace spillway
