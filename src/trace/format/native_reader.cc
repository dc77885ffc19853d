// Decoding the records of a native trace one at a time. Layer: trace.
#include "trace/format/native_reader.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trace/checker.h"
#include "trace/format/native_format.h"
#include "trace/format/zstd_source.h"
#include "trace/limits.h"
#include "trace/record_input.h"

namespace spillway {
namespace {

// The file's first bytes, before the compressed records.
class Prelude {
 public:
  // Takes kNativePreludeBytes from `file`; what its last chunk has beyond them is rest().
  Status read(ByteSource& file) {
    std::string bytes;
    while (bytes.size() < kNativePreludeBytes) {
      const Result<std::string_view> chunk = file.next();
      if (!chunk) {
        return tl::unexpected(chunk.error());
      }
      if (chunk->empty()) {
        return make_error(ErrorCode::kInvalidInput, "byte {}: the file is truncated; copy it again",
                          bytes.size());
      }
      const std::size_t missing = kNativePreludeBytes - bytes.size();
      bytes.append(chunk->substr(0, missing));
      rest_ = chunk->substr(std::min(missing, chunk->size()));
    }
    if (!bytes.starts_with(kNativeMagic)) {
      return make_error(ErrorCode::kInvalidInput, "byte 0: not a native Spillway trace");
    }
    for (std::size_t i = 0; i < 4; ++i) {
      version_ |= std::uint32_t{static_cast<unsigned char>(bytes[kNativeMagic.size() + i])}
                  << (8 * i);
    }
    if (version_ != kNativeVersion && version_ != kNativeVersionWithKernelFlags) {
      return make_error(
          ErrorCode::kInvalidInput,
          "byte 8: version {} of the trace format; this program reads versions {} and {}", version_,
          kNativeVersion, kNativeVersionWithKernelFlags);
    }
    return {};
  }

  [[nodiscard]] std::uint32_t version() const { return version_; }
  [[nodiscard]] std::string_view rest() const { return rest_; }

 private:
  std::uint32_t version_ = 0;
  std::string_view rest_;
};

class NativeReader {
 public:
  NativeReader(ByteSource& records, std::uint32_t version, TraceVisitor& visitor)
      : in_(records),
        has_kernel_flags_(version == kNativeVersionWithKernelFlags),
        visitor_(visitor) {}

  Status run() {
    const Status status = read_records();
    if (in_.source_failed()) {
      return in_.status();
    }
    if (!in_.ok() || !status) {
      // What the decoder stumbled over is the cause; what the record then seemed to say is not.
      const Error& error = in_.ok() ? status.error() : in_.status().error();
      return make_error(error.code, "{} (record at byte {} of the records)", error.message,
                        record_start_);
    }
    return {};
  }

 private:
  Status read_records() {
    bool header = false;
    while (true) {
      record_start_ = in_.offset();
      const std::uint64_t tag = in_.varint("the tag of a record");
      if (!in_.ok()) {
        return in_.status();
      }
      if (!header && tag != static_cast<std::uint64_t>(RecordTag::kHeader)) {
        return make_error(ErrorCode::kInvalidInput, "the first record is not the header");
      }
      Status status;
      switch (tag) {
        case static_cast<std::uint64_t>(RecordTag::kHeader):
          if (header) {
            return make_error(ErrorCode::kInvalidInput, "a second header");
          }
          header = true;
          status = read_header();
          break;
        case static_cast<std::uint64_t>(RecordTag::kTensor):
          status = read_tensor();
          break;
        case static_cast<std::uint64_t>(RecordTag::kKernel):
          status = read_kernel();
          break;
        case static_cast<std::uint64_t>(RecordTag::kEnd):
          return read_end();
        default:
          return make_error(ErrorCode::kInvalidInput, "a record with the unknown tag {}", tag);
      }
      if (!status || !in_.ok()) {
        return status;
      }
    }
  }

  Status read_header() {
    TraceHeader header;
    header.model = in_.text("model");
    header.device = in_.text("device");
    header.dtype = in_.text("dtype");
    header.batch_size = in_.varint("batch_size");
    if (!in_.ok()) {
      return in_.status();
    }
    return checker_.header(header).and_then([&] { return visitor_.on_header(std::move(header)); });
  }

  Status read_tensor() {
    const std::uint64_t id = checker_.tensor_count();
    if (checker_.kernel_count() > 0) {
      return make_error(ErrorCode::kInvalidInput, "tensors[{}]: comes after kernels", id);
    }
    const std::uint64_t flags = in_.varint("the flags of a tensor");
    Tensor tensor;
    tensor.bytes = in_.varint("the bytes of a tensor");
    tensor.persistent = (flags & kPersistentFlag) != 0;
    tensor.scratch = (flags & kScratchFlag) != 0;
    std::optional<RecordedLifetime> lifetime;
    if ((flags & kLifetimeFlag) != 0) {
      const std::uint64_t birth = in_.varint("the birth of a tensor");
      const std::uint64_t death = in_.varint("the death of a tensor");
      if (birth >= kMaxKernels || death >= kMaxKernels) {
        return make_error(ErrorCode::kInvalidInput,
                          "tensors[{}]: lives from kernels[{}] to kernels[{}]; there are at most "
                          "{} kernels",
                          id, birth, death, kMaxKernels);
      }
      lifetime = {static_cast<KernelIndex>(birth), static_cast<KernelIndex>(death)};
    }
    if (!in_.ok()) {
      return in_.status();
    }
    if (flags > kAllTensorFlags) {
      return make_error(ErrorCode::kInvalidInput, "tensors[{}]: unknown flags {}", id, flags);
    }
    return checker_.tensor(tensor, lifetime).and_then([&] {
      return visitor_.on_tensor(static_cast<TensorId>(id), tensor, lifetime);
    });
  }

