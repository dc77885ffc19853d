// See exposed.h.
#include "exposed.h"

#include <array>
#include <vector>

namespace spillway::cuda::test {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
constexpr std::uint64_t kTableBytes = 4096;

// (table, what its first word is to be).
void run_store(const FakeCudaLaunch* launch) {
  *words_at(parameter(launch, 0)) = parameter(launch, 1);
}
std::size_t store_ranges(const FakeCudaLaunch* launch, FakeCudaRange* ranges, std::size_t) {
  ranges[0] = {parameter(launch, 0), 8, 1};
  return 1;
}

// (int count, a functor that holds the number, std::array<char*, 1> data).
constexpr const char* kFillWithNumber =
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIlEESt5arrayIPcLm1EEEEviT0_"
    "T1_";
void run_fill_with_number(const FakeCudaLaunch* launch) {
  *words_at(parameter(launch, 2)) = parameter(launch, 1);
}
std::size_t number_ranges(const FakeCudaLaunch* launch, FakeCudaRange* ranges, std::size_t) {
  ranges[0] = {parameter(launch, 2), 8, 1};
  return 1;
}

void store(const Device& device, const Buffer& table, std::uint64_t word, CuStream stream) {
  constexpr std::array<std::size_t, 2> kOffsets{0, 8};
  constexpr std::array<std::size_t, 2> kBytes{8, 8};
  const FakeCudaKernel made{"store", kOffsets.data(), kBytes.data(), 2, run_store, store_ranges};
  static auto* const kernel = device.calls.register_kernel(&made);
  std::uint64_t address = table.address;
  std::array<void*, 2> parameters{&address, &word};
  device.expect(device.calls.cuLaunchKernel(static_cast<CuFunction>(kernel), 1, 1, 1, 1, 1, 1, 0,
                                            stream, parameters.data(), nullptr),
                "cuLaunchKernel");
}

void fill_with_number(const Device& device, const Buffer& table, std::uint64_t word,
                      CuStream stream) {
  constexpr std::array<std::size_t, 3> kOffsets{0, 8, 16};
  constexpr std::array<std::size_t, 3> kBytes{4, 8, 8};
  const FakeCudaKernel made{kFillWithNumber, kOffsets.data(),      kBytes.data(),
                            kBytes.size(),   run_fill_with_number, number_ranges};
  auto* const kernel = device.calls.register_kernel(&made);
  std::uint32_t count = 1;
  std::uint64_t address = table.address;
  std::array<void*, 3> parameters{&count, &word, &address};
  device.expect(device.calls.cuLaunchKernel(static_cast<CuFunction>(kernel), 1, 1, 1, 1, 1, 1, 0,
                                            stream, parameters.data(), nullptr),
                "cuLaunchKernel");
}

std::uint64_t variable = 0;  // a module's, on the device

// (what it is to be).
void run_keep(const FakeCudaLaunch* launch) { variable = parameter(launch, 0); }
// (how many words to add one to).
void run_add_there(const FakeCudaLaunch* launch) {
  std::uint64_t* const words = words_at(variable);
  for (std::uint64_t i = 0; i < parameter(launch, 0); ++i) {
    ++words[i];
  }
}
std::size_t no_ranges(const FakeCudaLaunch*, FakeCudaRange*, std::size_t) { return 0; }

void launch_with(const Device& device, const char* name, void (*run)(const FakeCudaLaunch*),
                 std::uint64_t word, CuStream stream) {
  constexpr std::size_t kOffset = 0;
  constexpr std::size_t kBytes = 8;
  const FakeCudaKernel made{name, &kOffset, &kBytes, 1, run, no_ranges};
  auto* const kernel = device.calls.register_kernel(&made);
  void* parameters = &word;
  device.expect(device.calls.cuLaunchKernel(static_cast<CuFunction>(kernel), 1, 1, 1, 1, 1, 1, 0,
                                            stream, &parameters, nullptr),
                "cuLaunchKernel");
}

bool in_graphs(Exposes how) { return how == Exposes::kGraph || how == Exposes::kGraphsVariable; }
bool in_variable(Exposes how) {
  return how == Exposes::kVariable || how == Exposes::kGraphsVariable;
}

void expose(const Device& device, Exposes how, const Buffer& table, const Buffer& weight,
            CuStream stream) {
  switch (how) {
    case Exposes::kWhileQuiet:
    case Exposes::kKernel:
      store(device, table, weight.address, stream);
      break;
    case Exposes::kValues:
      fill_with_number(device, table, weight.address, stream);
      break;
    case Exposes::kGraph:
      run_as_graph(device, stream, [&] { store(device, table, weight.address, stream); });
      break;
    case Exposes::kVariable:
    case Exposes::kGraphsVariable:
      launch_with(device, "keep", run_keep, weight.address, stream);
      break;
    case Exposes::kWrittenValue:
    case Exposes::kGraphsValue:
    case Exposes::kCopy: {
      const Buffer from = device.allocate(kTableBytes, stream);
      std::vector<std::uint64_t> words(from.words);
      device.expect(device.calls.cuMemcpyHtoD_v2(table.address, words.data(), kTableBytes),
                    "cuMemcpyHtoD");
      words[0] = how == Exposes::kCopy ? weight.address : 0;
      device.expect(device.calls.cuMemcpyHtoD_v2(from.address, words.data(), kTableBytes),
                    "cuMemcpyHtoD");
      const auto write = [&] {
        device.expect(device.calls.cuStreamWriteValue64_v2(stream, from.address, weight.address, 0),
                      "cuStreamWriteValue64");
      };
      if (how == Exposes::kGraphsValue) {
        run_as_graph(device, stream, write);
      } else if (how == Exposes::kWrittenValue) {
        write();
      }
      device.add(table, from, stream);
      device.synchronize(stream);
      device.free(from, stream);
      break;
    }
  }
}

// More than the budget together.
std::vector<Buffer> others(const Device& device, CuStream stream) {
  std::vector<Buffer> all;
  for (std::uint64_t i = 0; i < 6; ++i) {
    all.push_back(device.allocate(4 * kMiB, stream));
    device.fill(all.back(), 10 + i, stream);
  }
  device.synchronize(stream);
  return all;
}

void use(const Device& device, std::vector<Buffer>& all, CuStream stream) {
  for (Buffer& buffer : all) {
    device.check(buffer, stream);
  }
  device.synchronize(stream);
}

}  // namespace

