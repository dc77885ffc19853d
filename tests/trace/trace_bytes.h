// Trace files as bytes in memory: reading them, and writing native ones record by record so that
// they can be wrong in every way. For tests of the trace layer.
#pragma once

#include <zstd.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "trace/format/byte_source.h"
#include "trace/format/native_format.h"
#include "trace/read.h"
#include "trace/trace.h"

namespace spillway {

inline Result<Trace> read_bytes(std::string_view bytes) {
  MemorySource source(bytes);
  return read_trace(source, "t");
}

// The message, or "good" where the bytes are a trace.
inline std::string complaint(std::string_view bytes) {
  const Result<Trace> trace = read_bytes(bytes);
  return trace ? "good" : trace.error().message;
}

// A source that hands out one byte at a time: what a reader must survive at every boundary.
class DrippingSource : public ByteSource {
 public:
  explicit DrippingSource(std::string_view bytes) : bytes_(bytes) {}
  Result<std::string_view> next() override {
    const std::string_view one = bytes_.substr(0, 1);
    bytes_.remove_prefix(one.size());
    return one;
  }

 private:
  std::string_view bytes_;
};

// Records of the native format, spelled out.
class RawRecords {
 public:
  RawRecords& number(std::uint64_t value) {
    while (value >= 0x80) {
      bytes_.push_back(static_cast<char>(value | 0x80U));
      value >>= 7U;
    }
    bytes_.push_back(static_cast<char>(value));
    return *this;
  }
  RawRecords& text(std::string_view text) {
    number(text.size());
    bytes_ += text;
    return *this;
  }
  RawRecords& header() { return number(1).text("m").text("d").text("float32").number(8); }
  RawRecords& tensor(std::uint64_t flags, std::uint64_t bytes) {
    return number(2).number(flags).number(bytes);
  }
  RawRecords& tensor(std::uint64_t bytes, std::uint64_t birth, std::uint64_t death) {
    return tensor(kLifetimeFlag, bytes).number(birth).number(death);
  }
  // Steps from id to id, over reads, then writes.
  RawRecords& kernel(std::string_view name, std::uint64_t duration_ns,
                     std::initializer_list<std::int64_t> reads,
                     std::initializer_list<std::int64_t> writes) {
    number(3);
    return rest_of_kernel(name, duration_ns, reads, writes);
  }
  // The same of version 2.
  RawRecords& flagged_kernel(std::uint64_t flags, std::string_view name, std::uint64_t duration_ns,
                             std::initializer_list<std::int64_t> reads,
                             std::initializer_list<std::int64_t> writes) {
    number(3).number(flags);
    return rest_of_kernel(name, duration_ns, reads, writes);
  }
  RawRecords& end(std::uint64_t tensors, std::uint64_t kernels) {
    return number(4).number(tensors).number(kernels);
  }
  RawRecords& raw(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }

  [[nodiscard]] const std::string& bytes() const { return bytes_; }
  // As a file of the given version.
  [[nodiscard]] std::string file(std::uint8_t version = 1) const {
    std::string compressed(ZSTD_compressBound(bytes_.size()), '\0');
    ZSTD_CCtx* context = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    compressed.resize(ZSTD_compress2(context, compressed.data(), compressed.size(), bytes_.data(),
                                     bytes_.size()));
    ZSTD_freeCCtx(context);
    return std::string(kNativeMagic) + static_cast<char>(version) + std::string(3, '\0') +
           compressed;
  }

 private:
  RawRecords& rest_of_kernel(std::string_view name, std::uint64_t duration_ns,
                             std::initializer_list<std::int64_t> reads,
                             std::initializer_list<std::int64_t> writes) {
    number(0).text(name).number(duration_ns).number(0).number(0);
    for (const auto* list : {&reads, &writes}) {
      number(list->size());
      for (const std::int64_t step : *list) {
        number(zigzag(step));
      }
    }
    return *this;
  }

  std::string bytes_;
};

}  // namespace spillway
