// What ends a run: said once, with the cause that was met last. Layer: platform, common.
// Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "base/error.h"
#include "base/mutex.h"

namespace spillway {

class Failures {
 public:
  // `on_fatal` must not return to the program. nullptr: prints the error's line on standard error
  // and ends the process with status 1.
  explicit Failures(std::function<void(const Error&)> on_fatal);

  // No further step is safe. Only the first one is told of.
  void fatal(const Error& error);
  // The kernel has refused to change our own mapping, which leaves no safe way on. 0 is no error
  // number.
  void must(int error_number, const char* what);
  // What went wrong last and may yet be mended by trying again.
  void note_cause(std::string text);
  // The error that the engine gives up with, in the words of the last cause if there is one.
  [[nodiscard]] Error with_cause(Error error) const;

 private:
  std::function<void(const Error&)> on_fatal_;
  std::atomic<bool> told_{false};
  mutable Mutex mutex_;
  std::string cause_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace spillway
