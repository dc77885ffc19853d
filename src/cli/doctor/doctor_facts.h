// What `spillway doctor` finds out: facts in groups, told as text or as JSON. Layer: cli.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace spillway {

enum class Mark {
  kOk,
  kSlow,     // it works, and could be better
  kMissing,  // it is not there, whether or not anything needs it
};

struct Fact {
  std::string key;  // in the JSON
  Mark mark = Mark::kOk;
  std::string text;    // one line for a person
  std::string advice;  // what to do about it, with the command; empty if there is nothing to do
  nlohmann::ordered_json value;  // the fact itself, for programs
};

struct FactGroup {
  std::string key;
  std::string title;
  std::vector<Fact> facts;
};

[[nodiscard]] std::string facts_text(const std::vector<FactGroup>& groups, bool run_works);
// One object: run_works, and each group with its facts by key.
[[nodiscard]] std::string facts_json(const std::vector<FactGroup>& groups, bool run_works);

}  // namespace spillway
