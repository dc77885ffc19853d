// See corners.h.
#include "corners.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>

namespace spillway::cuda::test {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

// More than the budget; whatever was used before is elsewhere when they have been used.
std::vector<Buffer> others(const Device& device, CuStream stream) {
  std::vector<Buffer> all;
  for (std::uint64_t i = 0; i < 10; ++i) {
    all.push_back(device.allocate(4 * kMiB, stream));
    device.fill(all.back(), 10 + i, stream);
  }
  for (Buffer& other : all) {
    device.check(other, stream);
  }
  device.synchronize(stream);
  return all;
}

void write_word(const Device& device, const Buffer& to, std::uint64_t word) {
  device.expect(device.calls.cuMemcpyHtoD_v2(to.address, &word, sizeof word), "cuMemcpyHtoD");
}

// A kernel has added 1 to each.
void require_one_more(const Device& device, const Buffer& buffer) {
  const std::vector<std::uint64_t> words = device.words_of(buffer);
  for (std::uint64_t i = 0; i < words.size(); ++i) {
    device.require(words[i] == pattern(buffer.seed, i) + 1, "what a table names");
  }
}

}  // namespace

void captured_and_never_run(const Device& device) {
  const CuStream stream = device.stream();
  for (const bool memset : {false, true}) {
    Buffer live = device.allocate(4 * kMiB, stream);
    Buffer source = device.allocate(4 * kMiB, stream);
    device.fill(live, 1, stream);
    device.fill(source, 2, stream);
    const std::vector<Buffer> more = others(device, stream);
    device.expect(device.calls.cuStreamBeginCapture_v2(stream, 0), "cuStreamBeginCapture");
    device.expect(memset ? device.calls.cuMemsetD8Async(live.address, 0, 8 * live.words, stream)
                         : device.calls.cuMemcpyDtoDAsync_v2(live.address, source.address,
                                                             8 * live.words, stream),
                  "a call that is captured");
    CuGraph graph = nullptr;
    device.expect(device.calls.cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
    device.expect(device.calls.cuGraphDestroy(graph), "cuGraphDestroy");
    device.check(live, stream);
    device.check(source, stream);
    device.synchronize(stream);
    for (const Buffer& other : more) {
      device.free(other, stream);
    }
  }
}

void refused_copies(const Device& device) {
  constexpr CuAddress kNobodys = 0x1000;
  const CuStream stream = device.stream();
  Buffer live = device.allocate(4 * kMiB, stream);
  device.fill(live, 1, stream);
  others(device, stream);
  device.expect(device.calls.cuMemcpyDtoDAsync_v2(live.address, kNobodys, 8 * live.words, stream),
                "cuMemcpyDtoDAsync", CuResult::kInvalidValue);
  device.check(live, stream);
  device.synchronize(stream);
}

void asked_ahead(const Device& device) {
  using Leave = int (*)(void*, std::size_t, int);
  using Come = int (*)(void*, std::size_t);
  auto* const leave = reinterpret_cast<Leave>(::dlsym(RTLD_DEFAULT, "spillway_pre_evict_to"));
  auto* const come = reinterpret_cast<Come>(::dlsym(RTLD_DEFAULT, "spillway_prefetch"));
  device.require(leave != nullptr && come != nullptr, "calls for what is needed ahead");
  const CuStream stream = device.stream();
  Buffer live = device.allocate(4 * kMiB, stream);
  device.fill(live, 1, stream);
  others(device, stream);
  void* const start = reinterpret_cast<void*>(live.address);  // NOLINT(performance-no-int-to-ptr)
  const std::size_t bytes = 8 * live.words;
  for (int round = 0; round < 4; ++round) {
    device.require(leave(start, bytes, 0) == 1, "leaves for host memory");
    device.require(leave(start, bytes, 1) == -1, "there is no storage");
    device.require(come(start, bytes) == 1, "comes back");
    device.rewrite(live, live.seed + 1, stream);
  }
  device.require(leave(&live, 8, 0) == 0 && leave(&live, 8, 1) == 0 && come(&live, 8) == 0,
                 "the program's own memory");
  device.check(live, stream);
  device.synchronize(stream);
}

void read_before_a_copy(const Device& device) {
  const CuStream first = device.stream();
  const CuStream second = device.stream();
  const Buffer value = device.allocate(2 * kMiB, first);
  device.expect(device.calls.cuMemsetD8Async(value.address, 0, 8 * value.words, first), "memset");
  Buffer target = device.allocate(2 * kMiB, first);
  Buffer source = device.allocate(2 * kMiB, second);
  device.fill(target, 1, first);
  device.fill(source, 2, second);
  others(device, first);
  device.synchronize(second);
  device.expect(device.calls.cuStreamWaitValue64_v2(first, value.address, 1, 0), "a wait");
  device.expect(
      device.calls.cuMemcpyDtoDAsync_v2(target.address, source.address, 8 * target.words, first),
      "cuMemcpyDtoDAsync");
  device.check(target, second);
  device.expect(device.calls.cuStreamWriteValue64_v2(second, value.address, 1, 0), "a value");
  device.synchronize(second);
  device.synchronize(first);
}

void tables_of_tables(const Device& device) {
  const CuStream stream = device.stream();
  const Buffer inner = device.allocate(4096, stream);
  const Buffer outer = device.allocate(4096, stream);
  Buffer named = device.allocate(4 * kMiB, stream);
  device.fill(named, 3, stream);
  write_word(device, inner, named.address);
  write_word(device, outer, inner.address);
  others(device, stream);
  device.add_listed_twice(outer, inner, named.words, stream);
  device.synchronize(stream);
  require_one_more(device, named);
}

// As NCCL tells its kernels of groups that are too large for their parameters.
void lists_on_host(const Device& device) {
  const CuStream stream = device.stream();
  constexpr std::size_t kWords = 8192;
  constexpr std::size_t kAt = 1000;
  void* memory = nullptr;
  device.expect(device.calls.cuMemHostAlloc(&memory, 8 * kWords, kCuHostAllocPortable),
                "cuMemHostAlloc");
  auto* const list = static_cast<std::uint64_t*>(memory);
  std::fill_n(list, kWords, 0);
  std::vector<Buffer> named;
  for (std::uint64_t i = 0; i < 4; ++i) {
    named.push_back(device.allocate(2 * kMiB, stream));
    device.fill(named.back(), i, stream);
  }
  std::vector<Buffer> more = others(device, stream);
  for (std::size_t first = 0; first < named.size(); first += 2) {
    device.synchronize(stream);
    list[kAt] = named[first].address;
    list[kAt + 1] = named[first + 1].address;
    device.add_listed_on_host(list + kAt, 2, named[first].words, stream);
    for (Buffer& other : more) {
      device.check(other, stream);
    }
  }
  device.synchronize(stream);
  for (const Buffer& buffer : named) {
    require_one_more(device, buffer);
  }
  device.expect(device.calls.cuMemFreeHost(memory), "cuMemFreeHost");
}

// What another device may use it may use wherever it comes to lie.
void shared_with_peers(const Device& device) {
  const CuStream stream = device.stream();
  CuMemPool pool = nullptr;
  device.expect(device.calls.cuDeviceGetDefaultMemPool(&pool, 0), "cuDeviceGetDefaultMemPool");
  std::vector<Buffer> all = others(device, stream);
  const CuAccessDescription peer{.location = {.type = CuLocationType::kDevice, .id = 1},
                                 .access = CuAccess::kReadWrite};
  const auto given = [&] {
    FakeCudaCounters counters{};
    device.calls.counters(&counters);
    return counters.peer_access_changes;
  };
  device.require(given() == 0, "access before it is asked for");
  device.expect(device.calls.cuMemPoolSetAccess(pool, &peer, 1), "cuMemPoolSetAccess");
  const std::uint64_t at_once = given();
  device.require(at_once > 0, "access to what is there");
  for (Buffer& buffer : all) {
    device.rewrite(buffer, buffer.seed + 7, stream);
  }
  for (Buffer& buffer : all) {
    device.check(buffer, stream);
  }
  device.synchronize(stream);
  device.require(given() > at_once, "access to what comes");
}

void late_tables(const Device& device) {
  const CuStream stream = device.stream();
  const Buffer table = device.allocate(4096, stream);
  Buffer named = device.allocate(4 * kMiB, stream);
  const Buffer result = device.allocate(4 * kMiB, stream);
  device.fill(named, 3, stream);
  device.expect(device.calls.cuStreamBeginCapture_v2(stream, 0), "cuStreamBeginCapture");
  device.add_listed(table, 1, named.words, stream);
  CuGraph graph = nullptr;
  device.expect(device.calls.cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
  CuGraphExec exec = nullptr;
  device.expect(device.calls.cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
  write_word(device, table, named.address);
  std::vector<Buffer> more = others(device, stream);
  // It comes back, and would leave without a copy.
  device.pointwise(result, named, Reads::kKnown, stream);
  device.synchronize(stream);
  device.expect(device.calls.cuGraphLaunch(exec, stream), "cuGraphLaunch");
  for (Buffer& other : more) {
    device.check(other, stream);
  }
  device.synchronize(stream);
  require_one_more(device, named);
}

void two_contexts(const Device& device) {
  std::array<CuContext, 2> contexts{};
  device.calls.thread_opens_gates(-1);
  device.expect(device.calls.cuCtxGetCurrent(contexts.data()), "cuCtxGetCurrent");
  device.expect(device.calls.cuCtxCreate_v2(&contexts[1], 0, 0), "cuCtxCreate");
  std::array<std::vector<Buffer>, 2> buffers;
  const auto in_each = [&](const auto& work) {
    for (std::size_t i = 0; i < contexts.size(); ++i) {
      device.expect(device.calls.cuCtxSetCurrent(contexts[i]), "cuCtxSetCurrent");
      work(i);
    }
  };
  in_each([&](std::size_t i) {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      buffers[i].push_back(device.allocate(4 * kMiB, nullptr));
      device.fill(buffers[i].back(), 10 * i + seed, nullptr);
    }
  });
  for (int round = 0; round < 4; ++round) {
    in_each([&](std::size_t i) {
      for (Buffer& buffer : buffers[i]) {
        device.rewrite(buffer, buffer.seed + 100, nullptr);
      }
    });
  }
  in_each([&](std::size_t i) {
    for (Buffer& buffer : buffers[i]) {
      device.check(buffer, nullptr);
    }
    device.expect(device.calls.cuCtxSynchronize(), "cuCtxSynchronize");
  });
  device.expect(device.calls.cuCtxSetCurrent(contexts[0]), "cuCtxSetCurrent");
}

}  // namespace spillway::cuda::test
