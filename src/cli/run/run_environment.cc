// See run_environment.h.
#include "cli/run/run_environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "cli/run/jax_allocator.h"
#include "platform/common/process/say.h"
#include "runtime/cuda/cuda_space.h"
#include "runtime/run/open_storage.h"
#include "runtime/run/program_space.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

// Beside the program (a build folder), or where it is installed; a wheel has bin, lib and hook in
// one folder.
Result<std::string> find_beside(const std::vector<std::string>& candidates) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  for (const std::string& candidate : candidates) {
    const fs::path path = (program.parent_path() / candidate).lexically_normal();
    if (fs::exists(path, error)) {
      return path.string();
    }
  }
  return make_error(ErrorCode::kUnsupported,
                    "{} is not installed beside {}; build or install Spillway again",
                    fs::path(candidates.front()).filename().string(), program.string());
}

// The dynamic linker divides LD_PRELOAD at spaces and colons, and goes on without what it does not
// find.
Status check_preloadable(const std::string& library) {
  if (library.find_first_of(" :") == std::string::npos) {
    return {};
  }
  return make_error(ErrorCode::kUnsupported,
                    "{}: a library in a folder with a space or a colon in its name cannot be "
                    "loaded into programs (LD_PRELOAD): install Spillway in another one",
                    library);
}

// What runs at the start of every Python program.
void add_python_hook(Environment& environment) {
  if (const Result<std::string> hook = python_hook()) {
    environment.push_back(put_first("PYTHONPATH", *hook));
  }
}

// A library of ours, which the dynamic linker will load.
Result<std::string> find_preloadable(const std::string& name) {
  Result<std::string> library =
      find_beside({name, "../lib/" + name, "../lib/x86_64-linux-gnu/" + name});
  if (library) {
    if (const Status possible = check_preloadable(*library); !possible) {
      return tl::unexpected<Error>(possible.error());
    }
  }
  return library;
}

// No space is opened beforehand, since one takes device memory; what it swaps to is.
Result<Environment> on_gpu(const DecidedRun& run, const std::string& records) {
  const Result<std::string> library = find_preloadable("libspillway_cuda.so");
  if (!library) {
    return tl::unexpected<Error>(library.error());
  }
  if (const Status fine = check_policy(run.space); !fine) {
    return tl::unexpected<Error>(fine.error());
  }
  if (const auto storage = open_storage(run.space); !storage) {
    return tl::unexpected<Error>(storage.error());
  }
  Environment environment{put_first("LD_PRELOAD", *library), {"SPILLWAY_DEVICE", "cuda"}};
  // As it is now; of device memory only the process that uses the device knows what is free.
  if (run.traits.uses_host) {
    environment.emplace_back("SPILLWAY_HOST_MEMORY", std::to_string(run.space.host_bytes));
  }
  choose_jax_allocator(environment);
  environment.emplace_back("SPILLWAY_RECORD", records);
  add_python_hook(environment);
  return environment;
}

}  // namespace

// Before anything that is there: a person may preload something else as well.
std::pair<std::string, std::string> put_first(const char* name, const std::string& value) {
  const char* const before = std::getenv(name);
  const bool there =
      before != nullptr && (std::string(":") + before + ":").find(":" + value + ":") !=
                               std::string::npos;  // a run inside a run
  return {name, before == nullptr || *before == '\0' ? value
                : there                              ? before
                                                     : value + ":" + before};
}

Result<Environment> run_environment(const DecidedRun& run, const std::string& records) {
  if (run.gpu) {
    return on_gpu(run, records);
  }
  const Result<std::string> library = find_preloadable("libspillway_preload.so");
  if (!library) {
    return tl::unexpected<Error>(library.error());
  }
  if (const auto space = ProgramSpace::open(run.space); !space) {
    return tl::unexpected<Error>(space.error());
  }
  Environment environment{{"SPILLWAY_RECORD", records},
                          put_first("LD_PRELOAD", *library),
                          // As they are now, not as memory is when the program begins to use it.
                          {"SPILLWAY_DEVICE_MEMORY", std::to_string(run.space.device_bytes)},
                          {"SPILLWAY_HOST_MEMORY", std::to_string(run.space.host_bytes)},
                          // PyTorch's operators: it tells whom this names, for the groups that this
                          // names.
                          {"INTEL_LIBITTNOTIFY64", *library},
                          {"INTEL_ITTNOTIFY_GROUPS", "all"},
                          {"SPILLWAY_OPERATORS", "1"}};
  add_python_hook(environment);
  return environment;
}

void tell_decided(const DecidedRun& run) {
  for (const auto* const lines : {&run.without_effect, &run.warnings}) {
    for (const std::string& line : *lines) {
      say(line);
    }
  }
}

Result<std::string> python_hook() {
  return find_beside({"../python/spillway/hook", "../share/spillway/hook",
                      "../../python/spillway/hook", "../../spillway/hook"});
}

}  // namespace spillway
