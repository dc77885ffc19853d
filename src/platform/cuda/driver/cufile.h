// GPUDirect Storage's library, opened at run time as the driver is: our own declarations of the few
// calls that are used, and whether they would go past host memory. Layer: platform, cuda. What is
// moved, and whether it arrives, is direct_storage.h's.
// Sizes, offsets and values are those of libcufile's binary interface, version 1;
// tests/platform/cuda/cufile_abi_test.cc compares them with cufile.h.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "base/error.h"
#include "platform/cuda/driver/driver_types.h"

namespace spillway::cuda {

// What most calls return.
struct CuFileError {
  int error;  // 0, or one of cuFile's own, 5001 and above
  CuResult driver_error;
};
static_assert(sizeof(CuFileError) == 8);
inline constexpr int kCuFileAlreadyOpen = 5026;

using CuFileHandle = void*;  // of a file

inline constexpr int kCuFileDescriptor = 1;
struct CuFileDescription {
  int type;  // kCuFileDescriptor
  union {
    int descriptor;
    void* other;
  } file;
  const void* operations;  // nullptr: the file system's
};
static_assert(offsetof(CuFileDescription, file) == 8 && sizeof(CuFileDescription) == 24);

struct CuFileProperties {
  unsigned module_major;  // version of nvidia-fs; 0.0 where it is not used
  unsigned module_minor;
  std::size_t poll_kib;
  std::size_t direct_io_kib;
  unsigned file_systems;
  unsigned control;    // bits, kCuFile... below
  unsigned other[6];   // features and sizes of caches
  unsigned later[32];  // newer libraries may write more
};
static_assert(offsetof(CuFileProperties, poll_kib) == 8 &&
              offsetof(CuFileProperties, control) == 28 && offsetof(CuFileProperties, later) == 56);

// Each of them lets the library read and write through host memory, and say nothing.
inline constexpr unsigned kCuFileAllowsCompatibility = 1U << 1U;
inline constexpr unsigned kCuFilePlainIo = 1U << 2U;
inline constexpr unsigned kCuFileFallsBack = 1U << 4U;

// Plain pointers, valid until the process ends: the library is never closed, nor what it has
// opened, which the program may use as well.
struct CuFile {
  long (*use_count)() = nullptr;  // how often the driver is open; older libraries have none
  CuFileError (*driver_open)() = nullptr;
  CuFileError (*driver_properties)(CuFileProperties* properties) = nullptr;
  CuFileError (*handle_register)(CuFileHandle* handle, CuFileDescription* description) = nullptr;
  void (*handle_deregister)(CuFileHandle handle) = nullptr;
  // Bytes, or -1 and errno, or less: one of cuFile's own errors, negative.
  ssize_t (*read)(CuFileHandle handle, void* memory, std::size_t bytes, off_t offset,
                  off_t memory_offset) = nullptr;
  ssize_t (*write)(CuFileHandle handle, const void* memory, std::size_t bytes, off_t offset,
                   off_t memory_offset) = nullptr;
};

// Name another library than libcufile.so.0, another path than /proc/driver/nvidia-fs, which is
// there while the kernel module is loaded, and another than its device node, /dev/nvidia-fs0; for
// tests.
inline constexpr const char* kCuFileVariable = "SPILLWAY_CUFILE";
inline constexpr const char* kCuFileModuleVariable = "SPILLWAY_NVIDIA_FS";
inline constexpr const char* kCuFileNodeVariable = "SPILLWAY_NVIDIA_FS_NODE";
// libcufile's own: "false" forbids it to go through host memory, which it may by default.
inline constexpr const char* kCuFileCompatibilityVariable = "CUFILE_ALLOW_COMPAT_MODE";

// Empty: what the variables name, or else those.
struct CuFilePlace {
  std::string library;
  std::string module;
  std::string node;
};

// What must hold before libcufile is so much as loaded: where it would not be used that does
// nothing but harm (it writes a log, closes descriptors, and may crash as the program ends).
struct CuFileNeeds {
  bool module = false;  // is loaded
  bool node = false;    // can be opened, to read and write
  bool word = false;    // the user's, that compatibility mode is off
  [[nodiscard]] bool all() const { return module && node && word; }
};
[[nodiscard]] CuFileNeeds cufile_needs(const CuFilePlace& place);
// Which of them are missing, for people; empty if none is.
[[nodiscard]] std::string missing_text(const CuFileNeeds& needs);

// Everything that can be known without a file and a context: the needs are met, the library has the
// calls, its driver opens (once in a process, and before the program has opened it), and nothing
// lets it go through host memory. Otherwise kUnsupported, and which of it is missing.
[[nodiscard]] Result<CuFile> open_cufile(const CuFilePlace& place);

// For people.
[[nodiscard]] std::string error_text(const char* symbol, CuFileError error);

}  // namespace spillway::cuda
