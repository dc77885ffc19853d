// See misuse.h.
#include "cli/misuse.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "cli/nearest_name.h"

namespace spillway {
namespace {

// The last command that was named, or the program.
const CLI::App& named_last(const CLI::App& app) {
  const std::vector<CLI::App*> named = app.get_subcommands();
  return named.empty() ? app : named_last(*named.front());
}

std::string words_of(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name()
                                     : words_of(*app.get_parent()) + " " + app.get_name();
}

// Of commands, or of options.
std::vector<std::string> names_in(const CLI::App& app, bool options) {
  std::vector<std::string> names;
  if (!options) {
    for (const CLI::App* const command : app.get_subcommands({})) {
      if (!command->get_group().empty()) {
        names.push_back(command->get_name());
      }
    }
    return names;
  }
  for (const CLI::Option* const option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  return names;
}

bool has_commands(const CLI::App& app) { return !app.get_subcommands({}).empty(); }

// A command behind it.
bool lacks(const CLI::App& app, const CLI::Error& error) {
  return error.get_name() == "RequiredError" && has_commands(app);
}

// The first word that was not understood; empty where all were.
std::string not_understood(const CLI::App& app) {
  const std::vector<std::string> rest = app.remaining(true);
  const auto found =
      std::find_if(rest.begin(), rest.end(), [](const std::string& word) { return word != "--"; });
  return found == rest.end() ? std::string() : *found;
}

// Up to what follows.
std::string why(const CLI::App& at, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  const bool option = name.size() > 1 && name.front() == '-';
  if (!option && !has_commands(at)) {
    return fmt::format("'{}' is one word too many; ", word);
  }
  const std::vector<std::string> names = names_in(at, option);
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string_view nearest = nearest_name(name, views);
  return fmt::format("there is no {} '{}'; {}", option ? "option" : "command", name,
                     nearest.empty() ? "" : fmt::format("is {} meant? ", nearest));
}

}  // namespace

std::string misuse(const CLI::App& app, const CLI::Error& error) {
  const CLI::App& at = named_last(app);
  const std::string word = not_understood(app);
  const std::string reason = !word.empty() ? why(at, word)
                             : lacks(at, error)
                                 ? fmt::format("'{}' wants one of {} behind it; ", at.get_name(),
                                               fmt::join(names_in(at, false), ", "))
                                 : error.what() + std::string("; ");
  return fmt::format("spillway: {}`{} --help` says what there is\n", reason, words_of(at));
}

bool says_nothing(const CLI::App& app, const CLI::Error& error) {
  return app.get_subcommands().empty() && not_understood(app).empty() && lacks(app, error);
}

}  // namespace spillway
