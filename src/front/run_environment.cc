// See run_environment.h.
#include "front/run_environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "front/run_device.h"
#include "front/run_without_effect.h"
#include "machine/quantity.h"
#include "platform/common/say.h"
#include "policy/registry.h"
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

void set(const char* name, const std::string& value) {
  if (!value.empty()) {
    ::setenv(name, value.c_str(), 1);
  }
}

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

Status check_size(const char* option, const std::string& text, Bytes least_bytes) {
  if (text.empty()) {
    return {};
  }
  const Result<Bytes> bytes = parse_bytes(text);
  if (!bytes) {
    return make_error(ErrorCode::kInvalidInput, "{}: {}", option, bytes.error().message);
  }
  if (*bytes < least_bytes) {
    return make_error(ErrorCode::kInvalidInput, "{}: {} is too little; at least {}", option, text,
                      format_bytes(least_bytes));
  }
  return {};
}

// PATH or PATH:SIZE.
Status check_storage(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == 0) {
    return make_error(ErrorCode::kInvalidInput, "--storage: '{}' lacks its place before the colon",
                      text);
  }
  return colon == std::string::npos ? Status()
                                    : check_size("--storage", text.substr(colon + 1), kBlockBytes);
}

// Of this machine's own memory. `then`: what comes of it.
void warn_of_too_much(const MemoryRoom& room, const char* option, const std::string& text,
                      const char* then) {
  const Result<Bytes> bytes = parse_bytes(text);
  if (bytes && *bytes > room.limit_bytes) {
    say(fmt::format("{}: {} is more than {} has, {}: {}", option, text, room.whose,
                    format_bytes(room.limit_bytes), then));
  } else if (bytes && *bytes > room.to_promise_bytes()) {
    say(fmt::format("{}: {} is more than can be had now, {}: {}", option, text, room.text(), then));
  }
}

}  // namespace

Status check_values(const RunOptions& options) {
  // Slower than any link, and a page would take seconds.
  constexpr Bytes kSlowest = kMiB;
  Status sizes = check_size("--device-memory", options.device_memory, 0);
  if (sizes) sizes = check_size("--host-memory", options.host_memory, 0);
  if (sizes) sizes = check_size("--link-bandwidth", options.link_bandwidth, kSlowest);
  if (sizes) sizes = check_storage(options.storage);
  if (!sizes) {
    return sizes;
  }
  if (!options.policy.empty()) {
    if (const Result<const PolicyInfo*> policy = find_policy(options.policy); !policy) {
      return tl::unexpected<Error>(policy.error());
    }
  }
  if (!options.fault_latency.empty()) {
    if (const Result<TimeNs> latency_ns = parse_time(options.fault_latency); !latency_ns) {
      return make_error(ErrorCode::kInvalidInput, "--fault-latency: {}",
                        latency_ns.error().message);
    }
  }
  if (!options.threshold.empty()) {
    if (const Result<Bytes> bytes = parse_bytes(options.threshold); !bytes) {
      return make_error(ErrorCode::kInvalidInput, "--threshold: {}", bytes.error().message);
    }
  }
  return {};
}

