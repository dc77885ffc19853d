// Bytes inflated from a gzip stream as they are asked for. Layer: trace.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "trace/format/byte_source.h"

namespace spillway {

// Reads one or more gzip members (RFC 1952) and verifies their checksums. Fails with kInvalidInput
// and the byte offset in the compressed stream where it is corrupt, truncated or followed by
// something else. Holds one chunk of inflated bytes.
class GzipSource : public ByteSource {
 public:
  // `compressed` must outlive this.
  explicit GzipSource(ByteSource& compressed);
  ~GzipSource() override;
  Result<std::string_view> next() override;

 private:
  Result<bool> refill();

  ByteSource& compressed_;
  z_stream stream_{};
  std::vector<char> out_;
  std::uint64_t chunk_start_ = 0;  // offset of the current compressed chunk
  std::uint64_t chunk_bytes_ = 0;
  bool ready_ = false;
  bool between_members_ = true;
  bool first_member_ = true;
};

}  // namespace spillway
