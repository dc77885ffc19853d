// Files and memory as byte sources. Layer: trace.
#include "trace/format/byte_source.h"

#include <cerrno>
#include <system_error>
#include <utility>

namespace spillway {

Result<std::string_view> MemorySource::next() {
  const std::string_view chunk = bytes_.substr(0, kChunkBytes);
  bytes_.remove_prefix(chunk.size());
  return chunk;
}

Result<std::string_view> RewoundSource::next() {
  return first_.empty() ? rest_.next() : std::exchange(first_, {});
}

Result<std::unique_ptr<FileSource>> FileSource::open(const std::filesystem::path& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) {
    const int reason = errno;
    // A path that leads nowhere is a mistake in what was asked for, not a failure of the machine.
    const bool missing = reason == ENOENT || reason == ENOTDIR;
    return make_error(missing ? ErrorCode::kInvalidInput : ErrorCode::kIo, "{}: cannot open: {}",
                      path.string(), std::generic_category().message(reason));
  }
  return std::unique_ptr<FileSource>(new FileSource(file));
}

Result<std::string_view> FileSource::next() {
  const std::size_t count = std::fread(buffer_.data(), 1, buffer_.size(), file_.get());
  if (count == 0 && std::ferror(file_.get()) != 0) {
    return make_error(ErrorCode::kIo, "cannot read: {}", std::generic_category().message(errno));
  }
  return std::string_view(buffer_.data(), count);
}

}  // namespace spillway
