// See runtime.h.
#include "runtime.h"

#include <dlfcn.h>

#include <cstddef>
#include <vector>

namespace spillway::cuda::test {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr int kInvalidValue = 1;
constexpr int kOutOfMemory = 2;

struct Tensors {
  void* library;
  int (*allocate)(void**, std::size_t, void*);
  int (*free)(void*, void*);
  int (*last_error)();
  int (*runtime_calls)();
  int (*versions_asked)();
};

Tensors open_tensors(const Device& device) {
  void* const library = ::dlopen(SPILLWAY_TENSORS, RTLD_NOW | RTLD_LOCAL);
  device.require(library != nullptr, ::dlerror());
  const auto find = [library](const char* name) { return ::dlsym(library, name); };
  return {
      .library = library,
      .allocate = reinterpret_cast<int (*)(void**, std::size_t, void*)>(find("tensors_allocate")),
      .free = reinterpret_cast<int (*)(void*, void*)>(find("tensors_free")),
      .last_error = reinterpret_cast<int (*)()>(find("tensors_last_error")),
      .runtime_calls = reinterpret_cast<int (*)()>(find("tensors_runtime_calls")),
      .versions_asked = reinterpret_cast<int (*)()>(find("tensors_versions_asked"))};
}

void* place(const Buffer& buffer) {
  return reinterpret_cast<void*>(buffer.address);  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

void by_the_runtime(const Device& device) {
  const Tensors tensors = open_tensors(device);
  const CuStream stream = device.stream();
  const auto allocate = [&](std::uint64_t bytes) {
    void* made = nullptr;
    device.require(tensors.allocate(&made, bytes, stream) == 0, "an allocation by the runtime");
    return Buffer{.address = reinterpret_cast<CuAddress>(made), .words = bytes / 8, .seed = 0};
  };
  std::vector<Buffer> buffers;
  for (std::uint64_t i = 0; i < 12; ++i) {
    buffers.push_back(allocate(4 * kMiB));
    device.fill(buffers.back(), i, stream);
  }
  for (std::uint64_t round = 1; round <= 20; ++round) {
    Buffer passing = allocate(2 * kMiB);
    device.fill(passing, round, stream);
    for (Buffer& buffer : buffers) {
      device.rewrite(buffer, 100 * round, stream);
    }
    device.check(passing, stream);
    device.require(tensors.free(place(passing), stream) == 0, "a free by the runtime");
  }
  device.synchronize(stream);
  void* refused = nullptr;
  device.require(tensors.allocate(&refused, 10'000 * kMiB, stream) == kOutOfMemory, "a refusal");
  device.require(tensors.last_error() == kOutOfMemory, "what the runtime knows of it");
  device.require(tensors.free(place(buffers[0]), stream) == 0, "a free by the runtime");
  device.require(tensors.free(place(buffers[0]), stream) == kInvalidValue, "a second one");
  device.require(tensors.last_error() == kInvalidValue, "what the runtime knows of that");
  const int calls = tensors.runtime_calls();
  const int asked = tensors.versions_asked();
  // Whoever calls the runtime goes, and may come again where it was.
  const auto* const runtime = ::dlsym(tensors.library, "cudart_calls");
  ::dlclose(tensors.library);
  Dl_info info{};
  const int stays = ::dladdr(runtime, &info) != 0 ? 1 : 0;
  const Tensors again = open_tensors(device);
  void* made = nullptr;
  device.require(again.allocate(&made, 4 * kMiB, stream) == 0, "an allocation after that");
  device.require(again.free(made, stream) == 0, "a free after that");
  device.synchronize(stream);
  std::printf("runtime_calls %d versions_asked %d runtime_stays %d\n", calls, asked, stays);
}

}  // namespace spillway::cuda::test
