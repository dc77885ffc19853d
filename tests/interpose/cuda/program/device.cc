// See device.h.
#include "device.h"

#include <dlfcn.h>

#include <atomic>
#include <cstring>

namespace spillway::cuda::test {
namespace {

std::atomic<std::uint64_t> wrong{0};

void run_fill(const FakeCudaLaunch* launch) {
  write_pattern(words_at(parameter(launch, 0)), parameter(launch, 1), parameter(launch, 2));
}

void run_rewrite(const FakeCudaLaunch* launch) {
  std::uint64_t* const at = words_at(parameter(launch, 0));
  const std::uint64_t words = parameter(launch, 1);
  wrong += count_wrong(at, words, parameter(launch, 2));
  write_pattern(at, words, parameter(launch, 3));
}

void run_add(const FakeCudaLaunch* launch) {
  std::uint64_t* const to = words_at(parameter(launch, 0));
  const std::uint64_t* const from = words_at(parameter(launch, 1));
  const std::uint64_t words = parameter(launch, 2);
  for (std::uint64_t i = 0; i < words; ++i) {
    to[i] += from[i];
  }
}

void run_add_listed(const FakeCudaLaunch* launch) {
  const std::uint64_t* const list = words_at(parameter(launch, 0));
  for (std::uint64_t i = 0; i < parameter(launch, 1); ++i) {
    std::uint64_t* const to = words_at(list[i]);
    for (std::uint64_t j = 0; j < parameter(launch, 2); ++j) {
      to[j] += 1;
    }
  }
}

// The first table's first word names the second, that one's what is added to.
void run_add_listed_twice(const FakeCudaLaunch* launch) {
  const std::uint64_t* const inner = words_at(*words_at(parameter(launch, 0)));
  std::uint64_t* const to = words_at(*inner);
  for (std::uint64_t i = 0; i < parameter(launch, 2); ++i) {
    to[i] += 1;
  }
}

std::size_t twice_ranges(const FakeCudaLaunch* launch, FakeCudaRange* ranges, std::size_t) {
  ranges[0] = {parameter(launch, 0), 8, 0};
  ranges[1] = {parameter(launch, 1), 8, 0};
  return 2;
}

std::size_t first_range(const FakeCudaLaunch* launch, FakeCudaRange* ranges, std::size_t) {
  ranges[0] = {parameter(launch, 0), 8 * parameter(launch, 1), 1};
  return 1;
}

std::size_t add_ranges(const FakeCudaLaunch* launch, FakeCudaRange* ranges, std::size_t) {
  ranges[0] = {parameter(launch, 0), 8 * parameter(launch, 2), 1};
  ranges[1] = {parameter(launch, 1), 8 * parameter(launch, 2), 0};
  return 2;
}

// As torch.compile's: (to, from, words), and a place that is always null.
void run_told_pointwise(const FakeCudaLaunch* launch) {
  for (std::uint64_t i = 0; i < parameter(launch, 2); ++i) {
    words_at(parameter(launch, 0))[i] = words_at(parameter(launch, 1))[i] + 1;
  }
}

// What torch.compile's loader does, by the Python package.
void tell_of(CuFunction function, const char* name, const char* roles) {
  using Tell = void (*)(std::uint64_t, const char*, const char*);
  auto* const tell = reinterpret_cast<Tell>(::dlsym(RTLD_DEFAULT, "spillway_kernel"));
  if (tell != nullptr) {
    tell(reinterpret_cast<std::uint64_t>(function), name, roles);
  }
}

// (int count, a functor without members, std::array<char*, 2> data).
constexpr const char* kPointwise =
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_10AddFunctorESt5arrayIPcLm2EEEEviT0_T1_";

std::uint64_t pointwise_words(const FakeCudaLaunch* launch) {
  std::uint32_t words = 0;
  std::memcpy(&words, launch->parameters, sizeof words);
  return words;
}

void run_pointwise(const FakeCudaLaunch* launch) {
  std::uint64_t* const to = words_at(parameter(launch, 1));
  const std::uint64_t* const from = words_at(parameter(launch, 2));
  for (std::uint64_t i = 0; i < pointwise_words(launch); ++i) {
    to[i] = from[i] + 1;
  }
}

std::size_t pointwise_ranges(const FakeCudaLaunch* launch, FakeCudaRange* ranges, std::size_t) {
  ranges[0] = {parameter(launch, 1), 8 * pointwise_words(launch), 1};
  ranges[1] = {parameter(launch, 2), 8 * pointwise_words(launch), 0};
  return 2;
}

// (a tensor map, words).
std::uint64_t mapped_address(const void* map) {
  CuTensorMap it{};
  std::memcpy(&it, map, sizeof it);
  return it.words[3] ^ kFakeTensorMapKey;
}

void add_one(std::uint64_t address, std::uint64_t words) {
  for (std::uint64_t i = 0; i < words; ++i) {
    words_at(address)[i] += 1;
  }
}

constexpr std::size_t kBehindMap = sizeof(CuTensorMap) / sizeof(std::uint64_t);

void run_add_mapped(const FakeCudaLaunch* launch) {
  add_one(mapped_address(launch->parameters), parameter(launch, kBehindMap));
}

std::size_t mapped_range(const FakeCudaLaunch* launch, FakeCudaRange* ranges, std::size_t) {
  ranges[0] = {mapped_address(launch->parameters), 8 * parameter(launch, kBehindMap), 1};
  return 1;
}

// (where the map lies, words, with all bits turned what it names).
void run_add_mapped_at(const FakeCudaLaunch* launch) {
  add_one(mapped_address(words_at(parameter(launch, 0))), parameter(launch, 1));
}

std::size_t mapped_at_ranges(const FakeCudaLaunch* launch, FakeCudaRange* ranges, std::size_t) {
  ranges[0] = {parameter(launch, 0), sizeof(CuTensorMap), 0};
  ranges[1] = {~parameter(launch, 2), 8 * parameter(launch, 1), 1};
  return 2;
}

// What the list names cannot be told before it is there; what is not mapped ends in a crash.
std::size_t list_range(const FakeCudaLaunch* launch, FakeCudaRange* ranges, std::size_t) {
  ranges[0] = {parameter(launch, 0), 8 * parameter(launch, 1), 0};
  return 1;
}

std::size_t no_range(const FakeCudaLaunch*, FakeCudaRange*, std::size_t) { return 0; }

}  // namespace

Device::Device(const Calls& all, std::uint64_t device_mib, bool as_pytorchs) : calls(all) {
  FakeCudaConfig config;
  calls.default_config(&config);
  config.device_bytes = device_mib << 20U;
  calls.reset(&config);
  const auto kernel =
      [this](const char* name, std::size_t count, void (*run)(const FakeCudaLaunch*),
             std::size_t (*ranges)(const FakeCudaLaunch*, FakeCudaRange*, std::size_t)) {
        const std::size_t offsets[] = {0, 8, 16, 24};
        const std::size_t bytes[] = {8, 8, 8, 8};
        const FakeCudaKernel made{name, offsets, bytes, count, run, ranges};
        return static_cast<CuFunction>(calls.register_kernel(&made));
      };
  fill_ = kernel(as_pytorchs ? "_ZN2at6native4fillEv" : "fill", 3, run_fill, first_range);
  rewrite_ =
      kernel(as_pytorchs ? "_ZN2at6native7rewriteEv" : "rewrite", 4, run_rewrite, first_range);
  add_ = kernel(as_pytorchs ? "_ZN2at6native3addEv" : "add", 3, run_add, add_ranges);
  const auto pointwise = [this](const char* name) {
    const std::size_t offsets[] = {0, 4, 8};
    const std::size_t bytes[] = {4, 1, 16};
    const FakeCudaKernel made{name, offsets, bytes, 3, run_pointwise, pointwise_ranges};
    return static_cast<CuFunction>(calls.register_kernel(&made));
  };
  pointwise_ = pointwise(kPointwise);
  unknown_pointwise_ = pointwise("mine");
  constexpr const char* kTold = "triton_poi_fused_add_0";
  told_pointwise_ = kernel(kTold, 4, run_told_pointwise, add_ranges);
  tell_of(told_pointwise_, kTold, ".r.");
  add_listed_twice_ = kernel("add_listed_twice", 3, run_add_listed_twice, twice_ranges);
  add_listed_ = kernel("add_listed", 3, run_add_listed, list_range);
  add_listed_on_host_ = kernel("add_listed_on_host", 3, run_add_listed, no_range);
  add_mapped_at_ = kernel("add_mapped_at", 3, run_add_mapped_at, mapped_at_ranges);
  const std::size_t map_offsets[] = {0, sizeof(CuTensorMap)};
  const std::size_t map_bytes[] = {sizeof(CuTensorMap), 8};
  const FakeCudaKernel mapped{"add_mapped",   map_offsets, map_bytes, 2,
                              run_add_mapped, mapped_range};
  add_mapped_ = static_cast<CuFunction>(calls.register_kernel(&mapped));
  expect(calls.cuInit(0), "cuInit");
  expect(calls.cuDevicePrimaryCtxRetain(&context_, 0), "cuDevicePrimaryCtxRetain");
  expect(calls.cuCtxSetCurrent(context_), "cuCtxSetCurrent");
}

CuStream Device::stream(unsigned flags) const {
  CuStream made = nullptr;
  expect(calls.cuStreamCreate(&made, flags), "cuStreamCreate");
  return made;
}

Buffer Device::allocate(std::uint64_t bytes, CuStream stream) const {
  Buffer buffer;
  expect(calls.cuMemAllocAsync(&buffer.address, bytes, stream), "cuMemAllocAsync");
  buffer.words = bytes / 8;
  return buffer;
}

void Device::launch(CuFunction function, CuStream stream,
                    std::vector<std::uint64_t> parameters) const {
  std::vector<void*> pointers;
  pointers.reserve(parameters.size());
  for (std::uint64_t& value : parameters) {
    pointers.push_back(&value);
  }
  expect(calls.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, pointers.data(), nullptr),
         "cuLaunchKernel");
}

