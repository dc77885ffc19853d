// What blocks are swapped to. Layer: platform, common.
#pragma once

#include <string>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "platform/common/descriptor.h"

namespace spillway {

// Where the bytes go: an unlinked file, or a block device.
class SwapFile {
 public:
  // `path` is a folder (an unnamed file is made there, O_TMPFILE or unlinked at once, mode 0600), a
  // file that does not exist yet (made and unlinked), or a block device, whose contents are
  // destroyed. Opened with O_DIRECT and tried with one write and one read. Fails with kInvalidInput
  // or kUnsupported and what to do. bytes = 0: what the device has, or the folder's file system has
  // free, less a tenth.
  static Result<SwapFile> open(const std::string& path, Bytes bytes);

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] Bytes bytes() const { return bytes_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  SwapFile(Descriptor fd, std::string path, Bytes bytes)
      : fd_(std::move(fd)), path_(std::move(path)), bytes_(bytes) {}
  Descriptor fd_;
  std::string path_;
  Bytes bytes_;
};

}  // namespace spillway
