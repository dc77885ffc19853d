// How a reader hands over a trace record by record, without ever holding the whole of it.
// Layer: trace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "trace/trace.h"

namespace spillway {

// What a trace says about itself as a whole; the fields are those of Trace.
struct TraceHeader {
  std::string model;
  std::uint64_t batch_size = 0;
  std::string device;
  std::string dtype;
};

// First and last kernel that use an intermediate tensor. The native format records it, so that a
// consumer of the stream can let go of a tensor's state at its death; kernel-trace/1 does not.
struct RecordedLifetime {
  KernelIndex birth = 0;
  KernelIndex death = 0;

  friend bool operator==(const RecordedLifetime&, const RecordedLifetime&) = default;
};

// Receives every tensor in the order of ids, then every kernel in execution order. The header comes
// once, before, between or after them, as the file has it. Each record has passed the checks that
// need no later record; the trace as a whole is good only when the reader returns success.
// A failure that the visitor returns stops the reader, which puts the file before it and returns
// it.
class TraceVisitor {
 public:
  TraceVisitor() = default;
  TraceVisitor(const TraceVisitor&) = delete;
  TraceVisitor& operator=(const TraceVisitor&) = delete;
  virtual ~TraceVisitor() = default;

  virtual Status on_header(TraceHeader header) = 0;
  // `lifetime` is empty for persistent and unused tensors and where the format does not record it.
  // From kernel-trace/1, `scratch` is always false: it follows from the kernels (mark_scratch).
  virtual Status on_tensor(TensorId id, const Tensor& tensor,
                           const std::optional<RecordedLifetime>& lifetime) = 0;
  virtual Status on_kernel(KernelIndex index, Kernel kernel) = 0;
};

// Keeps what it is given as a Trace.
class TraceBuilder : public TraceVisitor {
 public:
  Status on_header(TraceHeader header) override;
  Status on_tensor(TensorId id, const Tensor& tensor,
                   const std::optional<RecordedLifetime>& lifetime) override;
  Status on_kernel(KernelIndex index, Kernel kernel) override;

  // Moves the trace out; the builder is empty afterwards.
  [[nodiscard]] Trace take();

 private:
  Trace trace_;
};

// Marks as scratch every intermediate tensor that exactly one kernel uses, by writing it: its
// contents are never read, so it can only be that kernel's work space.
void mark_scratch(Trace& trace);

}  // namespace spillway
