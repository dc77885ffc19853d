// Opening what blocks are swapped to. See swap_file.h.
#include "platform/common/storage/swap_file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace spillway {
namespace {

constexpr mode_t kOwnerOnly = 0600;

// "swap.bin", and not ".swap".
bool has_extension(const std::string& path) {
  const std::size_t name = path.rfind('/') + 1;  // npos + 1 is 0
  const std::size_t dot = path.rfind('.');
  return dot != std::string::npos && dot > name && dot + 1 < path.size();
}

tl::unexpected<Error> cannot(const std::string& path, const char* what, const char* advice) {
  return make_error(ErrorCode::kInvalidInput, "{}: cannot {}: {}; {}", path, what,
                    std::strerror(errno), advice);
}

// A file without a name: nothing is left behind however the process ends.
Result<int> open_in_folder(const std::string& folder) {
  int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, kOwnerOnly);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) {
    return fd >= 0 ? Result<int>(fd)
                   : cannot(folder, "make a swap file here",
                            "name a folder that this user may write with --storage");
  }
  std::string name = folder + "/.spillway-swap-XXXXXX";
  fd = ::mkostemp(name.data(), O_DIRECT | O_CLOEXEC);
  if (fd < 0) {
    if (errno == EINVAL) {
      return make_error(ErrorCode::kInvalidInput,
                        "{}: this file system does not take direct I/O (O_DIRECT); name a folder "
                        "on a disk's file system with --storage",
                        folder);
    }
    return cannot(folder, "make a swap file here",
                  "name a folder that this user may write with --storage");
  }
  ::unlink(name.c_str());
  return fd;
}

Result<int> open_new_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_DIRECT | O_CLOEXEC, kOwnerOnly);
  if (fd < 0) {
    const int error = errno;
    if (error == EINVAL) {
      ::unlink(path.c_str());
      return make_error(ErrorCode::kInvalidInput,
                        "{}: this file system does not take direct I/O (O_DIRECT); name a place "
                        "on a disk's file system with --storage",
                        path);
    }
    errno = error;
    return cannot(path, "make the swap file", "name a folder that this user may write");
  }
  ::unlink(path.c_str());
  return fd;
}

// One page there and back, so that what does not work is told at the start.
Status try_direct_io(int fd, const std::string& path) {
  void* page = std::aligned_alloc(kPageBytes, kPageBytes);
  std::memset(page, 0x5a, kPageBytes);
  const bool written = ::pwrite(fd, page, kPageBytes, 0) == static_cast<ssize_t>(kPageBytes);
  int error = errno;
  std::memset(page, 0, kPageBytes);
  const bool read = written && ::pread(fd, page, kPageBytes, 0) == static_cast<ssize_t>(kPageBytes);
  error = written && !read ? errno : error;
  const bool same = read && static_cast<const unsigned char*>(page)[kPageBytes - 1] == 0x5a;
  std::free(page);  // NOLINT(*-no-malloc): O_DIRECT needs its alignment
  if (same) {
    return {};
  }
  return make_error(ErrorCode::kInvalidInput,
                    "{}: a first page could not be written and read back with direct I/O: {}; name "
                    "another place with --storage",
                    path, read ? "it came back changed" : std::strerror(error));
}

// What this process may write to one file: writing beyond it ends the process (SIGXFSZ).
Bytes largest_file_bytes() {
  rlimit most{};
  const bool limited = ::getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY;
  return limited ? most.rlim_cur / kBlockBytes * kBlockBytes : ~Bytes{0};
}

Bytes free_bytes_of(int fd) {
  struct statvfs about {};
  if (::fstatvfs(fd, &about) != 0) {
    return 0;
  }
  const Bytes free = static_cast<Bytes>(about.f_bavail) * about.f_frsize;
  return free - free / 10;
}

}  // namespace

// A mistyped folder is no new file: it would lie on whatever disk is above it.
Status SwapFile::check_place(const std::string& path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) {
    if (errno != ENOENT) {
      return cannot(path, "use it for swapping", "check the path");
    }
    return has_extension(path)
               ? Status()
               : make_error(ErrorCode::kInvalidInput,
                            "{0}: there is no such folder; --storage takes one that exists, or a "
                            "new file, whose name has an extension: {1}.swap",
                            path, path.substr(0, path.find_last_not_of('/') + 1));
  }
  if (!S_ISDIR(about.st_mode) && !S_ISBLK(about.st_mode)) {
    return make_error(ErrorCode::kInvalidInput,
                      "{}: this file exists; --storage takes a folder, a new file's name or a "
                      "block device",
                      path);
  }
  return {};
}

Result<SwapFile> SwapFile::open(const std::string& path, Bytes bytes) {
  struct stat about {};
  const bool exists = ::stat(path.c_str(), &about) == 0;
  if (const Status takes = check_place(path); !takes) {
    return tl::unexpected<Error>(takes.error());
  }
  Result<int> fd = -1;
  Bytes most_bytes = 0;
  const bool device = exists && S_ISBLK(about.st_mode);
  if (exists && S_ISDIR(about.st_mode)) {
    fd = open_in_folder(path);
  } else if (device) {
    fd = ::open(path.c_str(), O_RDWR | O_DIRECT | O_EXCL | O_CLOEXEC);
    if (*fd < 0) {
      return cannot(path, "open the block device",
                    "it must be writable, not mounted and not used for swapping already");
    }
  } else {
    fd = open_new_file(path);
  }
  if (!fd) {
    return tl::unexpected<Error>(fd.error());
  }
  SwapFile file(Descriptor(*fd), path, bytes);
  if (device) {
    if (::ioctl(file.fd(), BLKGETSIZE64, &most_bytes) != 0) {
      return cannot(path, "tell its size", "is it a block device?");
    }
  } else {
    most_bytes = free_bytes_of(file.fd());
    const Bytes limit_bytes = largest_file_bytes();
    if (limit_bytes < std::max(bytes, kBlockBytes)) {
      return make_error(ErrorCode::kInvalidInput,
                        "{}: files may have {} (ulimit -f), which is too little for storage of {}; "
                        "raise the limit or name a block device with --storage",
                        path, format_bytes(limit_bytes),
                        format_bytes(bytes > 0 ? bytes : most_bytes));
    }
    most_bytes = std::min(most_bytes, limit_bytes);
  }
  if (bytes == 0) {
    file.bytes_ = most_bytes;
  }
  if (file.bytes_ > most_bytes || file.bytes_ < kBlockBytes) {
    return make_error(ErrorCode::kInvalidInput,
                      "{}: {} of storage asked for, {} there; ask for less behind the colon, or "
                      "name another place with --storage",
                      path, format_bytes(file.bytes_), format_bytes(most_bytes));
  }
  if (const Status works = try_direct_io(file.fd(), path); !works) {
    return tl::unexpected<Error>(works.error());
  }
  return file;
}

SwapFile::SwapFile(Descriptor fd, std::string path, Bytes bytes)
    : fd_(std::move(fd)), path_(std::move(path)), bytes_(bytes) {
  struct stat status {};
  if (::fstat(fd_.get(), &status) == 0) {
    system_ = status.st_dev;
    number_ = status.st_ino;
  }
}

bool SwapFile::is_behind(int fd) const {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && status.st_dev == system_ && status.st_ino == number_;
}

}  // namespace spillway
