// Errors that travel back instead of exceptions: what went wrong, where, and what to do.
// Ground floor; everything includes this.
#pragma once

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace spillway {

enum class ErrorCode {
  kInvalidInput,  // a file, an option or a field that a person can correct; exit status 2
  kIo,            // the operating system refused to read or write; exit status 1
  kUnsupported,   // this machine or build lacks something; exit status 1
  kCannotRun,     // a policy cannot run this program on this machine; reported, not a failure
  kNoRoom,        // it does not fit beside what is there; less of it, or later
  kBusy,          // somebody uses it now; possible when that has ended
  kMode,          // not possible in the mode in which it is now
  kDefect,        // this program broke a promise of its own: contents lost, an invariant broken
};

// One line for a person: what, where, what to do. No trailing newline.
struct Error {
  ErrorCode code;
  std::string message;
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = tl::expected<void, Error>;

// make_error(ErrorCode::kInvalidInput, "{}: line {}: ...", path, line)
template <typename... Args>
[[nodiscard]] tl::unexpected<Error> make_error(ErrorCode code, fmt::format_string<Args...> format,
                                               Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

}  // namespace spillway
