// See failures.h.
#include "platform/common/failures.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "platform/common/process/say.h"

namespace spillway {
namespace {

void end_process(const Error& error) { end_run(error.message); }

}  // namespace

Failures::Failures(std::function<void(const Error&)> on_fatal)
    : on_fatal_(on_fatal ? std::move(on_fatal) : end_process) {}

void Failures::fatal(const Error& error) {
  if (!told_.exchange(true)) {
    on_fatal_(error);
  }
}

void Failures::must(int error_number, const char* what) {
  if (error_number != 0) {
    fatal({ErrorCode::kIo, fmt::format("the kernel refuses to {} memory: {}; stopping before data "
                                       "is lost",
                                       what, std::strerror(error_number))});
  }
}

void Failures::note_cause(std::string text) {
  const MutexLock lock(mutex_);
  cause_ = std::move(text);
}

Error Failures::with_cause(Error error) const {
  const MutexLock lock(mutex_);
  if (!cause_.empty()) {
    error.message = cause_ + "; stopping before data is lost";
  }
  return error;
}

}  // namespace spillway