namespace {

Status set_all(const RunOptions& options) {
  if (Status valid = check_values(options); !valid) {
    return valid;
  }
  set("SPILLWAY_DEVICE_MEMORY", options.device_memory);
  set("SPILLWAY_HOST_MEMORY", options.host_memory);
  set("SPILLWAY_STORAGE", options.storage);
  set("SPILLWAY_POLICY", options.policy);
  set("SPILLWAY_LINK_BANDWIDTH", options.link_bandwidth);
  set("SPILLWAY_THRESHOLD", options.threshold);
  set("SPILLWAY_PREFETCH_DEGREE", options.prefetch_degree);
  set("SPILLWAY_STRICT", options.strict ? "1" : "");
  if (!options.fault_latency.empty()) {
    set("SPILLWAY_FAULT_LATENCY", std::to_string(*parse_time(options.fault_latency)));
  }
  return {};
}

// A person may set the variable for all runs.
bool is_strict(const RunOptions& options) {
  return options.strict || std::getenv("SPILLWAY_STRICT") != nullptr;
}

Status tell_what_has_no_effect(const RunOptions& options, bool on_gpu) {
  const std::vector<std::string> lines = without_effect(options, on_gpu);
  if (!lines.empty() && is_strict(options)) {
    return make_error(ErrorCode::kInvalidInput, "{} (--strict)", lines.front());
  }
  for (const std::string& line : lines) {
    say(line);
  }
  return {};
}

// What runs at the start of every Python program.
void add_python_hook(Environment& environment) {
  if (const Result<std::string> hook = python_hook()) {
    environment.push_back(put_first("PYTHONPATH", *hook));
  }
}

// On a GPU: no space is opened beforehand, since one takes device memory.
Result<Environment> on_gpu(const std::string& records) {
  const Result<std::string> library =
      find_beside({"libspillway_cuda.so", "../lib/libspillway_cuda.so",
                   "../lib/x86_64-linux-gnu/libspillway_cuda.so"});
  if (!library) {
    return tl::unexpected<Error>(library.error());
  }
  if (const Status possible = check_preloadable(*library); !possible) {
    return tl::unexpected<Error>(possible.error());
  }
  Result<Environment> environment = gpu_environment(put_first("LD_PRELOAD", *library).second);
  if (environment) {
    environment->emplace_back("SPILLWAY_RECORD", records);
    add_python_hook(*environment);
  }
  return environment;
}

}  // namespace

bool is_for_gpu(const Environment& environment) {
  return std::find(environment.begin(), environment.end(),
                   std::pair<std::string, std::string>("SPILLWAY_DEVICE", "cuda")) !=
         environment.end();
}

Result<Environment> run_environment(const RunOptions& options, const std::string& records) {
  const Result<bool> gpu = runs_on_gpu(options.device);
  if (!gpu) {
    return tl::unexpected<Error>(gpu.error());
  }
  if (const Status valid = set_all(options); !valid) {
    return tl::unexpected<Error>(valid.error());
  }
  if (const Status told = tell_what_has_no_effect(options, *gpu); !told) {
    return tl::unexpected<Error>(told.error());
  }
  constexpr const char* kHostMemory = "--host-memory";
  constexpr const char* kHostMemoryEnds = "memory will be short before that is full";
  const MemoryRoom room = MemoryLimits().room();
  if (*gpu) {
    warn_of_too_much(room, kHostMemory, options.host_memory, kHostMemoryEnds);
    return on_gpu(records);
  }
  const Result<std::string> library =
      find_beside({"libspillway_preload.so", "../lib/libspillway_preload.so",
                   "../lib/x86_64-linux-gnu/libspillway_preload.so"});
  if (!library) {
    return tl::unexpected<Error>(library.error());
  }
  if (const Status possible = check_preloadable(*library); !possible) {
    return tl::unexpected<Error>(possible.error());
  }
  Result<SpaceOptions> space_options = space_options_from_environment();
  if (!space_options) {
    return tl::unexpected<Error>(space_options.error());
  }
  if (const auto space = ProgramSpace::open(*space_options); !space) {
    return tl::unexpected<Error>(space.error());
  }
  warn_of_too_much(room, "--device-memory", options.device_memory,
                   "nothing will have to move before memory is short");
  warn_of_too_much(room, kHostMemory, options.host_memory, kHostMemoryEnds);
  if (const std::string lowered = fit_into(room, *space_options); !lowered.empty()) {
    say(lowered);
  }
  Environment environment{{"SPILLWAY_RECORD", records},
                          put_first("LD_PRELOAD", *library),
                          // As they are now, not as memory is when the program begins to use it.
                          {"SPILLWAY_DEVICE_MEMORY", std::to_string(space_options->device_bytes)},
                          {"SPILLWAY_HOST_MEMORY", std::to_string(space_options->host_bytes)},
                          // PyTorch's operators: it tells whom this names, for the groups that this
                          // names.
                          {"INTEL_LIBITTNOTIFY64", *library},
                          {"INTEL_ITTNOTIFY_GROUPS", "all"},
                          {"SPILLWAY_OPERATORS", "1"}};
  add_python_hook(environment);
  return environment;
}

Result<std::string> python_hook() {
  return find_beside({"../python/spillway/hook", "../share/spillway/hook",
                      "../../python/spillway/hook", "../../spillway/hook"});
}

}  // namespace spillway
