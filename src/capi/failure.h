// How functions of the C API fail: a code and one line, kept for the thread that asked.
// Layer: capi.
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "base/error.h"
#include "spillway/spillway.h"

namespace spillway::capi {

// What a program in C has put into an enumeration: any number, which no variable of the enumeration
// could hold.
template <typename Enumeration>
[[nodiscard]] int number_in(const Enumeration& value) {
  int number = 0;
  static_assert(sizeof(number) == sizeof(value));
  std::memcpy(&number, &value, sizeof(number));
  return number;
}

struct Failure {
  spillwayError_t code;
  std::string message;  // one line
};

template <typename T>
using Outcome = tl::expected<T, Failure>;

template <typename... Args>
[[nodiscard]] tl::unexpected<Failure> fail(spillwayError_t code, fmt::format_string<Args...> format,
                                           Args&&... args) {
  return tl::unexpected<Failure>(Failure{code, fmt::format(format, std::forward<Args>(args)...)});
}

// `unsupported` is what kUnsupported means where the error comes from.
[[nodiscard]] tl::unexpected<Failure> fail(const Error& error, spillwayError_t unsupported);

[[nodiscard]] tl::unexpected<Failure> is_null(const char* argument);

// Remembers the line for this thread and gives the code back. Never throws.
spillwayError_t report(spillwayError_t code, const char* message) noexcept;
[[nodiscard]] const char* last_message() noexcept;

// Runs the body of a function of the C API, which returns an Outcome<void>: nothing is thrown into
// a program in C.
template <typename Body>
spillwayError_t guarded(Body body) noexcept {
  try {
    const Outcome<void> outcome = body();
    return outcome ? spillwaySuccess
                   : report(outcome.error().code, outcome.error().message.c_str());
  } catch (const std::bad_alloc&) {
    return report(spillwayErrorMemoryAllocation, "the process is out of memory");
  } catch (const std::exception& exception) {
    return report(spillwayErrorUnknown, exception.what());
  } catch (...) {
    return report(spillwayErrorUnknown, "an exception of unknown type");
  }
}

}  // namespace spillway::capi