void Device::fill(Buffer& buffer, std::uint64_t seed, CuStream stream) const {
  launch(fill_, stream, {buffer.address, buffer.words, seed});
  buffer.seed = seed;
}

void Device::rewrite(Buffer& buffer, std::uint64_t seed, CuStream stream) const {
  launch(rewrite_, stream, {buffer.address, buffer.words, buffer.seed, seed});
  buffer.seed = seed;
}

void Device::add(const Buffer& to, const Buffer& from, CuStream stream) const {
  launch(add_, stream, {to.address, from.address, to.words});
}

void Device::pointwise(const Buffer& to, const Buffer& from, Reads reads, CuStream stream) const {
  if (reads == Reads::kTold) {
    launch(told_pointwise_, stream, {to.address, from.address, to.words, 0});
    return;
  }
  auto words = static_cast<std::uint32_t>(from.words);
  std::uint8_t functor = 0;
  std::uint64_t data[] = {to.address, from.address};
  void* parameters[] = {&words, &functor, data};
  expect(calls.cuLaunchKernel(reads == Reads::kKnown ? pointwise_ : unknown_pointwise_, 1, 1, 1, 1,
                              1, 1, 0, stream, parameters, nullptr),
         "cuLaunchKernel");
}

void Device::add_listed(const Buffer& list, std::uint64_t count, std::uint64_t words,
                        CuStream stream) const {
  launch(add_listed_, stream, {list.address, count, words});
}

