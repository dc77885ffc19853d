// Addresses, physical memory, and which lies behind which. Fake driver.
// Reservations are real ones without access. The memory of all handles is one sparse memory file,
// mapped where the program has access to it, so that kernels and copies use the program's own
// addresses and whatever else is touched faults.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "platform/cuda/driver/driver_types.h"
#include "report.h"

namespace fake_cuda {

inline void* pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

using spillway::cuda::CuAccess;
using spillway::cuda::CuResult;

inline constexpr std::uint64_t kGranularityBytes = 2ULL << 20U;

struct Range {
  std::uint64_t address;
  std::uint64_t bytes;
  bool writes;

  [[nodiscard]] std::uint64_t end() const { return address + bytes; }
  [[nodiscard]] bool overlaps(const Range& other) const {
    return address < other.end() && other.address < end();
  }
};

class DeviceMemory {
 public:
  explicit DeviceMemory(Report& report);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();

  CuResult reserve(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t wish,
                   std::uint64_t* address);
  CuResult free_reservation(std::uint64_t address, std::uint64_t bytes);

  // Out of memory if `limit_bytes` of the device do not hold it; host memory has no limit.
  CuResult create(std::uint64_t bytes, bool on_host, std::uint64_t limit_bytes, bool poison,
                  std::uint64_t* handle);
  // Made so that others than the device may reach it.
  void make_rdma_capable(std::uint64_t handle) { handles_.at(handle).rdma_capable = true; }
  [[nodiscard]] bool rdma_capable(std::uint64_t address) const;
  // Made so that other processes may have it: a descriptor of it, and the handle that such a
  // descriptor makes here. Its memory is on the device of whoever has made it. docs/testing.md.
  void make_exportable(std::uint64_t handle) { handles_.at(handle).exportable = true; }
  CuResult export_handle(std::uint64_t handle, int* descriptor);
  CuResult import_handle(int descriptor, std::uint64_t* handle);
  // Its memory goes when nothing is mapped to it any more.
  CuResult release(std::uint64_t handle);
  // That of the memory at this address, which has to be released once more; 0: nothing is mapped.
  [[nodiscard]] std::uint64_t retain(std::uint64_t address);
  // False if there is no such handle (any more).
  [[nodiscard]] bool has(std::uint64_t handle) const;
  // nullopt: nothing is mapped there.
  [[nodiscard]] std::optional<CuAccess> access_of(std::uint64_t address) const;

  CuResult map(std::uint64_t address, std::uint64_t bytes, std::uint64_t offset,
               std::uint64_t handle);
  // Whole mappings, side by side: kSuccess, or why not.
  CuResult whole_mappings(const char* call, const Range& range);
  // Of a range that consists of whole mappings. How many they were.
  std::uint64_t unmap(const Range& range);
  std::uint64_t set_access(const Range& range, CuAccess access);

  [[nodiscard]] bool reserved(std::uint64_t address) const;
  // Why nothing may run there; empty if all of it is mapped, with access.
  [[nodiscard]] std::string problem(const Range& range) const;

 private:
  struct Handle {
    std::uint64_t bytes;
    std::uint64_t offset;  // in the file
    bool on_host;
    bool filled;  // with garbage
    unsigned references;
    unsigned mappings;
    bool rdma_capable = false;
    bool exportable = false;
    bool exported = false;   // others may have it: its memory never goes
    int imported_file = -1;  // that it lies in; -1: ours
  };
  [[nodiscard]] int file_of(const Handle& handle) const {
    return handle.imported_file >= 0 ? handle.imported_file : file_;
  }
  struct Mapping {
    std::uint64_t bytes;
    std::uint64_t handle;
    CuAccess access;
  };
  using Mappings = std::map<std::uint64_t, Mapping>;

  [[nodiscard]] Mappings::const_iterator at_or_after(std::uint64_t address) const;
  void give_back_if_unused(std::uint64_t handle);

  Report* report_;
  int file_;
  std::uint64_t next_offset_ = 0;  // never used again, so that a stale mapping is found out
  std::uint64_t next_handle_ = 1;
  std::map<std::uint64_t, std::uint64_t> reservations_;  // address -> bytes
  std::map<std::uint64_t, Handle> handles_;
  Mappings mappings_;
};

}  // namespace fake_cuda
