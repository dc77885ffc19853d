// Encoding a trace as compressed records. Layer: trace.
#include "trace/format/native_writer.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trace/format/native_format.h"
#include "trace/format/zstd_source.h"
#include "trace/visitor.h"

namespace spillway {
namespace {

class ZstdOutput {
 public:
  explicit ZstdOutput(std::string& out) : context_(ZSTD_createCCtx()), out_(out) {
    if (context_) {
      ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_checksumFlag, 1);
      ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, 9);
      ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_windowLog, kZstdWindowLog);
    }
  }

  Status write(std::string_view bytes, ZSTD_EndDirective directive) {
    if (!context_) {
      return make_error(ErrorCode::kIo, "zstd has no memory");
    }
    ZSTD_inBuffer input{bytes.data(), bytes.size(), 0};
    std::size_t left = 1;
    while (left != 0 && (directive == ZSTD_e_end || input.pos < input.size)) {
      std::array<char, 16384> buffer{};
      ZSTD_outBuffer output{buffer.data(), buffer.size(), 0};
      left = ZSTD_compressStream2(context_.get(), &output, &input, directive);
      if (ZSTD_isError(left) != 0) {
        return make_error(ErrorCode::kIo, "zstd cannot compress: {}", ZSTD_getErrorName(left));
      }
      out_.append(buffer.data(), output.pos);
    }
    return {};
  }

 private:
  struct Free {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  };

  std::unique_ptr<ZSTD_CCtx, Free> context_;
  std::string& out_;
};

// Encodes into a buffer of one record.
class RecordOutput {
 public:
  void tag(RecordTag tag) { varint(static_cast<std::uint64_t>(tag)); }
  void varint(std::uint64_t value) {
    while (value >= 0x80) {
      bytes_.push_back(static_cast<char>((value & 0x7FU) | 0x80U));
      value >>= 7U;
    }
    bytes_.push_back(static_cast<char>(value));
  }
  void text(std::string_view text) {
    varint(text.size());
    bytes_.append(text);
  }
  void ids(const std::vector<TensorId>& ids) {
    varint(ids.size());
    for (const TensorId id : ids) {
      varint(zigzag(std::int64_t{id} - previous_id_));
      previous_id_ = id;
    }
  }
  [[nodiscard]] std::string_view bytes() const { return bytes_; }
  void clear() { bytes_.clear(); }

 private:
  std::string bytes_;
  std::int64_t previous_id_ = 0;
};

constexpr KernelIndex kUnused = std::numeric_limits<KernelIndex>::max();

std::vector<RecordedLifetime> lifetimes(const Trace& trace) {
  std::vector<RecordedLifetime> lives(trace.tensors.size(), {kUnused, 0});
  for (KernelIndex k = 0; k < trace.kernels.size(); ++k) {
    for (const auto* list : {&trace.kernels[k].reads, &trace.kernels[k].writes}) {
      for (const TensorId id : *list) {
        lives[id].birth = std::min(lives[id].birth, k);
        lives[id].death = k;
      }
    }
  }
  return lives;
}

void encode_tensor(RecordOutput& record, const Tensor& tensor, const RecordedLifetime& life) {
  const bool recorded = !tensor.persistent && life.birth != kUnused;
  record.tag(RecordTag::kTensor);
  record.varint((tensor.persistent ? kPersistentFlag : 0) | (tensor.scratch ? kScratchFlag : 0) |
                (recorded ? kLifetimeFlag : 0));
  record.varint(tensor.bytes);
  if (recorded) {
    record.varint(life.birth);
    record.varint(life.death);
  }
}

}  // namespace

Result<std::string> encode_native_trace(const Trace& trace) {
  const bool has_kernel_flags = std::any_of(trace.kernels.begin(), trace.kernels.end(),
                                            [](const Kernel& k) { return k.synchronizes; });
  const std::uint32_t version = has_kernel_flags ? kNativeVersionWithKernelFlags : kNativeVersion;
  std::string file(kNativeMagic);
  for (unsigned shift = 0; shift < 32; shift += 8) {
    file.push_back(static_cast<char>((version >> shift) & 0xFFU));
  }
  ZstdOutput zstd(file);
  RecordOutput record;
  Status status;
  const auto flush = [&](ZSTD_EndDirective directive = ZSTD_e_continue) {
    if (status) {
      status = zstd.write(record.bytes(), directive);
    }
    record.clear();
  };

  record.tag(RecordTag::kHeader);
  record.text(trace.model);
  record.text(trace.device);
  record.text(trace.dtype);
  record.varint(trace.batch_size);
  flush();
  const std::vector<RecordedLifetime> lives = lifetimes(trace);
  for (TensorId id = 0; id < trace.tensors.size(); ++id) {
    encode_tensor(record, trace.tensors[id], lives[id]);
    flush();
  }
  std::unordered_map<std::string_view, std::uint64_t> names;  // from 1 in the order of first use
  for (const Kernel& kernel : trace.kernels) {
    record.tag(RecordTag::kKernel);
    if (has_kernel_flags) {
      record.varint(kernel.synchronizes ? kSynchronizesFlag : 0);
    }
    const auto [name, is_new] = names.try_emplace(kernel.name, names.size() + 1);
    record.varint(is_new ? 0 : name->second);
    if (is_new) {
      record.text(kernel.name);
    }
    record.varint(static_cast<std::uint64_t>(kernel.duration_ns));
    record.varint(static_cast<std::uint64_t>(kernel.input_fault_ns));
    record.varint(static_cast<std::uint64_t>(kernel.all_fault_ns));
    record.ids(kernel.reads);
    record.ids(kernel.writes);
    flush();
  }
  record.tag(RecordTag::kEnd);
  record.varint(trace.tensors.size());
  record.varint(trace.kernels.size());
  flush(ZSTD_e_end);
  if (!status) {
    return tl::unexpected(status.error());
  }
  return file;
}

}  // namespace spillway
