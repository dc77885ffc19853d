#include "platform/cuda/driver/driver.h"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <bit>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace spillway::cuda {
namespace {

// The newest of all calls decides, so that a driver either has them all or is refused once.
constexpr int kVersionNeeded = [] {
  int newest = 0;
#define SPILLWAY_NEWEST(field, symbol, since, parameters) \
  newest = (since) > newest ? (since) : newest;
  SPILLWAY_CUDA_CALLS(SPILLWAY_NEWEST)
#undef SPILLWAY_NEWEST
  return newest;
}();

// Of a library that may be too old for anything else: 0 if it does not even say.
int version_of(void* library, FindSymbol find_symbol) {
  const auto get = std::bit_cast<CuResult (*)(int*)>(find_symbol(library, "cuDriverGetVersion"));
  int version = 0;
  return get != nullptr && get(&version) == CuResult::kSuccess ? version : 0;
}

std::string_view what_to_do(CuResult error) {
  switch (error) {
    case CuResult::kOutOfMemory:
      return "others use the device or pinned memory as well: lower the budget, or end them";
    case CuResult::kNotInitialized:
    case CuResult::kDeinitialized:
      return "the driver is not initialized, or the process is ending";
    case CuResult::kStubLibrary:
      return "this is the toolkit's stub library: take it out of LD_LIBRARY_PATH";
    case CuResult::kNoDevice:
      return "no GPU is visible: look at nvidia-smi and CUDA_VISIBLE_DEVICES";
    case CuResult::kInvalidDevice:
      return "there is no device of this number: look at CUDA_VISIBLE_DEVICES";
    case CuResult::kDeviceUnavailable:
      return "another process has the device for itself: look at its compute mode in nvidia-smi";
    case CuResult::kOperatingSystem:
      return "the system refused: look at dmesg, and at `ulimit -l` for pinned memory";
    case CuResult::kSystemDriverMismatch:
      return "kernel module and driver library differ: restart the machine";
    case CuResult::kEccUncorrectable:
      return "the device's memory is faulty: look at nvidia-smi -q, and reset or replace it";
    case CuResult::kIllegalAddress:
    case CuResult::kLaunchTimeout:
    case CuResult::kLaunchFailed:
    case CuResult::kTensorMemoryLeak:
      return "a kernel or a copy before it failed, and nothing runs in this context any more";
    case CuResult::kNotPermitted:
    case CuResult::kNotSupported:
      return "this device or driver does not offer it: spillway doctor says what is missing";
    case CuResult::kHostMemoryAlreadyRegistered:
      return "somebody else has pinned this memory";
    default:
      return "please report it as a defect";
  }
}

std::string file_of_driver() {
  const char* named = std::getenv(kDriverVariable);
  return named != nullptr && *named != '\0' ? named : "libcuda.so.1";
}

Result<void*> open_library(const std::string& file) {
  // Local: its names must not answer for somebody else's.
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    return make_error(ErrorCode::kUnsupported, "{}", reason != nullptr ? reason : file);
  }
  return library;
}

}  // namespace

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Result<DriverLibrary> find_driver_library() {
  const Result<void*> library = open_library(file_of_driver());
  if (!library) {
    return tl::unexpected<Error>(library.error());
  }
  DriverLibrary found{.path = file_of_driver(), .version = version_of(*library, ::dlsym)};
  link_map* map = nullptr;
  if (::dlinfo(*library, RTLD_DI_LINKMAP, static_cast<void*>(&map)) == 0) {
    std::error_code error;
    const std::filesystem::path path = std::filesystem::canonical(map->l_name, error);
    found.path = error ? map->l_name : path.string();
  }
  return found;
}

Result<Driver> open_driver(const std::string& path, FindSymbol find_symbol) {
  const std::string file = !path.empty() ? path : file_of_driver();
  const Result<void*> opened = open_library(file);
  if (!opened) {
    return make_error(ErrorCode::kUnsupported,
                      "no NVIDIA driver: {}: install one for CUDA {} or later",
                      opened.error().message, version_text(kVersionNeeded));
  }
  void* const library = *opened;
  if (find_symbol == nullptr) {
    find_symbol = ::dlsym;
  }
  Driver driver;
  // Each is looked up by the symbol of its version, not by name: that is the one declared here.
#define SPILLWAY_FIND(field, symbol, since, parameters)                                        \
  driver.field = std::bit_cast<decltype(driver.field)>(find_symbol(library, #symbol));         \
  if (driver.field == nullptr) {                                                               \
    const int has = version_of(library, find_symbol);                                          \
    return make_error(ErrorCode::kUnsupported,                                                 \
                      "{} has no {} (CUDA {}){}: install a driver for CUDA {} or later", file, \
                      #symbol, version_text(since),                                            \
                      has > 0 ? ", it is for CUDA " + version_text(has) : "",                  \
                      version_text(kVersionNeeded));                                           \
  }
  SPILLWAY_CUDA_CALLS(SPILLWAY_FIND)
#undef SPILLWAY_FIND
  return driver;
}

bool kernel_has_failed(CuResult error) {
  return error == CuResult::kIllegalAddress || error == CuResult::kLaunchTimeout ||
         error == CuResult::kAssert || error == CuResult::kTensorMemoryLeak ||
         (error >= CuResult::kHardwareStackError && error <= CuResult::kLaunchFailed);
}

std::string error_text(const Driver& driver, std::string_view symbol, CuResult error) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.error_name(error, &name) != CuResult::kSuccess || name == nullptr) {
    name = "an error that the driver cannot name";
  }
  if (driver.error_string(error, &text) != CuResult::kSuccess || text == nullptr) {
    text = "no text";
  }
  return fmt::format("{}: {} ({}, {}): {}", symbol, text, name, static_cast<unsigned>(error),
                     what_to_do(error));
}

void stay_out_of_captures(const Driver& driver) {
  unsigned mode = kCuCaptureRelaxed;
  (void)driver.thread_capture_mode(&mode);
}

std::string device_name(const Driver& driver, CuDevice device) {
  constexpr int kLongest = 256;
  std::array<char, kLongest> name{};  // ends with zero
  return driver.device_name(name.data(), kLongest - 1, device) == CuResult::kSuccess ? name.data()
                                                                                     : "";
}

Status check(const Driver& driver, std::string_view symbol, CuResult result) {
  if (result == CuResult::kSuccess) {
    return {};
  }
  return make_error(ErrorCode::kUnsupported, "{}", error_text(driver, symbol, result));
}

}  // namespace spillway::cuda
