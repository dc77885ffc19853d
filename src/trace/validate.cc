// A whole trace through the checker. Layer: trace.
#include "trace/validate.h"

#include <optional>

#include "trace/checker.h"

namespace spillway {
namespace {

Status check_all(const Trace& trace) {
  TraceChecker checker;
  if (Status status = checker.header({trace.model, trace.batch_size, trace.device, trace.dtype});
      !status) {
    return status;
  }
  for (const Tensor& tensor : trace.tensors) {
    if (Status status = checker.tensor(tensor, std::nullopt); !status) {
      return status;
    }
  }
  for (const Kernel& kernel : trace.kernels) {
    if (Status status = checker.kernel(kernel); !status) {
      return status;
    }
  }
  return checker.finish();
}

}  // namespace

Status validate_trace(const Trace& trace, std::string_view where) {
  Status status = check_all(trace);
  if (!status) {
    return make_error(status.error().code, "{}: {}", where, status.error().message);
  }
  return status;
}

}  // namespace spillway
