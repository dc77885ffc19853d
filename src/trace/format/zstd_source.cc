// Decompressing with zstd, a chunk at a time. Layer: trace.
#include "trace/format/zstd_source.h"

namespace spillway {

ZstdSource::ZstdSource(ByteSource& compressed, std::uint64_t offset)
    : compressed_(compressed),
      context_(ZSTD_createDCtx()),
      chunk_start_(offset),
      out_(kChunkBytes) {
  if (context_) {
    ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, kZstdWindowLog);
  }
}

// False at the end of the compressed bytes.
Result<bool> ZstdSource::refill() {
  const Result<std::string_view> chunk = compressed_.next();
  if (!chunk) {
    return tl::unexpected(chunk.error());
  }
  chunk_start_ += input_.size;
  input_ = {chunk->data(), chunk->size(), 0};
  return !chunk->empty();
}

Result<std::string_view> ZstdSource::next() {
  if (!context_) {
    return make_error(ErrorCode::kIo, "zstd has no memory");
  }
  ZSTD_outBuffer output{out_.data(), out_.size(), 0};
  while (output.pos == 0) {
    if (input_.pos == input_.size) {
      const Result<bool> more = refill();
      if (!more) {
        return tl::unexpected(more.error());
      }
      if (!*more && frame_ended_) {
        break;
      }
      if (!*more) {
        return make_error(ErrorCode::kInvalidInput, "byte {}: the file is truncated; copy it again",
                          position());
      }
    }
    if (frame_ended_) {
      return make_error(ErrorCode::kInvalidInput, "byte {}: something follows the end of the trace",
                        position());
    }
    const std::size_t code = ZSTD_decompressStream(context_.get(), &output, &input_);
    if (ZSTD_isError(code) != 0) {
      return make_error(ErrorCode::kInvalidInput,
                        "byte {}: the compressed records are corrupt ({})", position(),
                        ZSTD_getErrorName(code));
    }
    frame_ended_ = code == 0;
  }
  return std::string_view(out_.data(), output.pos);
}

}  // namespace spillway
