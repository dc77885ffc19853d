// A program that knows nothing of Spillway: PROGRAM WAY SCENARIO, or PROGRAM WAY random SEED
// [trace]. It reaches the driver in one way, uses more memory than the budget in one scenario, and
// looks at every word. Test program.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <thread>

#include "corners.h"
#include "crowd.h"
#include "device.h"
#include "ends.h"
#include "expandable.h"
#include "exposed.h"
#include "flags.h"
#include "graphs.h"
#include "launch_ways.h"
#include "little.h"
#include "looks.h"
#include "mapped.h"
#include "memsets.h"
#include "orders.h"
#include "past_budget.h"
#include "pools.h"
#include "processes.h"
#include "products.h"
#include "random.h"
#include "resets.h"
#include "runtime.h"
#include "steps.h"
#include "tables.h"
#include "waits.h"

namespace spillway::cuda::test {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

// Twelve buffers of 4 MiB on two streams, round and round.
void patterns(const Device& device) {
  const CuStream streams[] = {device.stream(), device.stream()};
  std::vector<Buffer> buffers;
  for (std::uint64_t i = 0; i < 12; ++i) {
    buffers.push_back(device.allocate(4 * kMiB, streams[i % 2]));
    device.fill(buffers.back(), i, streams[i % 2]);
  }
  for (std::uint64_t round = 1; round <= 4; ++round) {
    for (std::uint64_t i = 0; i < buffers.size(); ++i) {
      device.rewrite(buffers[i], 100 * round + i, streams[i % 2]);
    }
  }
  for (std::uint64_t i = 0; i < buffers.size(); ++i) {
    device.check(buffers[i], streams[i % 2]);
  }
  for (const CuStream stream : streams) {
    device.synchronize(stream);
  }
  for (std::uint64_t i = 0; i < buffers.size(); ++i) {
    device.free(buffers[i], streams[i % 2]);
  }
}

// Copies and memsets of memory that is elsewhere.
void copies(const Device& device) {
  const CuStream stream = device.stream();
  std::vector<Buffer> buffers;
  std::vector<std::uint64_t> host(kMiB / 2);
  for (std::uint64_t i = 0; i < 10; ++i) {
    buffers.push_back(device.allocate(4 * kMiB, stream));
    for (std::uint64_t j = 0; j < host.size(); ++j) {
      host[j] = pattern(i, j);
    }
    device.expect(
        device.calls.cuMemcpyHtoDAsync_v2(buffers[i].address, host.data(), 8 * host.size(), stream),
        "cuMemcpyHtoDAsync");
    device.synchronize(stream);
    buffers[i].seed = i;
  }
  const Buffer copy = device.allocate(4 * kMiB, stream);
  for (std::uint64_t i = 0; i < buffers.size(); ++i) {
    device.expect(
        device.calls.cuMemcpyDtoDAsync_v2(copy.address, buffers[i].address, 8 * copy.words, stream),
        "cuMemcpyDtoDAsync");
    Buffer same = copy;
    same.seed = i;
    device.check(same, stream);
    device.expect(
        device.calls.cuMemcpyAsync(buffers[i].address, copy.address, 8 * copy.words / 2, stream),
        "cuMemcpyAsync");
  }
  for (Buffer& buffer : buffers) {
    device.check(buffer, stream);
  }
  device.synchronize(stream);
  for (std::uint64_t i = 0; i < buffers.size(); ++i) {
    const std::vector<std::uint64_t> words = device.words_of(buffers[i]);
    for (std::uint64_t j = 0; j < words.size(); ++j) {
      device.require(words[j] == pattern(i, j), "a word that was copied out");
    }
    device.expect(
        device.calls.cuMemsetD8Async(buffers[i].address, 0x11, 8 * buffers[i].words / 2, stream),
        "cuMemsetD8Async");
  }
  device.synchronize(stream);
  for (std::uint64_t i = 0; i < buffers.size(); ++i) {
    const std::vector<std::uint64_t> words = device.words_of(buffers[i]);
    device.require(words.front() == 0x1111111111111111ULL, "a word that was set");
    device.require(words.back() == pattern(i, words.size() - 1), "a word behind what was set");
  }
}

// Two models of buffers, as a script of PyTorch would say it; another thread is in no module.
void modules(const Device& device) {
  const auto enter =
      reinterpret_cast<void (*)(const char*)>(::dlsym(RTLD_DEFAULT, "spillway_module"));
  device.require(enter != nullptr, "the library is told of modules");
  const CuStream stream = device.stream();
  std::vector<Buffer> buffers;
  for (std::uint64_t i = 0; i < 12; ++i) {
    buffers.push_back(device.allocate(4 * kMiB, stream));
    device.fill(buffers.back(), i, stream);
  }
  const auto use_all = [&] {
    for (Buffer& buffer : buffers) {
      device.check(buffer, stream);
    }
  };
  use_all();  // until it is known that neither kernel stores addresses
  use_all();
  // However slow this program is, the device has to wait for memory, not for launches.
  device.calls.hold_stream(stream, 1);
  for (const char* const name : {"h.0.mlp", "h.1.mlp", "h.1.mlp (backward)"}) {
    enter(name);
    use_all();
    enter(nullptr);
  }
  enter("of another thread");
  std::thread([&] {
    device.expect(device.calls.cuCtxSetCurrent(device.context()), "cuCtxSetCurrent");
    use_all();
  }).join();
  device.calls.hold_stream(stream, 0);
  device.synchronize(stream);
}

// What leaves unwritten needs no copy out; what is written in place does.
void pointwise(const Device& device, Reads reads) {
  const CuStream stream = device.stream();
  std::vector<Buffer> weights;
  for (std::uint64_t i = 0; i < 10; ++i) {
    weights.push_back(device.allocate(4 * kMiB, stream));
    device.fill(weights.back(), i, stream);
  }
  const Buffer result = device.allocate(4 * kMiB, stream);
  const auto read_all = [&] {
    for (std::uint64_t round = 0; round < 6; ++round) {
      for (const Buffer& weight : weights) {
        device.pointwise(result, weight, reads, stream);
      }
    }
  };
  const auto require_all = [&](std::uint64_t more) {
    device.synchronize(stream);
    for (std::uint64_t i = 0; i < weights.size(); ++i) {
      const std::vector<std::uint64_t> words = device.words_of(weights[i]);
      for (std::uint64_t j = 0; j < words.size(); ++j) {
        device.require(words[j] == pattern(i, j) + more, "a word of a weight");
      }
    }
  };
  read_all();
  require_all(0);
  for (const Buffer& weight : weights) {
    device.pointwise(weight, weight, reads, stream);
  }
  read_all();
  require_all(1);
}

// One stream writes, another reads after an event.
void events(const Device& device) {
  const CuStream first = device.stream();
  const CuStream second = device.stream();
  CuEvent written = nullptr;
  CuEvent read = nullptr;
  device.expect(device.calls.cuEventCreate(&written, kCuEventDisableTiming), "cuEventCreate");
  device.expect(device.calls.cuEventCreate(&read, kCuEventDisableTiming), "cuEventCreate");
  std::vector<Buffer> buffers;
  for (std::uint64_t i = 0; i < 10; ++i) {
    buffers.push_back(device.allocate(4 * kMiB, first));
    device.fill(buffers.back(), i, first);
  }
  for (std::uint64_t round = 1; round <= 4; ++round) {
    for (std::uint64_t i = 0; i < buffers.size(); ++i) {
      device.rewrite(buffers[i], 10 * round + i, first);
      device.expect(device.calls.cuEventRecord(written, first), "cuEventRecord");
      device.expect(device.calls.cuStreamWaitEvent(second, written, 0), "cuStreamWaitEvent");
      device.check(buffers[i], second);
      device.expect(device.calls.cuEventRecord(read, second), "cuEventRecord");
      device.expect(device.calls.cuStreamWaitEvent(first, read, 0), "cuStreamWaitEvent");
    }
  }
}

void threads(const Device& device) {
  CuContext context = nullptr;
  device.expect(device.calls.cuCtxGetCurrent(&context), "cuCtxGetCurrent");
  const auto work = [&] {
    device.expect(device.calls.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    patterns(device);
  };
  std::thread first(work);
  std::thread second(work);
  first.join();
  second.join();
}

// Temporaries that live for a launch or two, freed while they are used, beside parameters that
// stay.
void temporaries(const Device& device) {
  const CuStream stream = device.stream();
  std::vector<Buffer> parameters;
  for (std::uint64_t i = 0; i < 6; ++i) {
    parameters.push_back(device.allocate(4 * kMiB, stream));
    device.fill(parameters.back(), i, stream);
  }
  for (std::uint64_t round = 1; round <= 30; ++round) {
    Buffer temporary = device.allocate((1 + round % 5) * kMiB, stream);
    Buffer small = device.allocate(3000 + 8 * round, stream);
    device.fill(temporary, round, stream);
    device.fill(small, round + 1000, stream);
    device.rewrite(parameters[round % 6], 100 + round, stream);
    device.check(temporary, stream);
    device.check(small, stream);
    device.free(temporary, stream);
    device.free(small, stream);
  }
  for (Buffer& parameter : parameters) {
    device.check(parameter, stream);
  }
}

// A kernel that is given an array of addresses, which lies on the device, and has come there by a
// call that names the host, one that does not say where it comes from, or, in the midst of much
// else, from another allocation.
enum class Listed : std::uint8_t { kNamed, kUnnamed, kCloned };
void list_of(const Device& device, Listed how) {
  const CuStream stream = device.stream();
  std::vector<Buffer> buffers;
  std::vector<std::uint64_t> addresses;
  for (std::uint64_t i = 0; i < 3; ++i) {
    buffers.push_back(device.allocate(2 * kMiB, stream));
    device.fill(buffers.back(), i, stream);
    addresses.push_back(buffers.back().address);
  }
  constexpr std::size_t kMuch = std::size_t{512} << 10U;
  const std::size_t bytes = 8 * addresses.size();
  Buffer list = device.allocate(how == Listed::kCloned ? kMuch : bytes, stream);
  if (how == Listed::kNamed) {
    device.expect(device.calls.cuMemcpyHtoDAsync_v2(list.address, addresses.data(), bytes, stream),
                  "cuMemcpyHtoDAsync");
  } else {
    device.expect(device.calls.cuMemcpyAsync(
                      list.address, reinterpret_cast<CuAddress>(addresses.data()), bytes, stream),
                  "cuMemcpyAsync");
  }
  if (how == Listed::kCloned) {
    const Buffer clone = device.allocate(kMuch, stream);
    device.expect(device.calls.cuMemcpyAsync(clone.address, list.address, kMuch, stream),
                  "cuMemcpyAsync");
    list = clone;
  }
  std::vector<Buffer> others;
  for (std::uint64_t i = 0; i < 10; ++i) {
    others.push_back(device.allocate(4 * kMiB, stream));
    device.fill(others.back(), i, stream);
  }
  device.add_listed(list, addresses.size(), buffers[0].words, stream);
  for (Buffer& other : others) {
    device.check(other, stream);
  }
  device.synchronize(stream);
  for (std::uint64_t i = 0; i < buffers.size(); ++i) {
    device.require(device.words_of(buffers[i])[5] == pattern(i, 5) + 1, "a word by a list");
  }
}
void lists(const Device& device) {
  for (const Listed how : {Listed::kNamed, Listed::kUnnamed, Listed::kCloned}) {
    list_of(device, how);
  }
}

// What is asked about addresses whose memory is elsewhere, and about memory as a whole.
void questions(const Device& device) {
  const CuStream stream = device.stream();
  std::vector<Buffer> buffers;
  for (std::uint64_t i = 0; i < 10; ++i) {
    buffers.push_back(device.allocate(4 * kMiB, stream));
    device.fill(buffers.back(), i, stream);
  }
  device.synchronize(stream);
  for (const Buffer& buffer : buffers) {
    CuMemoryType type{};
    device.expect(device.calls.cuPointerGetAttribute(&type, CuPointerAttribute::kMemoryType,
                                                     buffer.address + 1000),
                  "cuPointerGetAttribute");
    device.require(type == CuMemoryType::kDevice, "a memory type");
    CuAddress start = 0;
    std::size_t bytes = 0;
    device.expect(device.calls.cuMemGetAddressRange_v2(&start, &bytes, buffer.address + 12345),
                  "cuMemGetAddressRange");
    device.require(start == buffer.address && bytes == 4 * kMiB, "an address range");
    void* host = &start;
    CuPointerAttribute asked[] = {CuPointerAttribute::kMemoryType,
                                  CuPointerAttribute::kHostPointer};
    void* answers[] = {&type, &host};
    device.expect(device.calls.cuPointerGetAttributes(2, asked, answers, buffer.address),
                  "cuPointerGetAttributes");
    device.require(type == CuMemoryType::kDevice && host == nullptr, "several attributes");
  }
  // Whoever asks whether something is so has a word for the answer.
  for (const auto& [attribute, so] :
       {std::pair(CuPointerAttribute::kIsManaged, 0U),
        std::pair(CuPointerAttribute::kSyncMemops, 1U), std::pair(CuPointerAttribute::kMapped, 1U),
        std::pair(CuPointerAttribute::kIsLegacyIpcCapable, 0U),
        std::pair(CuPointerAttribute::kIsRdmaCapable, 0U),
        std::pair(CuPointerAttribute::kIsDecompressCapable, 0U)}) {
    unsigned answer = 0xAAAA'AAAA;
    device.expect(device.calls.cuPointerGetAttribute(&answer, attribute, buffers[0].address),
                  "cuPointerGetAttribute");
    device.require(answer == so, "whether something is so");
  }
  CuIpcHandle handle{};
  device.expect(device.calls.cuIpcGetMemHandle(&handle, buffers[0].address), "cuIpcGetMemHandle",
                CuResult::kInvalidValue);  // as of a pool's memory
  std::size_t free_bytes = 1;
  std::size_t total_bytes = 0;
  device.expect(device.calls.cuMemGetInfo_v2(&free_bytes, &total_bytes), "cuMemGetInfo");
  // Nothing is, but programs divide by it.
  device.require(total_bytes == 1024 * kMiB && free_bytes == kMiB / 2, "the budget");
  const Buffer odd = device.allocate(1000, stream);
  CuAddress odd_start = 0;
  std::size_t odd_bytes = 0;
  device.expect(device.calls.cuMemGetAddressRange_v2(&odd_start, &odd_bytes, odd.address + 999),
                "cuMemGetAddressRange");
  device.require(odd_start == odd.address && odd_bytes == 1000, "as many bytes as were asked for");
  const auto number_of = [&](const Buffer& buffer) {
    std::uint64_t number = 0;
    device.expect(
        device.calls.cuPointerGetAttribute(&number, CuPointerAttribute::kBufferId, buffer.address),
        "cuPointerGetAttribute");
    return number;
  };
  const std::uint64_t before = number_of(odd);
  device.expect(device.calls.cuMemFree_v2(odd.address + 8), "cuMemFree of what lies within",
                CuResult::kInvalidValue);
  device.free(odd, stream);
  device.expect(device.calls.cuMemFreeAsync(odd.address, stream), "a second cuMemFreeAsync",
                CuResult::kInvalidValue);
  const Buffer again = device.allocate(1000, stream);
  device.require(number_of(again) != before, "a number of its own");
  device.free(again, stream);
  CuMemPool pool = nullptr;
  device.expect(device.calls.cuDeviceGetDefaultMemPool(&pool, 0), "cuDeviceGetDefaultMemPool");
  std::uint64_t used = 0;
  device.expect(device.calls.cuMemPoolGetAttribute(pool, CuPoolAttribute::kUsedCurrent, &used),
                "cuMemPoolGetAttribute");
  device.require(used == 40 * kMiB, "what is used");
  for (const Buffer& buffer : buffers) {
    device.free(buffer, stream);
  }
  std::uint64_t zero = 0;
  device.expect(device.calls.cuMemPoolSetAttribute(pool, CuPoolAttribute::kUsedHigh, &zero),
                "cuMemPoolSetAttribute");
  std::uint64_t high = 1;
  device.expect(device.calls.cuMemPoolGetAttribute(pool, CuPoolAttribute::kUsedHigh, &high),
                "cuMemPoolGetAttribute");
  device.require(high == 0, "the highest use since");
  device.expect(device.calls.cuMemPoolTrimTo(pool, 0), "cuMemPoolTrimTo");
  std::uint64_t reserved = 1;
  device.expect(
      device.calls.cuMemPoolGetAttribute(pool, CuPoolAttribute::kReservedCurrent, &reserved),
      "cuMemPoolGetAttribute");
  device.require(reserved == 0, "what is reserved after a trim");
}

// As cudnn.benchmark does in PyTorch: all that is free in one allocation, freed at once. More may
// be in use than the card has.
void all_that_is_free(const Device& device) {
  const CuStream stream = device.stream();
  std::vector<Buffer> buffers;
  std::uint64_t used = 0;
  const auto ask = [&] {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    device.expect(device.calls.cuMemGetInfo_v2(&free_bytes, &total_bytes), "cuMemGetInfo");
    device.require(free_bytes == std::max(16 * kMiB - std::min(used, 16 * kMiB), kMiB / 2),
                   "what is free");
    device.require(total_bytes == std::max(24 * kMiB, used + free_bytes), "the total");
    if (free_bytes > 0) {
      device.free(device.allocate(free_bytes, stream), stream);
    }
  };
  for (std::uint64_t i = 0; i < 10; ++i) {
    ask();
    buffers.push_back(device.allocate(4 * kMiB, stream));
    used += 4 * kMiB;
    device.fill(buffers.back(), i, stream);
  }
  ask();
  for (Buffer& buffer : buffers) {
    device.check(buffer, stream);
  }
}

// A training loop: two weights, of which a kernel reads one and changes the other, by way of what
// lives for two launches. Sixty iterations.
void training(const Device& device) {
  const CuStream stream = device.stream();
  Buffer weight = device.allocate(4 * kMiB, stream);
  Buffer moments = device.allocate(2 * kMiB, stream);
  device.fill(weight, 1, stream);
  device.fill(moments, 2, stream);
  for (std::uint64_t step = 0; step < 60; ++step) {
    Buffer made = device.allocate(2 * kMiB, stream);
    device.fill(made, step, stream);
    device.rewrite(made, step + 1, stream);
    device.free(made, stream);
    device.rewrite(weight, weight.seed + 1, stream);
    device.expect(device.calls.cuMemsetD8Async(moments.address, 0, 8 * moments.words, stream),
                  "cuMemsetD8Async");
    device.synchronize(stream);
  }
}

// More than all tiers together: refused, and the program goes on.
void too_much(const Device& device) {
  const CuStream stream = device.stream();
  CuAddress address = 0;
  device.expect(device.calls.cuMemAllocAsync(&address, 10'000 * kMiB, stream), "cuMemAllocAsync",
                CuResult::kOutOfMemory);
  patterns(device);
}

// A kernel, a copy and a memset in a graph, with memory from before and from within.
void graphs(const Device& device) {
  const CuStream stream = device.stream();
  Buffer sum = device.allocate(2 * kMiB, stream);
  Buffer step = device.allocate(2 * kMiB, stream);
  std::vector<Buffer> others;
  for (std::uint64_t i = 0; i < 10; ++i) {
    others.push_back(device.allocate(4 * kMiB, stream));
    device.fill(others.back(), i, stream);
  }
  device.fill(sum, 0, stream);
  device.fill(step, 7, stream);
  const Buffer seen = device.allocate(2 * kMiB, stream);
  device.expect(device.calls.cuStreamBeginCapture_v2(stream, 0), "cuStreamBeginCapture");
  device.pointwise(seen, sum, Reads::kKnown, stream);  // which another node writes
  const Buffer within = device.allocate(2 * kMiB, stream);
  device.expect(
      device.calls.cuMemcpyDtoDAsync_v2(within.address, step.address, 8 * step.words, stream),
      "cuMemcpyDtoDAsync");
  device.add(sum, within, stream);
  device.free(within, stream);
  const Buffer cleared = device.allocate(2 * kMiB, stream);
  device.expect(device.calls.cuMemsetD8Async(cleared.address, 0, 8 * cleared.words, stream),
                "cuMemsetD8Async");
  device.add(sum, cleared, stream);
  CuGraph graph = nullptr;
  device.expect(device.calls.cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
  CuGraphExec exec = nullptr;
  for (Buffer& other : others) {
    device.check(other, stream);
  }
  device.expect(device.calls.cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
  device.expect(device.calls.cuGraphDestroy(graph), "cuGraphDestroy");
  for (std::uint64_t round = 0; round < 5; ++round) {
    device.expect(device.calls.cuGraphLaunch(exec, stream), "cuGraphLaunch");
    for (Buffer& other : others) {
      device.check(other, stream);
    }
  }
  device.synchronize(stream);
  const std::vector<std::uint64_t> words = device.words_of(sum);
  for (std::uint64_t i = 0; i < words.size(); ++i) {
    device.require(words[i] == pattern(0, i) + 5 * pattern(7, i), "a word that a graph wrote");
  }
  device.expect(device.calls.cuGraphExecDestroy(exec), "cuGraphExecDestroy");
  device.free(cleared, stream);
  device.free(seen, stream);
  patterns(device);
}

// A child has no part in the device; its parent goes on.
void forks(const Device& device) {
  const CuStream stream = device.stream();
  Buffer buffer = device.allocate(4 * kMiB, stream);
  device.fill(buffer, 1, stream);
  const pid_t child = ::fork();
  if (child == 0) {
    std::exit(0);  // with its exit handlers, as a worker's
  }
  int status = -1;
  device.require(::waitpid(child, &status, 0) == child && status == 0, "the end of a child");
  patterns(device);
  device.check(buffer, stream);
}

}  // namespace
}  // namespace spillway::cuda::test

int main(int count, char** words) {
  namespace test = spillway::cuda::test;
  const bool random = count >= 4 && words[2] == std::string("random");
  if (count != 3 && !random) {
    std::puts("which way, and which scenario?");
    return 2;
  }
  const auto by = [](test::Exposes how) {
    return [how](const test::Device& it) { test::exposed(it, how); };
  };
  const auto filled = [](test::Filled how) {
    return [how](const test::Device& it) { test::filled_tables(it, how); };
  };
  const std::map<std::string, std::function<void(const test::Device&)>> scenarios{
      {"patterns", test::patterns},
      {"copies", test::copies},
      {"events", test::events},
      {"threads", test::threads},
      {"modules", test::modules},
      {"temporaries", test::temporaries},
      {"lists", test::lists},
      {"questions", test::questions},
      {"too-much", test::too_much},
      {"all-there-is", test::all_there_is},
      {"graphs", test::graphs},
      {"fork", test::forks},
      {"hand-over", [&](const test::Device& it) { test::hand_over(it, words[1]); }},
      {"hand-over-and-end", [&](const test::Device& it) { test::hand_over_and_end(it, words[1]); }},
      {"hand-over-refused", test::hand_over_refused},
      {"hand-over-counted", [&](const test::Device& it) { test::hand_over_counted(it, words[1]); }},
      {test::kOtherProcess, test::other_process},
      {"known-reads", [](const test::Device& it) { test::pointwise(it, test::Reads::kKnown); }},
      {"told-reads", [](const test::Device& it) { test::pointwise(it, test::Reads::kTold); }},
      {"unknown-reads", [](const test::Device& it) { test::pointwise(it, test::Reads::kUnknown); }},
      {"exposed-by-kernels", by(test::Exposes::kKernel)},
      {"exposed-by-values", by(test::Exposes::kValues)},
      {"exposed-by-graphs", by(test::Exposes::kGraph)},
      {"exposed-by-copies", by(test::Exposes::kCopy)},
      {"exposed-by-written-values", by(test::Exposes::kWrittenValue)},
      {"exposed-by-graphs-values", by(test::Exposes::kGraphsValue)},
      {"exposed-by-variables", by(test::Exposes::kVariable)},
      {"exposed-by-graphs-variables", by(test::Exposes::kGraphsVariable)},
      {"exposed-while-quiet", by(test::Exposes::kWhileQuiet)},
      {"exposed-and-read", test::exposed_and_only_read},
      {"memsets", test::memsets},
      {"steps", test::steps},
      {"products", test::products},
      {"looked-up-products", test::looked_up_products},
      {"captured", test::captured_and_never_run},
      {"refused", test::refused_copies},
      {"asked-ahead", test::asked_ahead},
      {"values", test::read_before_a_copy},
      {"tables", test::tables_of_tables},
      {"late-tables", test::late_tables},
      {"host-lists", test::lists_on_host},
      {"peers", test::shared_with_peers},
      {"contexts", test::two_contexts},
      {"thread-streams", test::thread_streams},
      {"tensor-maps", test::tensor_maps},
      {"foreign-streams", test::foreign_streams},
      {"next-context", test::next_context},
      {"hand-graphs", test::graphs_by_hand},
      {"disabled", test::disabled_nodes},
      {"conditional", test::conditional_graphs},
      {"large-graphs", test::large_graphs},
      {"refused-records", test::orders_by_refused_recordings},
      {"batches", test::orders_by_batches},
      {"free", test::all_that_is_free},
      {"runtime", test::by_the_runtime},
      {"expandable", test::expandable_segments},
      {"expandable-tensors", test::expandable_tensors},
      {"expandable-deaths", test::expandable_deaths},
      {"expandable-ends", test::ends_of_expandable_tensors},
      {"expandable-graphs", test::expandable_graphs},
      {"random-expandable", test::random_expandable},
      {"growing", test::growing_vector},
      {"mapped-tables", test::mapped_tables},
      {"mapped-questions", test::mapped_questions},
      {"mapped-by-the-driver", test::mapped_by_the_driver},
      {"mapped-by-nccl", test::mapped_by_nccl},
      {"never-full", test::never_full_reservations},
      {"divided-again", test::divided_again},
      {"divided-less", test::divided_less},
      {"mapped-graphs", test::mapped_graphs},
      {"random-mapped", test::random_mapped},
      {"past-budget", test::past_the_budget},
      {"a-little-past", test::a_little_past_the_budget},
      {"again-past", test::again_past_the_budget},
      {"nothing-within", test::nothing_within_the_budget},
      {"unseen-past", test::unseen_past_the_budget},
      {"ends", test::ends_of_arrays},
      {"mapped-ends", test::ends_of_mapped_memory},
      {"resets", test::resets},
      {"contexts-end", test::contexts_that_end},
      {"pools", test::memory_pools},
      {"pools-after-a-reset", test::pools_after_a_reset},
      {"open-captures", test::captures_that_stay_open},
      {"flag-kernels", test::kernels_behind_a_flag},
      {"flag-copies", test::copies_behind_a_flag},
      {"flag-streams", test::another_stream_before_a_flag},
      {"kept-tables", test::kept_tables},
      {"captured-tables", test::captured_tables},
      {"filled-by-kernel", filled(test::Filled::kByKernel)},
      {"filled-by-kernel-twice", filled(test::Filled::kByKernelTwice)},
      {"filled-by-large-copy", filled(test::Filled::kByLargeCopy)},
      {"filled-by-copy-within", filled(test::Filled::kByCopyWithin)},
      {"filled-by-graph", filled(test::Filled::kByGraph)},
      {"filled-in-tables", filled(test::Filled::kInTables)},
      {"looks-for-nothing", test::looks_that_find_nothing},
      {"looks-for-something", test::looks_that_find_something},
      {"looks-of-pytorch", test::looks_that_find_nothing},
      {"hidden-address", test::hidden_address},
      {"looks-beside-capture", test::looks_beside_a_capture},
      {"replaced-tables", test::replaced_tables},
      {"shifted-tables", test::shifted_tables},
      {"waiting-tables", test::waiting_tables},
      {"dead-tables", test::dead_tables},
      {"long-tables", test::long_tables},
      {"interior-tables", test::interior_tables},
      {"moving-lists", test::moving_lists},
      {"full-lists", test::full_lists},
      {"crowd", test::crowd_on_the_null_stream},
      {"crowd-events", test::crowd_with_events},
      {"free-waits", test::frees_wait},
      {"free-captures", test::frees_beside_captures},
      {"training", test::training}};
  const test::Calls calls = test::find_calls(words[1]);
  // A small card where more is to be used than the card has.
  const std::string what = words[2];
  const bool as_pytorchs = what == "steps" || what.ends_with("products") ||
                           what.ends_with("reads") || what == "looks-of-pytorch" ||
                           what.starts_with("exposed");
  const test::Device device(calls, what == "free" ? 24 : 1024, as_pytorchs);
  if (random) {
    test::random_program(device, std::strtoull(words[3], nullptr, 10), count == 5);
  } else {
    scenarios.at(words[2])(device);
  }
  return device.finish();
}
