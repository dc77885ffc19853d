// See help.h. What is wrapped here is what options and commands say of themselves; descriptions and
// what stands below the options are printed as they are written.
#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {
namespace {

constexpr std::size_t kNameColumns = 26;
constexpr std::size_t kColumns = 80;

// "  NAME      words of the text", as many to a line as fit.
std::string entry(const std::string& name, const std::string& text) {
  std::string out;
  std::string line = fmt::format("  {:<{}}", name, kNameColumns - 2);
  if (name.size() + 3 > kNameColumns) {
    out = "  " + name + "\n";
    line = std::string(kNameColumns, ' ');
  }
  std::istringstream words(text);
  bool first = true;
  for (std::string word; words >> word; first = false) {
    if (!first && line.size() + 1 + word.size() > kColumns) {
      out += line + "\n";
      line = std::string(kNameColumns, ' ');
      first = true;
    }
    line += (first ? "" : " ") + word;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return out + line + "\n";
}

// "N" of "N:UINT in [1 - 10]", and "a|b" of "NAME:{a,b}": what is refused says its range. One
// behind a bracket is the name's own.
std::string value_name(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  std::size_t colon = type.find(':');
  if (colon != std::string::npos && colon > 0 && type[colon - 1] == '[') {
    colon = type.find(':', colon + 1);
  }
  if (colon == std::string::npos || type[colon + 1] != '{') {
    return type.substr(0, colon);
  }
  std::string choices = type.substr(colon + 2, type.find('}') - colon - 2);
  for (char& c : choices) {
    c = c == ',' ? '|' : c;
  }
  return choices;
}

class HelpFormatter final : public CLI::Formatter {
 public:
  HelpFormatter() {
    label("Positionals", "What it takes");
    label("SUBCOMMAND", "COMMAND");
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string value = value_name(*option);
    const bool again = option->get_expected_max() == CLI::detail::expected_max_vector_size &&
                       value.find("...") == std::string::npos;
    return option->get_type_size() == 0 ? "" : fmt::format(" {}{}", value, again ? " ..." : "");
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    std::string preset = option->get_default_str();
    if (preset.starts_with('[')) {  // several values
      preset = preset.substr(1, preset.size() - 2);
    }
    return option->get_description() + (option->get_required() && option->nonpositional()
                                            ? " (required)"
                                        : preset.empty() ? ""
                                                         : " (" + preset + ")");
  }

  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    return entry(is_positional ? make_option_name(option, true)
                               : make_option_name(option, false) + make_option_opts(option),
                 make_option_desc(option));
  }

  std::string make_usage(const CLI::App* app, std::string name) const override {
    if (app->get_parent() == nullptr) {
      return fmt::format("Usage: {} COMMAND [OPTIONS]\n", name);
    }
    return CLI::Formatter::make_usage(app, std::move(name));
  }

  std::string make_subcommand(const CLI::App* command) const override {
    const std::string text = command->get_description();
    return entry(command->get_name(), text.substr(0, text.find('\n')));
  }

  std::string make_option_usage(const CLI::Option* option) const override {
    const std::string usage = CLI::Formatter::make_option_usage(option);
    // What other programs are started with stands apart.
    return option->get_name() == "program" ? "-- PROGRAM [ARGUMENT...]" : usage;
  }

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::string help = make_description(app) + make_usage(app, std::move(name)) +
                       commands(app, mode) + make_positionals(app) + all_groups(app);
    if (const std::string footer = make_footer(app); !footer.empty()) {
      help += "\n" + footer;
    }
    help.erase(help.find_last_not_of('\n') + 1);
    return help + "\n";
  }

 private:
  [[nodiscard]] std::string commands(const CLI::App* app, CLI::AppFormatMode mode) const {
    constexpr std::string_view kTheirs = "\nSubcommands:";
    const std::string list = make_subcommands(app, mode);
    return list.starts_with(kTheirs) ? "\nCommands:" + list.substr(kTheirs.size()) : list;
  }
  // --help itself is the last.
  [[nodiscard]] std::string all_groups(const CLI::App* app) const {
    std::string others;
    std::string out;
    for (const std::string& group : app->get_groups()) {
      std::vector<const CLI::Option*> options = app->get_options([&](const CLI::Option* option) {
        return option->get_group() == group && option->nonpositional();
      });
      std::stable_partition(options.begin(), options.end(), [&](const CLI::Option* option) {
        return option != app->get_help_ptr();
      });
      if (!group.empty() && !options.empty()) {
        (group == "Options" ? others : out) += make_group(group, false, options);
      }
    }
    return out + others;
  }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_formatter() { return std::make_shared<HelpFormatter>(); }

}  // namespace spillway
