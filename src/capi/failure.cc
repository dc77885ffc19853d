// See failure.h.
#include "capi/failure.h"

namespace spillway::capi {
namespace {

std::string& message_of_this_thread() {
  thread_local std::string message;
  return message;
}

spillwayError_t code_of(ErrorCode code, spillwayError_t unsupported) {
  switch (code) {
    case ErrorCode::kInvalidInput:
      return spillwayErrorInvalidValue;
    case ErrorCode::kIo:
      return spillwayErrorIo;
    case ErrorCode::kUnsupported:
      return unsupported;
    case ErrorCode::kCannotRun:
      return spillwayErrorNotSupported;
    case ErrorCode::kNoRoom:
      return spillwayErrorMemoryAllocation;
    case ErrorCode::kBusy:
      return spillwayErrorBusy;
    case ErrorCode::kMode:
      return spillwayErrorMode;
    case ErrorCode::kDefect:
      break;
  }
  return spillwayErrorUnknown;
}

}  // namespace

tl::unexpected<Failure> fail(const Error& error, spillwayError_t unsupported) {
  return tl::unexpected<Failure>(Failure{code_of(error.code, unsupported), error.message});
}

tl::unexpected<Failure> is_null(const char* argument) {
  return fail(spillwayErrorInvalidValue, "{} is NULL", argument);
}

spillwayError_t report(spillwayError_t code, const char* message) noexcept {
  try {
    message_of_this_thread() = message;
  } catch (...) {
    // No memory for the line either. An old line would be about something else.
    message_of_this_thread().clear();
  }
  return code;
}

const char* last_message() noexcept { return message_of_this_thread().c_str(); }

}  // namespace spillway::capi
