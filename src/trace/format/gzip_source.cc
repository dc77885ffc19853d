// Inflating with zlib, a chunk at a time. Layer: trace.
#include "trace/format/gzip_source.h"

namespace spillway {

GzipSource::GzipSource(ByteSource& compressed) : compressed_(compressed), out_(kChunkBytes) {
  constexpr int kGzipOnly = 16;  // added to the window bits; zlib.h, inflateInit2
  ready_ = inflateInit2(&stream_, MAX_WBITS + kGzipOnly) == Z_OK;
}

GzipSource::~GzipSource() {
  if (ready_) {
    inflateEnd(&stream_);
  }
}

// False at the end of the compressed bytes.
Result<bool> GzipSource::refill() {
  const Result<std::string_view> chunk = compressed_.next();
  if (!chunk) {
    return tl::unexpected(chunk.error());
  }
  chunk_start_ += chunk_bytes_;
  chunk_bytes_ = chunk->size();
  // zlib only reads through next_in; its type lacks the const.
  stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(chunk->data()));
  stream_.avail_in = static_cast<uInt>(chunk->size());
  return !chunk->empty();
}

Result<std::string_view> GzipSource::next() {
  if (!ready_) {
    return make_error(ErrorCode::kIo, "zlib has no memory");
  }
  stream_.next_out = reinterpret_cast<Bytef*>(out_.data());
  stream_.avail_out = static_cast<uInt>(out_.size());
  while (stream_.avail_out != 0) {
    if (stream_.avail_in == 0) {
      const Result<bool> more = refill();
      if (!more) {
        return tl::unexpected(more.error());
      }
      if (!*more) {
        if (!between_members_) {
          return make_error(ErrorCode::kInvalidInput,
                            "byte {}: the gzip stream is truncated; copy the file again",
                            chunk_start_);
        }
        break;
      }
    }
    if (between_members_ && !first_member_) {
      inflateReset(&stream_);
    }
    between_members_ = false;
    const int code = inflate(&stream_, Z_NO_FLUSH);
    if (code == Z_STREAM_END) {
      between_members_ = true;
      first_member_ = false;
    } else if (code != Z_OK) {
      return make_error(ErrorCode::kInvalidInput, "byte {}: the gzip stream is corrupt ({})",
                        chunk_start_ + chunk_bytes_ - stream_.avail_in,
                        stream_.msg == nullptr ? zError(code) : stream_.msg);
    }
  }
  return std::string_view(out_.data(), out_.size() - stream_.avail_out);
}

}  // namespace spillway
