// See products.h.
#include "products.h"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstddef>

#include "../runtime/cublas.h"

namespace spillway::cuda::test {
namespace {

std::atomic<std::uint64_t> unexpected_workspaces{0};

void run_product(const FakeCudaLaunch* launch) {
  const auto at = [launch](CublasWord which) { return parameter(launch, which); };
  std::uint64_t* const workspace = words_at(at(kCublasWorkspace));
  unexpected_workspaces += workspace[0] == 0 ? 0 : 1;
  workspace[0] = 1;
  for (std::uint64_t i = 0; i < at(kCublasWords); ++i) {
    const std::uint64_t bias =
        at(kCublasBias) == 0 ? 0 : words_at(at(kCublasBias))[i % at(kCublasBiasWords)];
    const std::uint64_t before = at(kCublasC) == 0 ? 0 : words_at(at(kCublasC))[i];
    words_at(at(kCublasD))[i] =
        3 * words_at(at(kCublasA))[i] + words_at(at(kCublasB))[i] + bias + before;
  }
}

std::size_t product_ranges(const FakeCudaLaunch* launch, FakeCudaRange* ranges, std::size_t) {
  const auto at = [launch](CublasWord which) { return parameter(launch, which); };
  ranges[0] = {at(kCublasA), 8 * at(kCublasWords), 0};
  ranges[1] = {at(kCublasB), 8 * at(kCublasWords), 0};
  ranges[2] = {at(kCublasD), 8 * at(kCublasWords), 1};
  ranges[3] = {at(kCublasWorkspace), 8, 1};
  ranges[4] = {at(kCublasBias), 8 * at(kCublasBiasWords), 0};
  return at(kCublasBias) == 0 ? 4 : 5;
}

void* place(const Buffer& buffer) {
  return reinterpret_cast<void*>(buffer.address);  // NOLINT(performance-no-int-to-ptr)
}

// The library that is linked against cuBLAS.
struct Library {
  void (*set_kernel)(void*);
  void* (*handle)(void*, void*, std::size_t);
  void (*end)(void*);
  int (*by_handle)(void*, const void*, const void*, void*, std::size_t, float, int);
  int (*with_bias)(const void*, const void*, const void*, std::size_t, void*, std::size_t, void*,
                   std::size_t, void*, int);
};

Library open_library(const Device& device) {
  void* const library = ::dlopen(SPILLWAY_PRODUCTS, RTLD_NOW | RTLD_LOCAL);
  device.require(library != nullptr, ::dlerror());
  const auto find = [library](const char* name) { return ::dlsym(library, name); };
  return {.set_kernel = reinterpret_cast<void (*)(void*)>(find("products_set_kernel")),
          .handle = reinterpret_cast<void* (*)(void*, void*, std::size_t)>(find("products_handle")),
          .end = reinterpret_cast<void (*)(void*)>(find("products_end")),
          .by_handle = reinterpret_cast<decltype(Library::by_handle)>(find("products_by_handle")),
          .with_bias = reinterpret_cast<decltype(Library::with_bias)>(find("products_with_bias"))};
}

constexpr std::uint64_t kBytes = 4 << 20U;
constexpr std::uint64_t kBiasBytes = 10'000;
constexpr std::uint64_t kWorkspaceBytes = 1 << 20U;

struct Layer {
  Buffer weight;
  Buffer other;  // is used between the two ways
  Buffer input;
  Buffer product;
  std::uint64_t bias_seed = 0;  // 0: none
  bool in_two = false;          // cublas.h
};

// `looked_up`: all by the function that is found by its name.
void multiply(const Device& device, bool looked_up) {
  constexpr std::uint64_t kLayers = 8;
  constexpr std::uint64_t kSteps = 5;
  const Library library = open_library(device);
  std::array<std::size_t, kCublasParameters> offsets{};
  std::array<std::size_t, kCublasParameters> bytes{};
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    offsets[i] = 8 * i;
    bytes[i] = 8;
  }
  const FakeCudaKernel kernel{"nvjet",        offsets.data(), bytes.data(),
                              offsets.size(), run_product,    product_ranges};
  library.set_kernel(device.calls.register_kernel(&kernel));
  const CuStream stream = device.stream();
  const Buffer workspace = device.allocate(kWorkspaceBytes, stream);
  const Buffer handles_workspace = device.allocate(2 * kWorkspaceBytes, stream);
  void* const handle = library.handle(stream, place(handles_workspace), 2 * kWorkspaceBytes);
  std::vector<Layer> layers(kLayers);
  for (std::uint64_t i = 0; i < kLayers; ++i) {
    layers[i].weight = device.allocate(kBytes, stream);
    device.fill(layers[i].weight, i, stream);
    layers[i].other = device.allocate(kBytes, stream);
    device.fill(layers[i].other, 50 + i, stream);
  }
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    for (std::uint64_t i = 0; i < kLayers; ++i) {
      Layer& layer = layers[i];
      layer.input = device.allocate(kBytes, stream);
      device.fill(layer.input, 100 * step + i, stream);
      layer.product = device.allocate(kBytes, stream);
      layer.bias_seed = looked_up || i % 2 == 0 ? 10'000 * (step + 1) + i : 0;
      layer.in_two = !looked_up && i % 8 == 5;
      if (layer.bias_seed != 0) {
        Buffer bias = device.allocate(kBiasBytes, stream);
        device.fill(bias, layer.bias_seed, stream);
        device.require(library.with_bias(place(layer.weight), place(layer.input), place(bias),
                                         kBiasBytes, place(layer.product), kBytes, place(workspace),
                                         kWorkspaceBytes, stream, looked_up ? 1 : 0) == 0,
                       "a product with a bias");
        device.free(bias, stream);
      } else {
        device.require(
            library.by_handle(handle, place(layer.weight), place(layer.input), place(layer.product),
                              kBytes, 0, layer.in_two ? kCublasInTwo : -1) == 0,
            "a product");
      }
      const Buffer result = device.allocate(kBytes, stream);
      device.pointwise(result, layer.product, Reads::kKnown, stream);
      device.check(layer.other, stream);
      device.free(result, stream);
    }
    for (std::uint64_t i = kLayers; i-- > 0;) {
      Layer& layer = layers[i];
      Buffer gradient = device.allocate(kBytes, stream);
      device.fill(gradient, 7, stream);
      device.add(gradient, layer.product, stream);
      const bool added = i % 4 == 3;
      if (added) {
        device.require(library.by_handle(handle, place(layer.weight), place(layer.input),
                                         place(gradient), kBytes, 1, -1) == 0,
                       "a product that is added");
      }
      device.synchronize(stream);
      const std::vector<std::uint64_t> words = device.words_of(gradient);
      for (std::uint64_t j = 0; j < words.size(); ++j) {
        const std::uint64_t product =
            3 * pattern(layer.weight.seed, j) + pattern(layer.input.seed, j);
        const std::uint64_t bias =
            layer.bias_seed == 0 ? 0 : pattern(layer.bias_seed, j % (kBiasBytes / 8));
        device.require(words[j] == pattern(7, j) + (layer.in_two ? 2 : 1) * product + bias +
                                       (added ? product : 0),
                       "a gradient's word");
      }
      device.free(gradient, stream);
      device.free(layer.product, stream);
      device.free(layer.input, stream);
      device.rewrite(layer.weight, 1'000 * (step + 1) + i, stream);
    }
  }
  device.synchronize(stream);
  device.require(unexpected_workspaces == 0, "the workspace of a product");
  library.end(handle);
}

}  // namespace

void products(const Device& device) { multiply(device, false); }

void looked_up_products(const Device& device) { multiply(device, true); }

}  // namespace spillway::cuda::test
