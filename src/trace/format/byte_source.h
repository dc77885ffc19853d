// Where a reader's bytes come from: a file or memory, a chunk at a time. Layer: trace.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace spillway {

inline constexpr std::size_t kChunkBytes =
    std::size_t{64} * 1024;  // a source returns at most this at a time

class ByteSource {
 public:
  ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  virtual ~ByteSource() = default;

  // The next bytes, empty at the end and ever after. The view lives until the next call. Errors say
  // what is wrong without naming the file, which the caller knows. After an error, call no more.
  virtual Result<std::string_view> next() = 0;
};

// Bytes that the caller keeps alive.
class MemorySource : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : bytes_(bytes) {}
  Result<std::string_view> next() override;

 private:
  std::string_view bytes_;
};

class FileSource : public ByteSource {
 public:
  // kInvalidInput where there is no such file, kIo where it cannot be opened for another reason;
  // the message names it.
  static Result<std::unique_ptr<FileSource>> open(const std::filesystem::path& path);
  Result<std::string_view> next() override;

 private:
  struct Close {
    void operator()(std::FILE* file) const { static_cast<void>(std::fclose(file)); }
  };

  explicit FileSource(std::FILE* file) : file_(file), buffer_(kChunkBytes) {}

  std::unique_ptr<std::FILE, Close> file_;
  std::vector<char> buffer_;
};

// `first`, then what `rest` has left: a source whose first chunk somebody has looked at.
// Both must outlive this; `first` may be the view that `rest` returned last.
class RewoundSource : public ByteSource {
 public:
  RewoundSource(std::string_view first, ByteSource& rest) : first_(first), rest_(rest) {}
  Result<std::string_view> next() override;

 private:
  std::string_view first_;
  ByteSource& rest_;
};

}  // namespace spillway