void Device::add_listed_on_host(const std::uint64_t* list, std::uint64_t count, std::uint64_t words,
                                CuStream stream) const {
  launch(add_listed_on_host_, stream, {reinterpret_cast<std::uint64_t>(list), count, words});
}

void Device::add_listed_twice(const Buffer& outer, const Buffer& inner, std::uint64_t words,
                              CuStream stream) const {
  launch(add_listed_twice_, stream, {outer.address, inner.address, words});
}

void Device::add_mapped(const CuTensorMap& map, std::uint64_t words, CuStream stream) const {
  CuTensorMap copy = map;
  void* parameters[] = {&copy, &words};
  expect(calls.cuLaunchKernel(add_mapped_, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr),
         "cuLaunchKernel");
}

void Device::add_mapped_at(const Buffer& map, std::uint64_t named, std::uint64_t words,
                           CuStream stream) const {
  launch(add_mapped_at_, stream, {map.address, words, ~named});
}

void Device::fill_by_library(Buffer& buffer, std::uint64_t seed, CuStream stream) const {
  launch(static_cast<CuFunction>(calls.kernel_of(fill_)), stream,
         {buffer.address, buffer.words, seed});
  buffer.seed = seed;
}

std::vector<std::uint64_t> Device::words_of(const Buffer& buffer) const {
  std::vector<std::uint64_t> words(buffer.words);
  expect(calls.cuMemcpyDtoH_v2(words.data(), buffer.address, 8 * buffer.words), "cuMemcpyDtoH");
  return words;
}

std::uint64_t Device::wrong_words() const { return wrong.load(); }

int Device::finish() const {
  expect(calls.cuCtxSynchronize(), "cuCtxSynchronize");
  FakeCudaCounters seen{};
  calls.counters(&seen);
  for (std::size_t i = 0; i < calls.violations(); ++i) {
    char text[400];
    (void)calls.violation(i, text, sizeof text);
    std::printf("violation: %s\n", text);
  }
  std::printf("wrong %llu violations %zu peak %llu in %llu out %llu launches %llu\n",
              static_cast<unsigned long long>(wrong.load()), calls.violations(),
              static_cast<unsigned long long>(seen.peak_handle_bytes),
              static_cast<unsigned long long>(seen.copied_in_bytes),
              static_cast<unsigned long long>(seen.copied_out_bytes),
              static_cast<unsigned long long>(seen.launches));
  return wrong.load() == 0 && calls.violations() == 0 ? 0 : 5;
}

}  // namespace spillway::cuda::test
