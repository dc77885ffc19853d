// See ends.h.
#include "ends.h"

#include <array>

#include "mapped_calls.h"
#include "torch_reports.h"

namespace spillway::cuda::test {
namespace {

constexpr std::uint64_t kSmallBytes = 256 << 10;

void add_one_before(std::uint64_t end, std::uint64_t words) {
  for (std::uint64_t i = 1; i <= words; ++i) {
    words_at(end - 8 * i)[0] += 1;
  }
}

// (the end, words).
void run_from_end(const FakeCudaLaunch* launch) {
  add_one_before(parameter(launch, 0), parameter(launch, 1));
}

std::size_t before_end(const FakeCudaLaunch* launch, FakeCudaRange* ranges, std::size_t) {
  ranges[0] = {parameter(launch, 0) - 8 * parameter(launch, 1), 8 * parameter(launch, 1), 1};
  return 1;
}

// (a table of two ends, words).
void run_from_listed_ends(const FakeCudaLaunch* launch) {
  for (std::uint64_t i = 0; i < 2; ++i) {
    add_one_before(words_at(parameter(launch, 0))[i], parameter(launch, 1));
  }
}

std::size_t only_table(const FakeCudaLaunch* launch, FakeCudaRange* ranges, std::size_t) {
  ranges[0] = {parameter(launch, 0), 16, 0};
  return 1;
}

CuFunction kernel(const Device& device, const char* name, void (*run)(const FakeCudaLaunch*),
                  std::size_t (*ranges)(const FakeCudaLaunch*, FakeCudaRange*, std::size_t)) {
  const std::size_t offsets[] = {0, 8};
  const std::size_t bytes[] = {8, 8};
  const FakeCudaKernel made{name, offsets, bytes, 2, run, ranges};
  return static_cast<CuFunction>(device.calls.register_kernel(&made));
}

void launch(const Device& device, CuFunction function, CuStream stream, std::uint64_t first,
            std::uint64_t second) {
  std::array<void*, 2> parameters{&first, &second};
  device.expect(device.calls.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream,
                                            parameters.data(), nullptr),
                "cuLaunchKernel");
}

// From the eleventh on, after the first ten have taken all the room; then of all.
void use_from_ends(const Device& device, std::vector<Buffer>& buffers, CuStream stream) {
  const CuFunction from_end = kernel(device, "from_end", run_from_end, before_end);
  const CuFunction listed = kernel(device, "from_listed_ends", run_from_listed_ends, only_table);
  const auto use_others = [&] {
    for (std::uint64_t i = 0; i < 10; ++i) {
      device.check(buffers[i], stream);
    }
  };
  use_others();
  std::vector<std::uint64_t> more(buffers.size(), 0);
  const auto end_of = [&](std::size_t i) { return buffers[i].address + 8 * buffers[i].words; };
  const Buffer table = device.allocate(4096, stream);
  for (std::size_t i = 10; i + 1 < buffers.size(); i += 2) {
    device.synchronize(stream);
    const std::array<std::uint64_t, 2> ends{end_of(i), end_of(i + 1)};
    device.expect(device.calls.cuMemcpyHtoD_v2(table.address, ends.data(), sizeof ends),
                  "cuMemcpyHtoD");
    use_others();
    launch(device, listed, stream, table.address, buffers[i].words);
    ++more[i];
    ++more[i + 1];
  }
  for (std::size_t i = buffers.size(); i-- > 0;) {
    launch(device, from_end, stream, end_of(i), buffers[i].words);
    ++more[i];
  }
  device.synchronize(stream);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const std::vector<std::uint64_t> words = device.words_of(buffers[i]);
    for (std::uint64_t j = 0; j < words.size(); ++j) {
      device.require(words[j] == pattern(buffers[i].seed, j) + more[i], "a word before an end");
    }
  }
}

}  // namespace

void ends_of_arrays(const Device& device) {
  const CuStream stream = device.stream();
  std::vector<Buffer> buffers;
  for (std::uint64_t i = 0; i < 10; ++i) {
    buffers.push_back(device.allocate(4 * kMiB, stream));
    device.fill(buffers.back(), i, stream);
  }
  // Some end where the next begins.
  for (std::uint64_t i = 0; i < 16; ++i) {
    buffers.push_back(device.allocate(kSmallBytes, stream));
    device.fill(buffers.back(), 100 + i, stream);
  }
  use_from_ends(device, buffers, stream);
}

// Each ends where the next begins, and the last where nothing is mapped any more.
void ends_of_expandable_tensors(const Device& device) {
  constexpr std::uint64_t kTensors = 16;
  constexpr std::uint64_t kBytes = 3 * kMiB;
  const CuStream stream = device.stream();
  const CuAddress segment = reserve(device, 2 * kTensors * kBytes);
  for (std::uint64_t at = 0; at < kTensors * kBytes; at += kPiece) {
    map_piece(device, segment + at);
  }
  std::vector<Buffer> buffers;
  for (std::uint64_t i = 0; i < kTensors; ++i) {
    buffers.push_back(buffer_at(segment + i * kBytes, kBytes));
    report_tensor(device, buffers.back().address, kBytes);
    device.fill(buffers.back(), i, stream);
  }
  use_from_ends(device, buffers, stream);
}

// Where nothing is mapped behind it. The table is the graph's all the while.
void ends_of_mapped_memory(const Device& device) {
  const CuStream stream = device.stream();
  const CuFunction listed = kernel(device, "from_listed_ends", run_from_listed_ends, only_table);
  for (const bool is_tensor : {false, true}) {
    const CuAddress start = reserve(device, 3 * kPiece);
    map_piece(device, start);
    map_piece(device, start + kPiece);
    Buffer named = buffer_at(start + kPiece, kPiece);
    if (is_tensor) {
      report_tensor(device, named.address, kPiece);
    }
    device.fill(named, 5, stream);
    const Buffer table = device.allocate(4096, stream);
    const CuAddress end = named.address + kPiece;
    const std::array<std::uint64_t, 2> ends{end, end};
    device.expect(device.calls.cuMemcpyHtoD_v2(table.address, ends.data(), sizeof ends),
                  "cuMemcpyHtoD");
    device.expect(device.calls.cuStreamBeginCapture_v2(stream, 0), "cuStreamBeginCapture");
    launch(device, listed, stream, table.address, named.words);
    CuGraph graph = nullptr;
    CuGraphExec exec = nullptr;
    device.expect(device.calls.cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
    device.expect(device.calls.cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
    press(device, stream);
    device.expect(device.calls.cuGraphLaunch(exec, stream), "cuGraphLaunch");
    press(device, stream);
    device.synchronize(stream);
    const std::vector<std::uint64_t> words = device.words_of(named);
    for (std::uint64_t i = 0; i < words.size(); ++i) {
      device.require(words[i] == pattern(named.seed, i) + 2, "a word before an end");
    }
    device.expect(device.calls.cuGraphExecDestroy(exec), "cuGraphExecDestroy");
  }
}

}  // namespace spillway::cuda::test
