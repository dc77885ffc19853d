// PyTorch's own caching allocator: which tensors it has in the memory that it got from us
// (docs/interposer.md). What PyTorch promises to nobody is looked at before it is used: a version
// that is built otherwise is served by segments as a whole, which is slower and never wrong. Layer:
// interpose, cuda.
#include <link.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <optional>
#include <span>

#include "interpose/cuda/captures.h"
#include "interpose/cuda/libraries/library_functions.h"
#include "interpose/cuda/libraries/torch_functions.h"
#include "interpose/cuda/recording.h"
#include "interpose/cuda/session.h"

// As PyTorch declares it: every allocator of PyTorch calls it for each tensor that it has made or
// freed, from another library than its own, with the memory that the tensor takes.
namespace c10 {

struct Device {
  std::int8_t type;
  std::int8_t index;
};
void reportMemoryUsageToProfiler(void* address, std::int64_t bytes, std::size_t allocated_bytes,
                                 std::size_t reserved_bytes, Device device);

}  // namespace c10

namespace spillway::cuda {
namespace {

using Report = void (*)(void*, std::int64_t, std::size_t, std::size_t, c10::Device);
constexpr const char* kReport = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE";
constexpr std::int8_t kCudaDevice = 1;  // c10::DeviceType::CUDA

// --- What is asked for a tensor -----------------------------------------------------------------

// c10::Allocator::allocate, which gives its first argument, where it has made what it returns.
using Allocate = void* (*)(void* result, void* allocator, std::size_t bytes);
std::atomic<Allocate> torch_allocate{nullptr};
// Of the calling thread: the tensor that came last, and the device on which.
struct Newest {
  std::uint64_t address = 0;
  std::int8_t device = 0;
};
__attribute__((tls_model("initial-exec"))) constinit thread_local Newest newest_tensor;

std::optional<CuStream> current_stream(std::int8_t device);

// Nothing here has to be undone where the allocator throws: two libraries' ways to do that would
// meet. What it returns begins with the address.
void* allocate_asked(void* result, void* allocator, std::size_t bytes) {
  const Session* const here = session();
  // Where all fits nothing is made again, and nobody asks.
  if (here == nullptr || here->platform->bypass().calls_are_open()) {
    return torch_allocate.load(std::memory_order_relaxed)(result, allocator, bytes);
  }
  newest_tensor = {};
  void* const returned = torch_allocate.load(std::memory_order_relaxed)(result, allocator, bytes);
  std::uint64_t address = 0;
  std::memcpy(&address, result, sizeof address);
  if (address != 0 && address == newest_tensor.address) {
    here->segments->asked(address, bytes, current_stream(newest_tensor.device));
  }
  return returned;
}

// The end of what is loaded there in one piece.
std::uintptr_t end_of_loaded(std::uintptr_t address) {
  struct Look {
    std::uintptr_t address = 0;
    std::uintptr_t end = 0;
  } look{.address = address};
  const auto visit = [](dl_phdr_info* library, std::size_t /*bytes*/, void* data) {
    auto* const it = static_cast<Look*>(data);
    for (const ElfW(Phdr) & part : std::span(library->dlpi_phdr, library->dlpi_phnum)) {
      const std::uintptr_t start = library->dlpi_addr + part.p_vaddr;
      if (part.p_type == PT_LOAD && it->address >= start && it->address < start + part.p_memsz) {
        it->end = start + part.p_memsz;
      }
    }
    return it->end != 0 ? 1 : 0;
  };
  ::dl_iterate_phdr(visit, &look);
  return look.end;
}

// The allocator gets a table of virtual functions of its own, in which one is ours. Which one it is
// has been the same since PyTorch 1.0; the allocator's type says whether it is the one that we
// know.
void listen_to_what_is_asked(const void* caller) {
  constexpr const char* kNative =
      "N3c104cuda20CUDACachingAllocator6Native22NativeCachingAllocatorE";
  constexpr std::size_t kBefore = 2;    // the offset to the object, and its type
  constexpr std::size_t kAllocate = 2;  // behind two destructors
  constexpr std::size_t kMost = 192;
  auto* const get = torch_function<void** (*)(const std::int8_t&)>(
      "_ZN3c1012GetAllocatorERKNS_10DeviceTypeE", caller);
  void** const allocator = get == nullptr ? nullptr : get(kCudaDevice);
  if (allocator == nullptr || torch_allocate.load() != nullptr) {
    return;
  }
  auto* const table = static_cast<void**>(*allocator);
  const auto* const type = static_cast<const char* const*>(table[-1]);
  if (type == nullptr || std::strcmp(type[1], kNative) != 0) {
    return;
  }
  const auto place = reinterpret_cast<std::uintptr_t>(table);
  const std::size_t count = std::min(kMost, (end_of_loaded(place) - place) / sizeof(void*));
  if (count <= kAllocate) {
    return;
  }
  // For as long as the allocator, which PyTorch never destroys.
  auto* const copy = new std::array<void*, kBefore + kMost>{};
  std::copy_n(table - kBefore, kBefore + count, copy->begin());
  torch_allocate = reinterpret_cast<Allocate>((*copy)[kBefore + kAllocate]);
  (*copy)[kBefore + kAllocate] = reinterpret_cast<void*>(&allocate_asked);
  std::atomic_ref(*allocator).store(copy->data() + kBefore, std::memory_order_release);
}

// --- The stream on which it is used -------------------------------------------------------------

// PyTorch's allocator hands memory on from tensor to tensor on one stream: that which is current
// for who asks for a tensor.
struct TorchStream {  // c10::cuda::CUDAStream
  std::int64_t device = 0;
  std::int64_t id = 0;
};

std::optional<CuStream> current_stream(std::int8_t device) {
  static const auto current = torch_function<TorchStream (*)(std::int8_t)>(
      "_ZN3c104cuda20getCurrentCUDAStreamEa", torch_caller);
  static const auto handle = torch_function<CuStream (*)(const TorchStream*)>(
      "_ZNK3c104cuda10CUDAStream6streamEv", torch_caller);
  if (current == nullptr || handle == nullptr) {
    return std::nullopt;
  }
  const TorchStream stream = current(device);
  const CuStream found = handle(&stream);
  return is_per_thread(found) ? std::nullopt : std::optional(canonical(found));
}

// --- Tensors ------------------------------------------------------------------------------------

void born(const Session& session, std::uint64_t address, Bytes bytes, c10::Device device,
          const void* caller) {
  if (torch_caller.exchange(caller, std::memory_order_acq_rel) == nullptr) {
    listen_to_what_is_asked(caller);
  }
  session.segments->born(address, bytes);
  newest_tensor = {.address = address, .device = device.index};
  if (captures_under_way()) {
    session.segments->keep_whole(address);
  }
  if (Recording* const recorded = recording()) {
    recorded->allocated(address);
  }
}

// While something is captured the graph may use it: PyTorch frees what a graph's kernels hand on.
void died(const Session& session, std::uint64_t address) {
  if (captures_under_way()) {
    session.segments->keep_whole(address);
  }
  Recording* const recorded = recording();
  if (session.segments->died(address) && recorded != nullptr) {
    recorded->freed(address);
  }
}

void tensor_reported(std::uint64_t address, std::int64_t bytes, Bytes reserved_bytes,
                     c10::Device device, const void* caller) {
  const Session* const here = session();
  if (here != nullptr && device.index == here->device && reserved_bytes > 0) {
    here->segments->allocator_has(reserved_bytes);
  }
  if (here == nullptr || (!captures_under_way() && here->segments->write_down(address, bytes))) {
    return;
  }
  const ProgramCall call(bytes > 0 ? CallKind::kAllocation : CallKind::kFree);
  if (call.inner() || !here->platform->memory().contains(address)) {
    return;
  }
  if (bytes > 0) {
    born(*here, address, static_cast<Bytes>(bytes), device, caller);
  } else {
    died(*here, address);
  }
}

struct ReportFunction {
  const void* caller = nullptr;
  Report function = nullptr;
};

}  // namespace
}  // namespace spillway::cuda

namespace cuda = spillway::cuda;

// The profiler's own function is called as well.
void c10::reportMemoryUsageToProfiler(void* address, std::int64_t bytes,
                                      std::size_t allocated_bytes, std::size_t reserved_bytes,
                                      Device device) {
  static constinit thread_local __attribute__((tls_model("initial-exec")))
  cuda::OfCallers<cuda::ReportFunction>
      functions;
  const void* const caller = __builtin_return_address(0);
  if (device.type == cuda::kCudaDevice && address != nullptr && bytes != 0) {
    cuda::tensor_reported(reinterpret_cast<std::uint64_t>(address), bytes, reserved_bytes, device,
                          caller);
  }
  const cuda::ReportFunction& report = functions.of(caller, [&] {
    return cuda::ReportFunction{
        .caller = caller,
        .function = cuda::without_us_as(cuda::kReport, &c10::reportMemoryUsageToProfiler, caller)};
  });
  if (report.function != nullptr) {
    report.function(address, bytes, allocated_bytes, reserved_bytes, device);
  }
}
