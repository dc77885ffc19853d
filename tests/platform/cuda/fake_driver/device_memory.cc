#include "device_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <vector>

namespace fake_cuda {
namespace {

constexpr std::uint64_t kFileBytes = 1ULL << 46U;  // sparse
constexpr std::uint64_t kLargestReservationBytes = 1ULL << 46U;

void* no_access(std::uint64_t address, std::uint64_t bytes, int more_flags) {
  return ::mmap(pointer(address), bytes, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | more_flags, -1, 0);
}

void must(bool done) {
  if (!done) {
    std::abort();  // the system refuses what nothing here can do without
  }
}

}  // namespace

DeviceMemory::DeviceMemory(Report& report)
    : report_(&report), file_(::memfd_create("fake_cuda", MFD_CLOEXEC)) {
  must(file_ >= 0 && ::ftruncate(file_, static_cast<off_t>(kFileBytes)) == 0);
}

DeviceMemory::~DeviceMemory() {
  for (const auto& [address, bytes] : reservations_) {
    ::munmap(pointer(address), bytes);
  }
  for (const auto& [handle, it] : handles_) {
    if (it.imported_file >= 0) {
      ::close(it.imported_file);
    }
  }
  ::close(file_);
}

CuResult DeviceMemory::reserve(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t wish,
                               std::uint64_t* address) {
  alignment = std::max(alignment, kGranularityBytes);
  if (bytes == 0 || bytes % kGranularityBytes != 0 || (alignment & (alignment - 1)) != 0) {
    return CuResult::kInvalidValue;
  }
  if (bytes > kLargestReservationBytes) {
    return CuResult::kOutOfMemory;
  }
  std::uint64_t begin = 0;
  if (wish != 0 && wish % alignment == 0 &&
      no_access(wish, bytes, MAP_FIXED_NOREPLACE) == pointer(wish)) {
    begin = wish;
  } else {
    void* memory = no_access(0, bytes + alignment, 0);
    if (memory == MAP_FAILED) {
      return CuResult::kOutOfMemory;
    }
    const auto raw = reinterpret_cast<std::uint64_t>(memory);
    begin = (raw + alignment - 1) / alignment * alignment;
    if (begin > raw) {
      ::munmap(memory, begin - raw);
    }
    if (begin < raw + alignment) {
      ::munmap(pointer(begin + bytes), raw + alignment - begin);
    }
  }
  reservations_.emplace(begin, bytes);
  ++report_->counters.reservations;
  *address = begin;
  return CuResult::kSuccess;
}

CuResult DeviceMemory::free_reservation(std::uint64_t address, std::uint64_t bytes) {
  const auto found = reservations_.find(address);
  if (found == reservations_.end() || found->second != bytes) {
    report_->violation(FAKE_CUDA_NOT_RESERVED, "cuMemAddressFree: {:#x}, {} B is no reservation",
                       address, bytes);
    return CuResult::kInvalidValue;
  }
  const auto mapping = at_or_after(address);
  if (mapping != mappings_.end() && mapping->first < address + bytes) {
    report_->violation(FAKE_CUDA_NOT_RESERVED, "cuMemAddressFree: memory is mapped at {:#x}",
                       mapping->first);
    return CuResult::kInvalidValue;
  }
  ::munmap(pointer(address), bytes);
  reservations_.erase(found);
  --report_->counters.reservations;
  return CuResult::kSuccess;
}

CuResult DeviceMemory::create(std::uint64_t bytes, bool on_host, std::uint64_t limit_bytes,
                              bool poison, std::uint64_t* handle) {
  if (bytes == 0 || bytes % kGranularityBytes != 0) {
    return CuResult::kInvalidValue;
  }
  FakeCudaCounters& counters = report_->counters;
  if (!on_host && (bytes > limit_bytes || counters.handle_bytes > limit_bytes - bytes)) {
    return CuResult::kOutOfMemory;
  }
  *handle = next_handle_++;
  handles_.emplace(*handle, Handle{.bytes = bytes,
                                   .offset = next_offset_,
                                   .on_host = on_host,
                                   .filled = poison,
                                   .references = 1,
                                   .mappings = 0});
  if (poison) {
    static const std::vector<unsigned char> garbage(kGranularityBytes, 0xA5);
    for (std::uint64_t at = 0; at < bytes; at += garbage.size()) {
      must(::pwrite(file_, garbage.data(), garbage.size(), static_cast<off_t>(next_offset_ + at)) ==
           static_cast<ssize_t>(garbage.size()));
    }
  }
  next_offset_ += bytes;
  ++counters.creates;
  ++counters.handles;
  (on_host ? counters.host_handle_bytes : counters.handle_bytes) += bytes;
  counters.peak_handle_bytes = std::max(counters.peak_handle_bytes, counters.handle_bytes);
  return CuResult::kSuccess;
}

CuResult DeviceMemory::release(std::uint64_t handle) {
  const auto found = handles_.find(handle);
  if (!has(handle)) {
    report_->violation(FAKE_CUDA_BAD_HANDLE, "cuMemRelease: there is no handle {}{}", handle,
                       handle != 0 && handle < next_handle_ ? " any more" : "");
    return CuResult::kInvalidValue;
  }
  --found->second.references;
  give_back_if_unused(handle);
  return CuResult::kSuccess;
}

void DeviceMemory::give_back_if_unused(std::uint64_t handle) {
  const auto found = handles_.find(handle);
  const Handle& it = found->second;
  if (it.references > 0 || it.mappings > 0) {
    return;
  }
  if (it.imported_file >= 0) {
    ::close(it.imported_file);
    --report_->counters.handles;
    handles_.erase(found);
    return;
  }
  must(it.exported ||
       ::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(it.offset),
                   static_cast<off_t>(it.bytes)) == 0);
  (it.on_host ? report_->counters.host_handle_bytes : report_->counters.handle_bytes) -= it.bytes;
  --report_->counters.handles;
  handles_.erase(found);
}

