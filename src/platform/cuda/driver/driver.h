// The driver library, opened at run time: one binary runs on machines with and without it.
// Layer: platform, cuda. Which calls there are, and with which parameters: driver_calls.h.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "platform/cuda/driver/driver_calls.h"
#include "platform/cuda/driver/driver_types.h"

namespace spillway::cuda {

// The driver's functions. Plain pointers, copyable, valid until the process ends: the library is
// never closed. Which may be called from several threads at once, what they wait for and what they
// refuse is the driver's to say; docs/gpu.md has what was measured.
struct Driver {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name and a parameter list
#define SPILLWAY_FIELD(field, symbol, since, parameters) CuResult(*field) parameters = nullptr;
  SPILLWAY_CUDA_CALLS(SPILLWAY_FIELD)
#undef SPILLWAY_FIELD
};

// Names another library than libcuda.so.1; for tests.
inline constexpr const char* kDriverVariable = "SPILLWAY_CUDA_DRIVER";

// How a symbol is found in a library that dlopen has opened: dlsym, or what dlsym was before
// somebody overrode it. nullptr if there is none.
using FindSymbol = void* (*)(void* library, const char* symbol);

// Opens the library at `path`; without one what kDriverVariable names, or else libcuda.so.1.
// Initializes nothing: Driver::init is the caller's. Fails with kUnsupported if there is no such
// library, or one that is older than the calls that Spillway needs.
[[nodiscard]] Result<Driver> open_driver(const std::string& path = {},
                                         FindSymbol find_symbol = nullptr);

// Where the library is that open_driver would open, and for which version of CUDA. It is opened,
// and initialized no more than by that; it may lack calls that Spillway needs.
struct DriverLibrary {
  std::string path;  // without links, so that it shows the driver's own version
  int version = 0;   // 13000 is 13.0; 0 where the library does not say
};
// Fails with kUnsupported and the reason if there is none.
[[nodiscard]] Result<DriverLibrary> find_driver_library();
// "13.0" of 13000.
[[nodiscard]] std::string version_text(int version);

// Whether the error tells of a kernel that has failed: no context of the process runs anything any
// more.
[[nodiscard]] bool kernel_has_failed(CuResult error);
// One line: the call by its symbol, the driver's name and number for the error, and what to do.
[[nodiscard]] std::string error_text(const Driver& driver, std::string_view symbol, CuResult error);

// What the calling thread does from now on is no part of what other threads capture into graphs,
// and must not end their captures.
void stay_out_of_captures(const Driver& driver);

// Empty if the driver does not tell it.
[[nodiscard]] std::string device_name(const Driver& driver, CuDevice device);

// Nothing if the call succeeded, otherwise kUnsupported with its text.
[[nodiscard]] Status check(const Driver& driver, std::string_view symbol, CuResult result);

}  // namespace spillway::cuda
