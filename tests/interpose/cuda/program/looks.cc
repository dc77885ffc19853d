// See looks.h.
#include "looks.h"

#include <algorithm>
#include <array>
#include <vector>

namespace spillway::cuda::test {
namespace {

constexpr std::uint64_t kLookMiB = std::uint64_t{1} << 20U;
constexpr std::uint64_t kRows = 5;

// (table, which of its words, what that is to be).
void run_enter(const FakeCudaLaunch* launch) {
  words_at(parameter(launch, 0))[parameter(launch, 1)] = parameter(launch, 2);
}
std::size_t entered_range(const FakeCudaLaunch* launch, FakeCudaRange* ranges, std::size_t) {
  ranges[0] = {parameter(launch, 0) + 8 * parameter(launch, 1), 8, 1};
  return 1;
}
// (table of tables, how many words to add one to in the first row of the first).
void run_follow_twice(const FakeCudaLaunch* launch) {
  const std::uint64_t* const inner = words_at(*words_at(parameter(launch, 0)));
  for (std::uint64_t i = 0; i < parameter(launch, 1); ++i) {
    ++words_at(*inner)[i];
  }
}
std::size_t outer_range(const FakeCudaLaunch* launch, FakeCudaRange* ranges, std::size_t) {
  ranges[0] = {parameter(launch, 0), 8, 0};
  return 1;
}

class Kernel {
 public:
  Kernel(const Device& device, const char* name, std::size_t count,
         void (*run)(const FakeCudaLaunch*),
         std::size_t (*ranges)(const FakeCudaLaunch*, FakeCudaRange*, std::size_t))
      : device_(device) {
    constexpr std::array<std::size_t, 3> kOffsets{0, 8, 16};
    constexpr std::array<std::size_t, 3> kBytes{8, 8, 8};
    const FakeCudaKernel made{name, kOffsets.data(), kBytes.data(), count, run, ranges};
    function_ = static_cast<CuFunction>(device.calls.register_kernel(&made));
  }
  void launch(CuStream stream, std::array<std::uint64_t, 3> words) const {
    std::array<void*, 3> parameters{&words[0], &words[1], &words[2]};
    device_.expect(device_.calls.cuLaunchKernel(function_, 1, 1, 1, 1, 1, 1, 0, stream,
                                                parameters.data(), nullptr),
                   "cuLaunchKernel");
  }

