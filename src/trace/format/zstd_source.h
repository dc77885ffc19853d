// Bytes decompressed from one zstd frame as they are asked for. Layer: trace.
#pragma once

#include <zstd.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "trace/format/byte_source.h"

namespace spillway {

// log2 of the window that a reader accepts and a writer uses: bounds the memory of decompression.
inline constexpr int kZstdWindowLog = 23;

// Reads exactly one frame and verifies its checksum. Fails with kInvalidInput and the byte offset
// in the file where it is corrupt, truncated or followed by something else.
class ZstdSource : public ByteSource {
 public:
  // `compressed` must outlive this; its first byte is byte `offset` of the file.
  ZstdSource(ByteSource& compressed, std::uint64_t offset);
  Result<std::string_view> next() override;

 private:
  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };

  Result<bool> refill();
  [[nodiscard]] std::uint64_t position() const { return chunk_start_ + input_.pos; }

  ByteSource& compressed_;
  std::unique_ptr<ZSTD_DCtx, Free> context_;
  ZSTD_inBuffer input_{nullptr, 0, 0};
  std::uint64_t chunk_start_;
  std::vector<char> out_;
  bool frame_ended_ = false;
};

}  // namespace spillway