CuResult DeviceMemory::map(std::uint64_t address, std::uint64_t bytes, std::uint64_t offset,
                           std::uint64_t handle) {
  const auto found = handles_.find(handle);
  if (!has(handle)) {
    report_->violation(FAKE_CUDA_BAD_HANDLE, "cuMemMap: there is no handle {}", handle);
    return CuResult::kInvalidValue;
  }
  if (offset != 0 || bytes != found->second.bytes) {
    report_->violation(FAKE_CUDA_PART_OF_HANDLE,
                       "cuMemMap: {} B from {} of handle {}, which has {} B", bytes, offset, handle,
                       found->second.bytes);
    return CuResult::kNotSupported;
  }
  const auto after = reservations_.upper_bound(address);
  if (address % kGranularityBytes != 0 || after == reservations_.begin() ||
      address + bytes > std::prev(after)->first + std::prev(after)->second) {
    report_->violation(FAKE_CUDA_NOT_RESERVED,
                       "cuMemMap: {:#x}, {} B is not in a reservation, or not aligned", address,
                       bytes);
    return CuResult::kInvalidValue;
  }
  const auto there = at_or_after(address);
  if (there != mappings_.end() && there->first < address + bytes) {
    report_->violation(FAKE_CUDA_MAP_OVER_MAP,
                       "cuMemMap: handle {} at {:#x}, where handle {} is mapped at {:#x}", handle,
                       address, there->second.handle, there->first);
    return CuResult::kInvalidValue;
  }
  mappings_.emplace(address, Mapping{bytes, handle, CuAccess::kNone});
  ++found->second.mappings;
  ++report_->counters.maps;
  ++report_->counters.mappings;
  return CuResult::kSuccess;
}

CuResult DeviceMemory::whole_mappings(const char* call, const Range& range) {
  std::uint64_t at = range.address;
  for (auto it = at_or_after(at); at < range.end(); ++it) {
    if (it == mappings_.end() || it->first > at) {
      report_->violation(FAKE_CUDA_NOT_MAPPED, "{}: nothing is mapped at {:#x}", call, at);
      return CuResult::kInvalidValue;
    }
    if (it->first < at || it->first + it->second.bytes > range.end()) {
      report_->violation(
          FAKE_CUDA_PART_OF_HANDLE, "{}: {:#x}, {} B has only a part of handle {} at {:#x}, {} B",
          call, range.address, range.bytes, it->second.handle, it->first, it->second.bytes);
      return CuResult::kInvalidValue;
    }
    at += it->second.bytes;
  }
  return range.bytes == 0 ? CuResult::kInvalidValue : CuResult::kSuccess;
}

std::uint64_t DeviceMemory::unmap(const Range& range) {
  std::uint64_t count = 0;
  auto it = mappings_.find(range.address);
  while (it != mappings_.end() && it->first < range.end()) {
    const Mapping mapping = it->second;
    must(no_access(it->first, mapping.bytes, MAP_FIXED) != MAP_FAILED);
    it = mappings_.erase(it);
    --handles_.at(mapping.handle).mappings;
    give_back_if_unused(mapping.handle);
    ++report_->counters.unmaps;
    --report_->counters.mappings;
    ++count;
  }
  return count;
}

