// Whether what is on the device can still be relied on: results of the driver that must not be
// errors. Layer: platform, cuda. The driver thread's.
#pragma once

#include <optional>

#include "base/error.h"
#include "platform/common/failures.h"
#include "platform/cuda/driver/driver.h"

namespace spillway::cuda {

class DriverTrust {
 public:
  // Both must outlive it.
  DriverTrust(const Driver& driver, Failures& failures) : driver_(driver), failures_(failures) {}

  // An error means that the context is lost, or that a promise of ours was broken. It ends the run,
  // unless it may be the program's own.
  void must(CuResult result, const char* symbol);
  void end(const Error& error);
  [[nodiscard]] bool is_lost() const { return lost_; }
  // An error that may be the program's own (a kernel that has failed).
  [[nodiscard]] const std::optional<Error>& unreported() const { return unreported_; }

 private:
  const Driver& driver_;
  Failures& failures_;
  bool lost_ = false;
  std::optional<Error> unreported_;
};

}  // namespace spillway::cuda
