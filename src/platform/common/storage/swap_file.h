// What blocks are swapped to. Layer: platform, common.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/units.h"
#include "platform/common/process/descriptor.h"

namespace spillway {

// Where the bytes go: an unlinked file, or a block device.
class SwapFile {
 public:
  // `path` is a folder (an unnamed file is made there, O_TMPFILE or unlinked at once, mode 0600), a
  // file that does not exist yet, whose name has an extension (made and unlinked), or a block
  // device, whose contents are destroyed. Opened with O_DIRECT and tried with one write and one
  // read. Fails with kInvalidInput or kUnsupported and what to do. bytes = 0: what the device has,
  // or the folder's file system has free, less a tenth.
  static Result<SwapFile> open(const std::string& path, Bytes bytes);
  // Whether it is one of these; makes nothing. Fails with kInvalidInput.
  [[nodiscard]] static Status check_place(const std::string& path);

  [[nodiscard]] int fd() const { return fd_.get(); }
  // Whether the descriptor is still this file's: a program may close all descriptors that it does
  // not know, and open something else under the number.
  [[nodiscard]] bool intact() const { return is_behind(fd_.get()); }
  // The same of another descriptor.
  [[nodiscard]] bool is_behind(int fd) const;
  [[nodiscard]] Bytes bytes() const { return bytes_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  SwapFile(Descriptor fd, std::string path, Bytes bytes);
  Descriptor fd_;
  std::uint64_t system_ = 0;  // the file's number and that of its file system
  std::uint64_t number_ = 0;
  std::string path_;
  Bytes bytes_;
};

}  // namespace spillway