std::uint64_t DeviceMemory::set_access(const Range& range, CuAccess access) {
  const int protection = access == CuAccess::kReadWrite ? PROT_READ | PROT_WRITE
                         : access == CuAccess::kRead    ? PROT_READ
                                                        : PROT_NONE;
  std::uint64_t count = 0;
  for (auto it = mappings_.find(range.address); it != mappings_.end() && it->first < range.end();
       ++it) {
    const Handle& handle = handles_.at(it->second.handle);
    // With all pages, where they exist: a fault on each would take longer than what is done with
    // them.
    const int flags = MAP_SHARED | MAP_FIXED | (handle.filled ? MAP_POPULATE : 0);
    must(::mmap(pointer(it->first), handle.bytes, protection, flags, file_of(handle),
                static_cast<off_t>(handle.offset)) != MAP_FAILED);
    it->second.access = access;
    ++report_->counters.access_changes;
    ++count;
  }
  return count;
}

bool DeviceMemory::has(std::uint64_t handle) const {
  const auto found = handles_.find(handle);
  return found != handles_.end() && found->second.references > 0;
}

std::uint64_t DeviceMemory::retain(std::uint64_t address) {
  const auto mapping = at_or_after(address);
  if (mapping == mappings_.end() || mapping->first > address) {
    return 0;
  }
  ++handles_.at(mapping->second.handle).references;
  return mapping->second.handle;
}

std::optional<CuAccess> DeviceMemory::access_of(std::uint64_t address) const {
  const auto mapping = at_or_after(address);
  return mapping == mappings_.end() || mapping->first > address
             ? std::nullopt
             : std::optional(mapping->second.access);
}

// The file once more, at a place that says which handle's it is: where it begins, and behind that
// in units of what is smallest how large it is.
CuResult DeviceMemory::export_handle(std::uint64_t handle, int* descriptor) {
  const auto found = handles_.find(handle);
  if (found == handles_.end() || found->second.references == 0 || !found->second.exportable) {
    return CuResult::kInvalidValue;
  }
  Handle& it = found->second;
  const int fd = ::open(fmt::format("/proc/self/fd/{}", file_of(it)).c_str(), O_RDWR | O_CLOEXEC);
  must(fd >= 0 &&
       ::lseek(fd, static_cast<off_t>(it.offset + it.bytes / kGranularityBytes), SEEK_SET) >= 0);
  it.exported = true;
  *descriptor = fd;
  return CuResult::kSuccess;
}

CuResult DeviceMemory::import_handle(int descriptor, std::uint64_t* handle) {
  const off_t place = ::lseek(descriptor, 0, SEEK_CUR);
  if (place <= 0) {
    return CuResult::kInvalidValue;
  }
  const std::uint64_t units = static_cast<std::uint64_t>(place) % kGranularityBytes;
  *handle = next_handle_++;
  handles_.emplace(*handle, Handle{.bytes = units * kGranularityBytes,
                                   .offset = static_cast<std::uint64_t>(place) - units,
                                   .on_host = false,
                                   .filled = false,
                                   .references = 1,
                                   .mappings = 0,
                                   .exportable = true,
                                   .imported_file = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0)});
  must(handles_.at(*handle).imported_file >= 0);
  ++report_->counters.handles;
  return CuResult::kSuccess;
}

bool DeviceMemory::reserved(std::uint64_t address) const {
  const auto after = reservations_.upper_bound(address);
  return after != reservations_.begin() &&
         address - std::prev(after)->first < std::prev(after)->second;
}

std::string DeviceMemory::problem(const Range& range) const {
  if (range.bytes > range.end()) {
    return fmt::format("{:#x}, {} B is no range", range.address, range.bytes);
  }
  std::uint64_t at = range.address;
  for (auto it = at_or_after(at); at < range.end(); ++it) {
    if (it == mappings_.end() || it->first > at) {
      return fmt::format("nothing is mapped at {:#x}", at);
    }
    if (it->second.access == CuAccess::kNone) {
      return fmt::format("nobody was given access to {:#x}", at);
    }
    if (range.writes && it->second.access == CuAccess::kRead) {
      return fmt::format("nobody was given access to write {:#x}", at);
    }
    at = it->first + it->second.bytes;
  }
  return {};
}

bool DeviceMemory::rdma_capable(std::uint64_t address) const {
  const auto mapping = at_or_after(address);
  return mapping != mappings_.end() && mapping->first <= address &&
         handles_.at(mapping->second.handle).rdma_capable;
}

// The mapping that holds the address, or the first behind it.
DeviceMemory::Mappings::const_iterator DeviceMemory::at_or_after(std::uint64_t address) const {
  const auto after = mappings_.upper_bound(address);
  if (after != mappings_.begin() &&
      address - std::prev(after)->first < std::prev(after)->second.bytes) {
    return std::prev(after);
  }
  return after;
}

}  // namespace fake_cuda
