// See past_budget.h.
#include "past_budget.h"

#include <chrono>
#include <thread>

namespace spillway::cuda::test {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr unsigned short kTilePool = 1;  // of sparse arrays: the driver's in any case

CuMemHandle create(const Device& device, std::uint64_t bytes) {
  const CuAllocationProperties on_device{
      .type = CuAllocationType::kPinned,
      .exported_as = CuHandleType::kNone,
      .location = {.type = CuLocationType::kDevice, .id = 0},
      .windows_only = nullptr,
      .flags = {.compression = 0, .rdma_capable = 0, .usage = kTilePool, .reserved = {}}};
  CuMemHandle handle = 0;
  device.expect(device.calls.cuMemCreate(&handle, bytes, &on_device, 0), "cuMemCreate");
  return handle;
}

void release(const Device& device, CuMemHandle handle) {
  device.expect(device.calls.cuMemRelease(handle), "cuMemRelease");
}

void take_each(const Device& device) {
  const Calls& calls = device.calls;
  const CuMemHandle handle = create(device, 512 * kMiB);
  CuAddress managed = 0;
  device.expect(calls.cuMemAllocManaged(&managed, 32 * kMiB, 1), "cuMemAllocManaged");
  constexpr unsigned kFloat = 0x20;
  const CuArrayShape flat{.width = 1024, .height = 4096, .format = kFloat, .channels = 1};
  CuArray array = nullptr;
  device.expect(calls.cuArrayCreate_v2(&array, &flat), "cuArrayCreate");
  const CuArrayShape3d deep{
      .width = 1024, .height = 1024, .depth = 0, .format = kFloat, .channels = 1, .flags = 0};
  CuMipmaps mipmaps = nullptr;
  device.expect(calls.cuMipmappedArrayCreate(&mipmaps, &deep, 2), "cuMipmappedArrayCreate");
  CuGraph graph = nullptr;
  device.expect(calls.cuGraphCreate(&graph, 0), "cuGraphCreate");
  CuMemAllocNode allocation{};
  allocation.bytes = 6 * kMiB;
  CuGraphNode node = nullptr;
  device.expect(calls.cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &allocation),
                "cuGraphAddMemAllocNode");
  CuNodeParams any{};
  any.type = CuNodeType::kMemAlloc;
  any.allocation.bytes = 4 * kMiB;
  device.expect(calls.cuGraphAddNode_v2(&node, graph, nullptr, nullptr, 0, &any), "cuGraphAddNode");
  CuExternalMemoryHandle outside{};
  outside.bytes = 10 * kMiB;
  CuExternalMemory memory = nullptr;
  device.expect(calls.cuImportExternalMemory(&memory, &outside), "cuImportExternalMemory");

  device.expect(calls.cuDestroyExternalMemory(memory), "cuDestroyExternalMemory");
  device.expect(calls.cuMemFree_v2(any.allocation.address), "cuMemFree");
  device.expect(calls.cuMemFree_v2(allocation.address), "cuMemFree");
  device.expect(calls.cuGraphDestroy(graph), "cuGraphDestroy");
  device.expect(calls.cuMipmappedArrayDestroy(mipmaps), "cuMipmappedArrayDestroy");
  device.expect(calls.cuArrayDestroy(array), "cuArrayDestroy");
  device.expect(calls.cuMemFree_v2(managed), "cuMemFree");
  release(device, handle);
}

void use_some(const Device& device) {
  const CuStream stream = device.stream();
  Buffer buffer = device.allocate(4 * kMiB, stream);
  device.fill(buffer, 1, stream);
  device.check(buffer, stream);
  device.free(buffer, stream);
  device.synchronize(stream);
}

}  // namespace

void past_the_budget(const Device& device) {
  use_some(device);
  take_each(device);
  use_some(device);
}

void a_little_past_the_budget(const Device& device) {
  use_some(device);
  release(device, create(device, 128 * kMiB));
}

void again_past_the_budget(const Device& device) {
  use_some(device);
  for (int i = 0; i < 5; ++i) {
    release(device, create(device, 384 * kMiB));
  }
}

void nothing_within_the_budget(const Device& device) {
  CuAddress managed = 0;
  device.expect(device.calls.cuMemAllocManaged(&managed, 512 * kMiB, 1), "cuMemAllocManaged");
  device.expect(device.calls.cuMemFree_v2(managed), "cuMemFree");
}

// By a call that nobody catches.
void unseen_past_the_budget(const Device& device) {
  use_some(device);
  // Until the first look, which tells what contexts take.
  constexpr std::chrono::milliseconds kAWhile{300};
  std::this_thread::sleep_for(kAWhile);
  device.calls.use_unseen(1536 * kMiB);
  constexpr std::chrono::milliseconds kASecond{1300};
  std::this_thread::sleep_for(kASecond);
}

}  // namespace spillway::cuda::test
