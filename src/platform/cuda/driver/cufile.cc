// See cufile.h.
#include "platform/cuda/driver/cufile.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <strings.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/mutex.h"
#include "platform/common/process/descriptor.h"

namespace spillway::cuda {
namespace {

std::string path_of(const std::string& given, const char* variable, const char* usual) {
  const char* const named = std::getenv(variable);
  return !given.empty() ? given : named != nullptr && *named != '\0' ? named : usual;
}

// Of all platforms of this process. What a program has opened was set up by threads of the program,
// and what its library's own threads call on the driver would be taken for the program's calls.
// The list is never destroyed: threads of the program may run until the very end.
Status open_once(void* library, const CuFile& calls) {
  static Mutex mutex;
  static auto& opened = *new std::vector<void*>;
  const MutexLock lock(mutex);
  if (std::find(opened.begin(), opened.end(), library) != opened.end()) {
    return {};
  }
  const bool before = calls.use_count != nullptr && calls.use_count() > 0;
  const CuFileError result = before ? CuFileError{} : calls.driver_open();
  if (before || result.error == kCuFileAlreadyOpen) {
    return make_error(ErrorCode::kUnsupported, "the program uses libcufile itself");
  }
  if (result.error != 0) {
    return make_error(ErrorCode::kUnsupported, "{}", error_text("cuFileDriverOpen", result));
  }
  opened.push_back(library);
  return {};
}

// "Allowed" is too much: it is used per file and per transfer, and nobody is told.
Status goes_past_host_memory(const CuFile& calls) {
  CuFileProperties properties{};
  const CuFileError result = calls.driver_properties(&properties);
  if (result.error != 0) {
    return make_error(ErrorCode::kUnsupported, "{}",
                      error_text("cuFileDriverGetProperties", result));
  }
  if (properties.module_major == 0 && properties.module_minor == 0) {
    return make_error(ErrorCode::kUnsupported, "libcufile does not use nvidia-fs");
  }
  constexpr unsigned kThroughHost = kCuFileAllowsCompatibility | kCuFilePlainIo | kCuFileFallsBack;
  if ((properties.control & kThroughHost) != 0) {
    return make_error(ErrorCode::kUnsupported,
                      "libcufile may go through host memory all the same: look at cufile.json");
  }
  return {};
}

}  // namespace

CuFileNeeds cufile_needs(const CuFilePlace& place) {
  std::error_code error;
  const std::string module = path_of(place.module, kCuFileModuleVariable, "/proc/driver/nvidia-fs");
  const std::string path = path_of(place.node, kCuFileNodeVariable, "/dev/nvidia-fs0");
  const Descriptor node(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  const char* const allowed = std::getenv(kCuFileCompatibilityVariable);
  return {.module = std::filesystem::exists(module, error),
          .node = node.get() >= 0,
          .word = allowed != nullptr && ::strcasecmp(allowed, "false") == 0};
}

std::string missing_text(const CuFileNeeds& needs) {
  std::vector<std::string> missing;
  if (!needs.module) {
    missing.emplace_back("the kernel module nvidia-fs is not loaded");
  }
  if (!needs.node) {
    missing.emplace_back("its device node cannot be opened to read and write");
  }
  if (!needs.word) {
    missing.push_back(fmt::format("{}=false is not set", kCuFileCompatibilityVariable));
  }
  return fmt::format("{}", fmt::join(missing, ", "));
}

Result<CuFile> open_cufile(const CuFilePlace& place) {
  if (const CuFileNeeds needs = cufile_needs(place); !needs.all()) {
    return make_error(ErrorCode::kUnsupported, "{}", missing_text(needs));
  }
  const std::string file = path_of(place.library, kCuFileVariable, "libcufile.so.0");
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = ::dlerror();
    return make_error(ErrorCode::kUnsupported, "no libcufile: {}",
                      reason != nullptr ? reason : "it cannot be opened");
  }
  CuFile calls;
  const char* missing = nullptr;
  const auto find = [&](auto& call, const char* symbol) {
    call = std::bit_cast<std::decay_t<decltype(call)>>(::dlsym(library, symbol));
    missing = call == nullptr ? symbol : missing;
  };
  find(calls.use_count, "cuFileUseCount");
  missing = nullptr;
  find(calls.driver_open, "cuFileDriverOpen");
  find(calls.driver_properties, "cuFileDriverGetProperties");
  find(calls.handle_register, "cuFileHandleRegister");
  find(calls.handle_deregister, "cuFileHandleDeregister");
  find(calls.read, "cuFileRead");
  find(calls.write, "cuFileWrite");
  if (missing != nullptr) {
    return make_error(ErrorCode::kUnsupported, "libcufile has no {}", missing);
  }
  Status fine = open_once(library, calls);
  if (fine) {
    fine = goes_past_host_memory(calls);
  }
  if (!fine) {
    return tl::unexpected<Error>(fine.error());
  }
  return calls;
}

std::string error_text(const char* symbol, CuFileError error) {
  return error.driver_error == CuResult::kSuccess
             ? fmt::format("{}: error {}", symbol, error.error)
             : fmt::format("{}: error {} (the driver's: {})", symbol, error.error,
                           static_cast<unsigned>(error.driver_error));
}

}  // namespace spillway::cuda
