// Says what the kernel is to start; ipykernel, of the Python that it is for, writes it down where
// Jupyter looks. See install_kernel_command.h.
#include "cli/install_kernel_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/child_process.h"
#include "cli/live/run_metrics.h"
#include "cli/run/run_command.h"
#include "cli/run/run_environment.h"
#include "cli/run/run_options.h"
#include "machine/quantity.h"
#include "platform/common/process/say.h"
#include "platform/common/storage/swap_file.h"
#include "runtime/run/space_options.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

struct KernelOptions {
  RunOptions run;
  std::string python = "python3";
  std::string name;
  std::string display_name;
  std::string prefix;
  bool sys_prefix = false;
  bool user = false;
};

// The group of its own options.
constexpr const char* kKernel = "The kernel";

constexpr const char* kStorage = "--storage";

// Those of `spillway run`, as they were typed, except for a place to swap to.
std::vector<std::string> run_words(const CLI::App& command, const std::string& storage) {
  std::vector<std::string> words;
  for (const CLI::Option* const option : command.get_options()) {
    if (option->count() > 0 && option->get_group() != kKernel) {
      words.push_back(option->get_name());
      if (option->get_items_expected_max() > 0) {
        words.push_back(option->get_name() == kStorage ? storage : option->results().back());
      }
    }
  }
  return words;
}

// PATH[:SIZE] with a path that means the same from everywhere: a place to swap to is this
// machine's, wherever a notebook lies. One that is relative is known here, so it must be there;
// another may be on the machine that notebooks will run on.
Result<std::string> storage_of(const std::string& text) {
  if (text.empty()) {
    return text;
  }
  SpaceOptions typed;
  if (const Status read = set_storage(typed, text); !read) {
    return tl::unexpected<Error>(read.error());
  }
  const Status there = SwapFile::check_place(typed.storage_path);
  const fs::path path(typed.storage_path);
  if (!there && path.is_relative()) {
    return tl::unexpected<Error>(there.error());
  }
  if (!there) {
    say(there.error().message + "; as long as that is so, no notebook starts");
  }
  std::string whole = fs::absolute(path).lexically_normal().string();
  if (whole.size() > 1 && whole.back() == '/') {
    whole.pop_back();
  }
  return whole + text.substr(typed.storage_path.size());
}

// What a run leaves for people lies beside the notebook that it was.
void say_what_is_relative(const RunOptions& options) {
  std::string files;
  for (const auto& [option, file] :
       {std::pair("--report", options.report), std::pair("--trace-events", options.trace_events),
        std::pair("--json", options.json), std::pair("--metrics", options.metrics)}) {
    if (!file.empty() && file != "-" && fs::path(file).is_relative() && !is_metrics_port(file)) {
      files += fmt::format("{}{} {}", files.empty() ? "" : ", ", option, file);
    }
  }
  if (!files.empty()) {
    say(files + ": each notebook has its own, in the folder in which it lies");
  }
}

// "20 GiB", and nothing where the budget is what is there.
std::string budget(const RunOptions& options) {
  const Result<Bytes> bytes = parse_bytes(options.device_memory);
  return options.device_memory.empty() || !bytes ? std::string() : format_bytes(*bytes);
}

// Kernels with different budgets lie side by side.
std::string name_of(const KernelOptions& options) {
  std::string size = budget(options.run);
  size.erase(std::remove(size.begin(), size.end(), ' '), size.end());
  return !options.name.empty() ? options.name : size.empty() ? "spillway" : "spillway-" + size;
}

std::string display_name_of(const KernelOptions& options) {
  const std::string size = budget(options.run);
  return !options.display_name.empty() ? options.display_name
         : size.empty()                ? "Python (Spillway)"
                                       : fmt::format("Python (Spillway, {})", size);
}

// A machine without the GPU may be where it is installed, so nothing is asked but what holds on
// any.
Result<int> install(const CLI::App& command, const KernelOptions& options) {
  if (const Status valid = check_values(options.run); !valid) {
    return tl::unexpected<Error>(valid.error());
  }
  const Result<std::string> storage = storage_of(options.run.storage);
  if (!storage) {
    return tl::unexpected<Error>(storage.error());
  }
  const Result<std::string> hook = python_hook();
  if (!hook) {
    return tl::unexpected<Error>(hook.error());
  }
  const fs::path script = fs::path(*hook).parent_path() / "install_kernel.py";
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const std::string where = options.sys_prefix       ? "--sys-prefix"
                            : options.prefix.empty() ? "--user"
                                                     : fs::absolute(options.prefix).string();
  std::vector<std::string> words{
      options.python, script, name_of(options), display_name_of(options), where, program, "run"};
  const std::vector<std::string> taken = run_words(command, *storage);
  words.insert(words.end(), taken.begin(), taken.end());
  const Result<pid_t> child = start_child({.words = words});
  if (!child) {
    return make_error(ErrorCode::kInvalidInput, "{}; name the Python of the kernel with --python",
                      child.error().message);
  }
  return wait_for_child(*child).map([&](const ChildEnd& end) {
    if (end.status == 0) {
      say_what_is_relative(options.run);
    }
    return end.status;
  });
}

}  // namespace

void add_install_kernel_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<KernelOptions>();
  CLI::App* const command = app.add_subcommand(
      "install-kernel",
      "Add a Jupyter kernel that runs with a memory budget\n\n"
      "Its notebooks run as programs do under `spillway run`, with the options given here.\n\n"
      "  spillway install-kernel --device-memory 20GiB       \"Python (Spillway, 20 GiB)\"\n"
      "  jupyter kernelspec remove spillway-20gib            takes it away again\n");
  command
      ->add_option("--python", options->python,
                   "The Python of the kernel, with ipykernel installed")
      ->type_name("PROGRAM")
      ->capture_default_str()
      ->group(kKernel);
  command
      ->add_option("--name", options->name,
                   "Jupyter's name for the kernel (spillway, and the device memory)")
      ->type_name("NAME")
      ->group(kKernel);
  command
      ->add_option("--display-name", options->display_name,
                   "The name that people see (such as \"Python (Spillway, 20 GiB)\")")
      ->type_name("NAME")
      ->group(kKernel);
  CLI::Option* const user =
      command->add_flag("--user", options->user, "Install it for this user, which is the default")
          ->group(kKernel);
  CLI::Option* const prefix =
      command->add_option("--prefix", options->prefix, "Install it in PREFIX/share/jupyter/kernels")
          ->type_name("PREFIX")
          ->group(kKernel);
  command
      ->add_flag("--sys-prefix", options->sys_prefix,
                 "Install it in the environment (conda, venv) of that Python")
      ->excludes(prefix)
      ->excludes(user)
      ->group(kKernel);
  prefix->excludes(user);
  add_run_options(command, &options->run);
  command->footer(policy_footer());
  command->callback([options, command, &exit_code] {
    const Status valid = has_values(*command);
    exit_code =
        exit_status(valid ? install(*command, *options) : tl::unexpected<Error>(valid.error()));
  });
}

}  // namespace spillway
