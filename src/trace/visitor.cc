// Building a Trace from a stream of records. Layer: trace.
#include "trace/visitor.h"

#include <utility>
#include <vector>

namespace spillway {

Status TraceBuilder::on_header(TraceHeader header) {
  trace_.model = std::move(header.model);
  trace_.batch_size = header.batch_size;
  trace_.device = std::move(header.device);
  trace_.dtype = std::move(header.dtype);
  return {};
}

Status TraceBuilder::on_tensor(TensorId /*id*/, const Tensor& tensor,
                               const std::optional<RecordedLifetime>& /*lifetime*/) {
  trace_.tensors.push_back(tensor);
  return {};
}

Status TraceBuilder::on_kernel(KernelIndex /*index*/, Kernel kernel) {
  trace_.kernels.push_back(std::move(kernel));
  return {};
}

Trace TraceBuilder::take() { return std::exchange(trace_, Trace{}); }

void mark_scratch(Trace& trace) {
  enum class Use : std::uint8_t { kNone, kOneWrite, kMore };
  std::vector<Use> uses(trace.tensors.size(), Use::kNone);
  for (const Kernel& kernel : trace.kernels) {
    for (const TensorId id : kernel.writes) {
      uses[id] = uses[id] == Use::kNone ? Use::kOneWrite : Use::kMore;
    }
    for (const TensorId id : kernel.reads) {
      uses[id] = Use::kMore;
    }
  }
  for (TensorId id = 0; id < trace.tensors.size(); ++id) {
    Tensor& tensor = trace.tensors[id];
    if (!tensor.persistent && uses[id] == Use::kOneWrite) {
      tensor.scratch = true;
    }
  }
}

}  // namespace spillway
