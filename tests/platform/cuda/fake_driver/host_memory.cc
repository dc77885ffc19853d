#include "host_memory.h"

#include <sys/mman.h>

#include <iterator>
#include <vector>

#include "device_memory.h"

namespace fake_cuda {
namespace {
std::uint64_t number(void* memory) { return reinterpret_cast<std::uint64_t>(memory); }
}  // namespace

HostMemory::~HostMemory() {
  for (const auto& [address, piece] : pieces_) {
    if (piece.allocated) {
      ::munmap(pointer(address), piece.bytes);
    }
  }
}

CuResult HostMemory::allocate(std::uint64_t bytes, const void* context, void** memory) {
  if (bytes == 0) {
    return CuResult::kInvalidValue;
  }
  void* made = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) {
    return CuResult::kOutOfMemory;
  }
  pieces_.emplace(number(made), Piece{bytes, true, context});
  report_->counters.pinned_bytes += bytes;
  *memory = made;
  return CuResult::kSuccess;
}

CuResult HostMemory::pin(void* memory, std::uint64_t bytes, const void* context) {
  const std::uint64_t begin = number(memory);
  if (memory == nullptr || bytes == 0) {
    return CuResult::kInvalidValue;
  }
  const auto after = pieces_.upper_bound(begin);
  if ((after != pieces_.end() && after->first < begin + bytes) ||
      (after != pieces_.begin() &&
       begin - std::prev(after)->first < std::prev(after)->second.bytes)) {
    return CuResult::kHostMemoryAlreadyRegistered;
  }
  pieces_.emplace(begin, Piece{bytes, false, context});
  report_->counters.pinned_bytes += bytes;
  return CuResult::kSuccess;
}

CuResult HostMemory::known(const char* call, void* memory, bool allocated) {
  const auto found = pieces_.find(number(memory));
  if (found == pieces_.end() || found->second.allocated != allocated) {
    report_->violation(FAKE_CUDA_BAD_HANDLE, "{}: {} was not {}", call, memory,
                       allocated ? "allocated" : "registered");
    return allocated ? CuResult::kInvalidValue : CuResult::kHostMemoryNotRegistered;
  }
  return CuResult::kSuccess;
}

void HostMemory::forget(void* memory) {
  const auto found = pieces_.find(number(memory));
  report_->counters.pinned_bytes -= found->second.bytes;
  if (found->second.allocated) {
    ::munmap(memory, found->second.bytes);
  }
  pieces_.erase(found);
}

void HostMemory::forget_those_of(const void* context) {
  std::vector<std::uint64_t> its;
  for (const auto& [address, piece] : pieces_) {
    if (piece.context == context) {
      its.push_back(address);
    }
  }
  for (const std::uint64_t address : its) {
    forget(pointer(address));
  }
}

bool HostMemory::pinned(std::uint64_t address, std::uint64_t bytes) const {
  const auto after = pieces_.upper_bound(address);
  if (after == pieces_.begin()) {
    return false;
  }
  const auto& [begin, piece] = *std::prev(after);
  return address - begin < piece.bytes && bytes <= piece.bytes - (address - begin);
}

}  // namespace fake_cuda
