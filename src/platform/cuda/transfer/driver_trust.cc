#include "platform/cuda/transfer/driver_trust.h"

namespace spillway::cuda {

void DriverTrust::must(CuResult result, const char* symbol) {
  if (result == CuResult::kSuccess) {
    return;
  }
  const Error error{ErrorCode::kIo,
                    error_text(driver_, symbol, result) + "; stopping before data is lost"};
  if (kernel_has_failed(result)) {
    lost_ = true;
    unreported_ = error;
  } else {
    end(error);
  }
}

void DriverTrust::end(const Error& error) {
  lost_ = true;
  failures_.fatal(error);
}

}  // namespace spillway::cuda
