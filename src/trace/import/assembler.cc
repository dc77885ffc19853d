// Lists without duplicates, limits, lifetimes. Layer: trace.
#include "trace/import/assembler.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "trace/limits.h"
#include "trace/validate.h"
#include "trace/visitor.h"

namespace spillway {
namespace {

void sort_out(std::vector<TensorId>& ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

// Without the intermediate tensors that no kernel uses.
void drop_unused(Trace& trace) {
  constexpr TensorId kUnused = std::numeric_limits<TensorId>::max();
  std::vector<TensorId> now(trace.tensors.size(), kUnused);
  const auto for_each_use = [&trace](const auto& what) {
    for (Kernel& kernel : trace.kernels) {
      std::for_each(kernel.reads.begin(), kernel.reads.end(), what);
      std::for_each(kernel.writes.begin(), kernel.writes.end(), what);
    }
  };
  for_each_use([&](const TensorId id) { now[id] = id; });
  std::vector<Tensor> kept;
  for (TensorId id = 0; id < trace.tensors.size(); ++id) {
    if (now[id] != kUnused || trace.tensors[id].persistent) {
      now[id] = static_cast<TensorId>(kept.size());
      kept.push_back(trace.tensors[id]);
    }
  }
  for_each_use([&](TensorId& id) { id = now[id]; });
  trace.tensors = std::move(kept);
}

}  // namespace

std::string plain_name(std::string_view text) {
  constexpr std::size_t kLongest = 512;
  std::string name(text.substr(0, kLongest));
  for (char& c : name) {
    c = c < ' ' || c > '~' ? '?' : c;
  }
  return name;
}

Result<TensorId> TraceAssembler::tensor(Bytes bytes, bool persistent) {
  if (trace_.tensors.size() >= kMaxTensors) {
    return make_error(ErrorCode::kInvalidInput, "more than {} tensors in an iteration",
                      kMaxTensors);
  }
  trace_.tensors.push_back({.bytes = bytes, .persistent = persistent});
  seen_.push_back(Seen::kNever);
  const auto id = static_cast<TensorId>(trace_.tensors.size() - 1);
  if (const Status status = grow(id, bytes); !status) {
    return tl::unexpected(status.error());
  }
  return id;
}

Status TraceAssembler::grow(TensorId id, Bytes bytes) {
  if (bytes > kMaxTensorBytes) {
    return make_error(ErrorCode::kInvalidInput, "a tensor of {} bytes; at most {} are allowed",
                      bytes, kMaxTensorBytes);
  }
  Tensor& tensor = trace_.tensors[id];
  tensor.bytes = std::max(tensor.bytes, bytes);
  return {};
}

Status TraceAssembler::kernel(ImportedKernel kernel) {
  if (trace_.kernels.size() >= kMaxKernels) {
    return make_error(ErrorCode::kInvalidInput, "more than {} kernels in an iteration",
                      kMaxKernels);
  }
  std::vector<TensorId>& reads = kernel.reads;
  sort_out(reads);
  sort_out(kernel.writes);
  for (const TensorId id : kernel.writes) {
    if (seen_[id] == Seen::kRead && !std::binary_search(reads.begin(), reads.end(), id)) {
      reads.insert(std::lower_bound(reads.begin(), reads.end(), id), id);
    }
  }
  for (const TensorId id : reads) {
    seen_[id] = seen_[id] == Seen::kNever ? Seen::kRead : seen_[id];
  }
  for (const TensorId id : kernel.writes) {
    seen_[id] = Seen::kWritten;
  }
  accesses_ += reads.size() + kernel.writes.size();
  text_bytes_ += kernel.name.size();
  if (accesses_ > kMaxAccesses || text_bytes_ > kMaxTotalTextBytes) {
    return make_error(ErrorCode::kInvalidInput,
                      "more than {} reads and writes or {} bytes of names in an iteration",
                      kMaxAccesses, kMaxTotalTextBytes);
  }
  trace_.kernels.push_back({.name = std::move(kernel.name),
                            .duration_ns = std::max<TimeNs>(kernel.duration_ns, 1),
                            .input_fault_ns = 0,
                            .all_fault_ns = 0,
                            .reads = std::move(reads),
                            .writes = std::move(kernel.writes),
                            .synchronizes = kernel.synchronizes});
  return {};
}

Result<Trace> TraceAssembler::finish(std::string_view device) {
  trace_.device = plain_name(device);
  drop_unused(trace_);
  mark_scratch(trace_);
  if (const Status status = validate_trace(trace_, "the iteration"); !status) {
    return tl::unexpected(status.error());
  }
  return std::move(trace_);
}

}  // namespace spillway
