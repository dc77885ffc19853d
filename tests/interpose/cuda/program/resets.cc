// See resets.h.
#include "resets.h"

#include "memsets.h"

namespace spillway::cuda::test {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kJobs = 8;  // all together are more than device and host hold
constexpr std::uint64_t kJobBytes = 40 * kMiB;

std::size_t free_memory(const Device& device) {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  device.expect(device.calls.cuMemGetInfo_v2(&free_bytes, &total_bytes), "cuMemGetInfo");
  return free_bytes;
}

// Uses more than the budget, a graph and a list in pinned memory, and gives nothing back. The
// list's address.
std::uint64_t job(const Device& device, std::uint64_t from, bool pools) {
  const CuStream stream = device.stream();
  std::vector<Buffer> buffers;
  for (std::uint64_t i = 0; i < kJobBytes / (4 * kMiB); ++i) {
    if (pools && i % 2 == 1) {
      buffers.push_back(device.allocate(4 * kMiB, stream));
    } else {
      buffers.push_back({.address = 0, .words = kMiB / 2, .seed = 0});
      device.expect(device.calls.cuMemAlloc_v2(&buffers.back().address, 4 * kMiB), "cuMemAlloc");
    }
    device.fill(buffers.back(), from + i, stream);
  }
  void* memory = nullptr;
  device.expect(device.calls.cuMemHostAlloc(&memory, 4096, 0), "cuMemHostAlloc");
  auto* const list = static_cast<std::uint64_t*>(memory);
  list[0] = buffers[0].address;
  device.expect(device.calls.cuStreamBeginCapture_v2(stream, 2), "cuStreamBeginCapture");
  device.expect(device.calls.cuMemsetD8Async(buffers[1].address, 0, 8 * buffers[1].words, stream),
                "memset");
  CuGraph graph = nullptr;
  device.expect(device.calls.cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
  for (std::uint64_t round = 1; round <= 2; ++round) {
    for (Buffer& buffer : buffers) {
      device.rewrite(buffer, buffer.seed + 1000 * round, stream);
    }
  }
  for (Buffer& buffer : buffers) {
    device.check(buffer, stream);
  }
  return reinterpret_cast<std::uint64_t>(memory);
}

// A number that was an address of pinned memory.
void name_old_list(const Device& device, std::uint64_t list) {
  const CuStream stream = device.stream();
  Buffer buffer = device.allocate(4096, stream);
  device.fill(buffer, list, stream);
  device.check(buffer, stream);
  device.synchronize(stream);
  device.free(buffer, stream);
}

}  // namespace

void resets(const Device& device) {
  device.expect(device.calls.cuCtxSetCurrent(device.context()), "cuCtxSetCurrent");
  const std::size_t all_bytes = free_memory(device);
  std::uint64_t list = 0;
  for (std::uint64_t i = 0; i < kJobs; ++i) {
    if (list != 0) {
      name_old_list(device, list);
    }
    list = job(device, 100 * i, true);
    device.expect(device.calls.cuDevicePrimaryCtxReset_v2(0), "cuDevicePrimaryCtxReset");
    CuContext context = nullptr;
    device.expect(device.calls.cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    device.expect(device.calls.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    device.require(free_memory(device) == all_bytes, "all memory is free after a reset");
  }
}

namespace {

// A capture that nobody ends: what it has allocated stays with it, what it has freed as well.
Buffer open_capture(const Device& device, CuStream stream) {
  const Buffer before = device.allocate(2 * kMiB, stream);
  device.expect(device.calls.cuStreamBeginCapture_v2(stream, 2), "cuStreamBeginCapture");
  const Buffer within = device.allocate(2 * kMiB, stream);
  device.expect(device.calls.cuMemsetD8Async(within.address, 0, 8 * within.words, stream),
                "memset");
  device.free(before, stream);
  return within;
}

std::uint64_t memsets_of_the_driver(const Device& device) {
  FakeCudaCounters counters{};
  device.calls.counters(&counters);
  return counters.memsets;
}

void next_primary_context(const Device& device) {
  CuContext context = nullptr;
  device.expect(device.calls.cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
  device.expect(device.calls.cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

}  // namespace

void captures_that_stay_open(const Device& device) {
  device.calls.thread_opens_gates(-1);
  device.expect(device.calls.cuCtxSetCurrent(device.context()), "cuCtxSetCurrent");
  const std::size_t all_bytes = free_memory(device);
  for (int i = 0; i < 2; ++i) {
    (void)open_capture(device, device.stream());
    (void)open_capture(device, device.stream());
    device.expect(device.calls.cuDevicePrimaryCtxReset_v2(0), "cuDevicePrimaryCtxReset");
    next_primary_context(device);
    device.require(free_memory(device) == all_bytes, "all memory is free after a reset");
  }
  CuContext primary = nullptr;
  device.expect(device.calls.cuCtxGetCurrent(&primary), "cuCtxGetCurrent");
  const CuStream captured = device.stream();
  Buffer within = open_capture(device, captured);
  CuContext context = nullptr;
  device.expect(device.calls.cuCtxCreate_v2(&context, 0, 0), "cuCtxCreate");
  const CuStream other = device.stream();
  device.expect(device.calls.cuCtxSetCurrent(primary), "cuCtxSetCurrent");
  // Which context is current does not count.
  device.expect(device.calls.cuStreamBeginCapture_v2(other, 2), "cuStreamBeginCapture");
  const Buffer gone = device.allocate(2 * kMiB, other);
  device.expect(device.calls.cuCtxDestroy_v2(context), "cuCtxDestroy");
  device.free(gone, nullptr);
  // The one in the other context is under way still: nothing of it is held by a stream wait, or
  // done now.
  std::vector<Buffer> buffers;
  for (std::uint64_t i = 0; i < 10; ++i) {
    buffers.push_back(device.allocate(4 * kMiB, nullptr));
    device.fill(buffers.back(), i, nullptr);
  }
  device.fill(within, 5, captured);
  CuGraph graph = nullptr;
  CuGraphExec exec = nullptr;
  device.expect(device.calls.cuStreamEndCapture(captured, &graph), "cuStreamEndCapture");
  device.expect(device.calls.cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
  device.expect(device.calls.cuGraphLaunch(exec, captured), "cuGraphLaunch");
  device.check(within, captured);
  device.synchronize(captured);
  for (Buffer& buffer : buffers) {
    device.check(buffer, nullptr);
    device.free(buffer, nullptr);
  }
  device.expect(device.calls.cuCtxSynchronize(), "cuCtxSynchronize");
  // Where nothing is captured no thread waits for memory that it sets: a kernel of ours does.
  constexpr std::uint64_t kMemsets = 5;
  const std::uint64_t before = memsets_of_the_driver(device);
  memsets(device);
  device.require(memsets_of_the_driver(device) - before < kMemsets, "memsets beside no capture");
}

void contexts_that_end(const Device& device) {
  device.calls.thread_opens_gates(-1);
  Buffer stays = device.allocate(4 * kMiB, nullptr);
  device.fill(stays, 7, nullptr);
  device.expect(device.calls.cuCtxSynchronize(), "cuCtxSynchronize");
  const std::size_t all_bytes = free_memory(device);
  for (std::uint64_t i = 0; i < kJobs; ++i) {
    CuContext context = nullptr;
    device.expect(device.calls.cuCtxCreate_v2(&context, 0, 0), "cuCtxCreate");
    const std::uint64_t list = job(device, 100 * i, false);
    device.expect(device.calls.cuCtxDestroy_v2(context), "cuCtxDestroy");
    device.expect(device.calls.cuCtxSetCurrent(device.context()), "cuCtxSetCurrent");
    device.require(free_memory(device) == all_bytes, "all memory is free after a context");
    name_old_list(device, list);
  }
  device.check(stays, nullptr);
}

}  // namespace spillway::cuda::test