 private:
  const Device& device_;
  CuFunction function_ = nullptr;
};

std::vector<Buffer> filled_buffers(const Device& device, std::uint64_t count, std::uint64_t bytes,
                                   CuStream stream) {
  std::vector<Buffer> all;
  for (std::uint64_t i = 0; i < count; ++i) {
    all.push_back(device.allocate(bytes, stream));
    device.fill(all.back(), 10 + i, stream);
  }
  return all;
}

// Until nothing else is on the device.
void push_out(const Device& device, std::vector<Buffer>& others, CuStream stream) {
  for (Buffer& other : others) {
    device.check(other, stream);
  }
  device.synchronize(stream);
}

void require_more(const Device& device, const std::vector<Buffer>& rows, std::uint64_t more) {
  for (const Buffer& row : rows) {
    const std::vector<std::uint64_t> words = device.words_of(row);
    for (std::uint64_t i = 0; i < words.size(); ++i) {
      device.require(words[i] == pattern(row.seed, i) + more, "a word of a row");
    }
  }
}

}  // namespace

void filled_tables(const Device& device, Filled how) {
  constexpr std::uint64_t kTableWords = std::uint64_t{64} << 10U;
  const CuStream stream = device.stream();
  const Kernel enter(device, "enter", 3, run_enter, entered_range);
  const Kernel follow_twice(device, "follow_twice", 2, run_follow_twice, outer_range);
  std::vector<Buffer> others = filled_buffers(device, 8, 4 * kLookMiB, stream);
  std::vector<Buffer> rows = filled_buffers(device, kRows, 2 * kLookMiB, stream);
  std::vector<Buffer> more_rows = filled_buffers(device, kRows, 2 * kLookMiB, stream);
  Buffer table = device.allocate(8 * kTableWords, stream);
  const auto fill_by_kernel = [&](const std::vector<Buffer>& with) {
    for (std::uint64_t i = 0; i < with.size(); ++i) {
      enter.launch(stream, {table.address, i, with[i].address});
    }
  };
  const auto follow = [&] { device.add_listed(table, kRows, rows[0].words, stream); };
  if (how == Filled::kByLargeCopy) {
    std::vector<std::uint64_t> words(kTableWords);
    std::transform(rows.begin(), rows.end(), words.end() - kRows,
                   [](const Buffer& it) { return it.address; });
    device.expect(device.calls.cuMemcpyHtoD_v2(table.address, words.data(), 8 * words.size()),
                  "cuMemcpyHtoD");
    table.address += 8 * (kTableWords - kRows);
  } else if (how == Filled::kByGraph) {
    run_as_graph(device, stream, [&] { fill_by_kernel(rows); });
  } else {
    fill_by_kernel(rows);
  }
  if (how == Filled::kByCopyWithin) {
    const Buffer copy = device.allocate(8 * kTableWords, stream);
    device.expect(
        device.calls.cuMemcpyDtoDAsync_v2(copy.address, table.address, 8 * kTableWords, stream),
        "cuMemcpyDtoDAsync");
    table = copy;
  }
  for (std::uint64_t round = 1; round <= 5; ++round) {
    push_out(device, others, stream);
    if (how == Filled::kByGraph) {
      run_as_graph(device, stream, follow);
    } else if (how == Filled::kInTables) {
      const Buffer outer = device.allocate(512, stream);
      enter.launch(stream, {outer.address, 0, table.address});
      push_out(device, others, stream);
      follow_twice.launch(stream, {outer.address, rows[0].words, 0});
      device.free(outer, stream);
    } else {
      follow();
    }
    if (how == Filled::kByKernelTwice) {
      push_out(device, others, stream);
      fill_by_kernel(round % 2 == 1 ? more_rows : rows);
    }
    push_out(device, others, stream);
    if (how == Filled::kInTables) {
      require_more(device, {rows[0]}, round);
    } else if (how == Filled::kByKernelTwice) {
      require_more(device, rows, (round + 1) / 2);
      require_more(device, more_rows, round / 2);
    } else {
      require_more(device, rows, round);
    }
  }
}

void looks_that_find_nothing(const Device& device) {
  const CuStream stream = device.stream();
  std::vector<Buffer> all = filled_buffers(device, 12, 4 * kLookMiB, stream);
  for (int round = 0; round < 20; ++round) {
    push_out(device, all, stream);
  }
}

void looks_that_find_something(const Device& device) {
  const CuStream stream = device.stream();
  const Kernel enter(device, "enter", 3, run_enter, entered_range);
  std::vector<Buffer> others = filled_buffers(device, 8, 4 * kLookMiB, stream);
  std::vector<Buffer> rows = filled_buffers(device, 4, 2 * kLookMiB, stream);
  const Buffer table = device.allocate(512, stream);
  for (int round = 0; round < 2; ++round) {
    for (const Buffer& row : rows) {
      enter.launch(stream, {table.address, 0, row.address});
      push_out(device, others, stream);
      device.add_listed(table, 1, row.words, stream);
    }
  }
  device.synchronize(stream);
  require_more(device, rows, 2);
}

void looks_beside_a_capture(const Device& device) {
  const CuStream stream = device.stream();
  const CuStream captured = device.stream();
  std::vector<Buffer> all = filled_buffers(device, 8, 4 * kLookMiB, stream);
  Buffer within = device.allocate(4096, stream);
  device.fill(within, 1, stream);
  device.synchronize(stream);
  device.expect(device.calls.cuStreamBeginCapture_v2(captured, 0), "cuStreamBeginCapture");
  device.check(within, captured);
  push_out(device, all, stream);
  push_out(device, all, stream);
  CuGraph graph = nullptr;
  device.expect(device.calls.cuStreamEndCapture(captured, &graph), "cuStreamEndCapture");
  device.expect(device.calls.cuGraphDestroy(graph), "cuGraphDestroy");
}

void hidden_address(const Device& device) {
  const CuStream stream = device.stream();
  std::vector<Buffer> others = filled_buffers(device, 8, 4 * kLookMiB, stream);
  const std::vector<Buffer> rows = filled_buffers(device, 1, 2 * kLookMiB, stream);
  const Buffer map = device.allocate(512, stream);
  push_out(device, others, stream);
  device.add_mapped_at(map, rows[0].address, 1, stream);
  device.expect(device.calls.cuStreamSynchronize(stream), "cuStreamSynchronize",
                CuResult::kIllegalAddress);
  std::exit(0);
}

}  // namespace spillway::cuda::test