void exposed(const Device& device, Exposes how) {
  const CuStream stream = device.stream();
  const Buffer table = device.allocate(kTableBytes, stream);
  const Buffer result = device.allocate(4 * kMiB, stream);
  Buffer weight = device.allocate(4 * kMiB, stream);
  device.fill(weight, 3, stream);
  for (int i = 0; how == Exposes::kWhileQuiet && i < 400; ++i) {
    device.pointwise(result, weight, Reads::kKnown, stream);
    device.synchronize(stream);
  }
  expose(device, how, table, weight, stream);
  std::vector<Buffer> more = others(device, stream);
  for (std::uint64_t round = 1; round <= 3; ++round) {
    device.pointwise(result, weight, Reads::kKnown, stream);
    device.synchronize(stream);
    const auto write = [&] {
      if (in_variable(how)) {
        launch_with(device, "add_there", run_add_there, weight.words, stream);
      } else {
        device.add_listed(table, 1, weight.words, stream);
      }
    };
    if (in_graphs(how)) {
      run_as_graph(device, stream, write);
    } else {
      write();
    }
    device.synchronize(stream);
    use(device, more, stream);
    const std::vector<std::uint64_t> words = device.words_of(weight);
    for (std::uint64_t i = 0; i < words.size(); ++i) {
      device.require(words[i] == pattern(weight.seed, i) + round, "what was written unseen");
    }
    use(device, more, stream);
  }
}

void exposed_and_only_read(const Device& device) {
  const CuStream stream = device.stream();
  const Buffer table = device.allocate(kTableBytes, stream);
  const Buffer result = device.allocate(4 * kMiB, stream);
  std::vector<Buffer> weights = others(device, stream);
  for (const Buffer& weight : weights) {
    store(device, table, weight.address, stream);
  }
  for (int round = 0; round < 10; ++round) {
    for (const Buffer& weight : weights) {
      device.pointwise(result, weight, Reads::kKnown, stream);
    }
  }
  device.synchronize(stream);
}

}  // namespace spillway::cuda::test
