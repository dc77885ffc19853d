// Prints the machines that the program knows. Layer: cli.
#include "cli/machine_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/complain.h"
#include "machine/load.h"

namespace spillway {
namespace {

struct ShowOptions {
  std::string machine;
  std::vector<std::string> settings;
};

std::string or_none(Bytes bytes) { return bytes == 0 ? "-" : format_bytes(bytes); }

Result<std::string> list_machines() {
  std::string out = fmt::format("{:<16}{:>10}{:>10}{:>10}{:>14}{:>14}  {}\n", "machine", "device",
                                "host", "storage", "link GB/s", "storage GB/s", "source");
  for (const std::string& name : builtin_machine_names()) {
    const Result<Machine> machine = load_machine(name);
    if (!machine) {
      return tl::unexpected(machine.error());
    }
    const Link& link = machine->link;
    const StorageTier& storage = machine->storage;
    out += fmt::format("{:<16}{:>10}{:>10}{:>10}{:>14}{:>14}  {}\n", name,
                       format_bytes(machine->device.capacity_bytes),
                       or_none(machine->host.capacity_bytes), or_none(storage.capacity_bytes),
                       fmt::format("{:.4g}/{:.4g}", link.to_device_bytes_per_s / 1e9,
                                   link.from_device_bytes_per_s / 1e9),
                       storage.capacity_bytes == 0
                           ? "-"
                           : fmt::format("{:.2g}/{:.2g}", storage.read_bytes_per_s / 1e9,
                                         storage.write_bytes_per_s / 1e9),
                       machine->source);
  }
  return out;
}

Result<std::string> show_machine(const ShowOptions& options) {
  const Result<Machine> machine = configured_machine(options.machine, options.settings);
  if (!machine) {
    return tl::unexpected(machine.error());
  }
  return to_toml(*machine);
}

void print(const Result<std::string>& text, int& exit_code) {
  if (text) {
    fmt::print("{}", *text);
    exit_code = 0;
    return;
  }
  exit_code = complain(text.error());
}

}  // namespace

void add_machine_command(CLI::App& app, int& exit_code) {
  CLI::App* machine = app.add_subcommand("machine",
                                         "The machines that can be simulated\n\n"
                                         "  spillway machine list\n"
                                         "  spillway machine show h200 > mine.toml\n");
  machine->require_subcommand(1);

  CLI::App* list = machine->add_subcommand(
      "list", "List the built-in machines; h100 and h100-80gb are the same");
  list->callback([&exit_code] { print(list_machines(), exit_code); });

  auto options = std::make_shared<ShowOptions>();
  CLI::App* show = machine->add_subcommand("show", "Print a machine as a TOML file");
  show->add_option("machine", options->machine, "A built-in machine, or the path of a .toml file")
      ->required();
  show->add_option("--set", options->settings, "Set a field, for example device.capacity=30GiB")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  show->callback([options, &exit_code] { print(show_machine(*options), exit_code); });
}

}  // namespace spillway