  Status read_kernel() {
    const std::uint64_t index = checker_.kernel_count();
    Kernel kernel;
    const std::uint64_t flags = has_kernel_flags_ ? in_.varint("the flags of a kernel") : 0;
    if (flags > kAllKernelFlags) {
      return make_error(ErrorCode::kInvalidInput, "kernels[{}]: unknown flags {}", index, flags);
    }
    kernel.synchronizes = (flags & kSynchronizesFlag) != 0;
    const std::uint64_t name = in_.varint("the name of a kernel");
    if (name > names_.size()) {
      return make_error(ErrorCode::kInvalidInput, "kernels[{}].name: refers to name {} of {}",
                        index, name, names_.size());
    }
    if (name == 0) {
      names_.push_back(in_.text("the name of a kernel"));
      kernel.name = names_.back();
    } else {
      kernel.name = names_[name - 1];
    }
    Status status =
        read_time("duration_ns", kernel.duration_ns)
            .and_then([&] { return read_time("input_fault_ns", kernel.input_fault_ns); })
            .and_then([&] { return read_time("all_fault_ns", kernel.all_fault_ns); })
            .and_then([&] { return read_ids("reads", kernel.reads); })
            .and_then([&] { return read_ids("writes", kernel.writes); });
    if (!status || !in_.ok()) {
      return status;
    }
    return checker_.kernel(kernel).and_then(
        [&] { return visitor_.on_kernel(static_cast<KernelIndex>(index), std::move(kernel)); });
  }

  Status read_time(std::string_view field, TimeNs& out) {
    const std::uint64_t ns = in_.varint("a time of a kernel");
    if (ns > static_cast<std::uint64_t>(kMaxDurationNs)) {
      return make_error(ErrorCode::kInvalidInput, "kernels[{}].{}: {} ns; at most {} are allowed",
                        checker_.kernel_count(), field, ns, kMaxDurationNs);
    }
    out = static_cast<TimeNs>(ns);
    return {};
  }

  // Ids are differences to the id before, across lists and kernels: neighbours use neighbours.
  Status read_ids(std::string_view list, std::vector<TensorId>& out) {
    const std::uint64_t count = in_.varint("the length of a list of tensors");
    const std::uint64_t tensors = checker_.tensor_count();
    if (count > tensors) {
      return make_error(ErrorCode::kInvalidInput, "kernels[{}].{}: {} tensors; the trace has {}",
                        checker_.kernel_count(), list, count, tensors);
    }
    for (std::uint64_t i = 0; i < count && in_.ok(); ++i) {
      std::int64_t id = 0;
      const bool overflow =
          __builtin_add_overflow(previous_id_, unzigzag(in_.varint("a tensor id")), &id);
      if (overflow || id < 0 || id >= static_cast<std::int64_t>(tensors)) {
        return make_error(ErrorCode::kInvalidInput,
                          "kernels[{}].{}[{}]: tensor {} does not exist; the trace has {} tensors",
                          checker_.kernel_count(), list, i, id, tensors);
      }
      previous_id_ = id;
      out.push_back(static_cast<TensorId>(previous_id_));
    }
    return {};
  }

  Status read_end() {
    const std::uint64_t tensors = in_.varint("the number of tensors");
    const std::uint64_t kernels = in_.varint("the number of kernels");
    if (!in_.ok()) {
      return in_.status();
    }
    if (tensors != checker_.tensor_count() || kernels != checker_.kernel_count()) {
      return make_error(ErrorCode::kInvalidInput,
                        "the end record counts {} tensors and {} kernels, but the file has {} and "
                        "{}; records are missing",
                        tensors, kernels, checker_.tensor_count(), checker_.kernel_count());
    }
    if (!in_.at_end()) {
      return make_error(ErrorCode::kInvalidInput, "records follow the end record");
    }
    return in_.ok() ? checker_.finish() : in_.status();
  }

  RecordInput in_;
  bool has_kernel_flags_;
  TraceVisitor& visitor_;
  TraceChecker checker_;
  std::vector<std::string> names_;
  std::int64_t previous_id_ = 0;
  std::uint64_t record_start_ = 0;
};

}  // namespace

Status read_native_trace(ByteSource& file, TraceVisitor& visitor) {
  Prelude prelude;
  if (Status status = prelude.read(file); !status) {
    return status;
  }
  RewoundSource compressed(prelude.rest(), file);
  ZstdSource records(compressed, kNativePreludeBytes);
  return read_native_records(records, prelude.version(), visitor);
}

Status read_native_records(ByteSource& records, std::uint32_t version, TraceVisitor& visitor) {
  return NativeReader(records, version, visitor).run();
}

}  // namespace spillway
