// See launch_ways.h.
#include "launch_ways.h"

#include <array>
#include <thread>

#include "memsets.h"

namespace spillway::cuda::test {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

std::vector<Buffer> many(const Device& device, CuStream stream) {
  std::vector<Buffer> buffers;
  for (std::uint64_t i = 0; i < 8; ++i) {
    buffers.push_back(device.allocate(4 * kMiB, stream));
    device.fill(buffers.back(), i, stream);
  }
  return buffers;
}

void rewrite_on_thread_stream(const Device& device, Buffer& buffer, std::uint64_t seed,
                              std::uint64_t way) {
  std::array<std::uint64_t, 4> values{buffer.address, buffer.words, buffer.seed, seed};
  std::array<void*, 4> parameters{&values[0], &values[1], &values[2], &values[3]};
  const CuFunction kernel = device.rewrite_kernel();
  const Calls& calls = device.calls;
  if (way == 0) {
    device.expect(
        calls.cuLaunchKernel_ptsz(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters.data(), nullptr),
        "cuLaunchKernel_ptsz");
  } else if (way == 1) {
    device.expect(calls.cuLaunchCooperativeKernel_ptsz(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr,
                                                       parameters.data()),
                  "cuLaunchCooperativeKernel_ptsz");
  } else {
    std::array<std::uint64_t, 9> attribute{2, 1};  // cooperative
    CuLaunchConfig config = one_thread(nullptr);
    config.attributes = reinterpret_cast<CuLaunchAttribute*>(attribute.data());
    config.attribute_count = 1;
    device.expect(calls.cuLaunchKernelEx_ptsz(&config, kernel, parameters.data(), nullptr),
                  "cuLaunchKernelEx_ptsz");
  }
  buffer.seed = seed;
}

void work_on_thread_stream(const Device& device, std::uint64_t from) {
  const Calls& calls = device.calls;
  device.expect(calls.cuCtxSetCurrent(device.context()), "cuCtxSetCurrent");
  std::vector<Buffer> buffers;
  for (std::uint64_t i = 0; i < 5; ++i) {
    Buffer buffer{.address = 0, .words = kMiB / 2, .seed = from + i};
    device.expect(calls.cuMemAllocAsync_ptsz(&buffer.address, 8 * buffer.words, nullptr),
                  "cuMemAllocAsync_ptsz");
    std::vector<std::uint64_t> words(buffer.words);
    for (std::uint64_t j = 0; j < words.size(); ++j) {
      words[j] = pattern(buffer.seed, j);
    }
    device.expect(calls.cuMemcpyHtoD_v2_ptds(buffer.address, words.data(), 8 * words.size()),
                  "cuMemcpyHtoD_v2_ptds");
    buffers.push_back(buffer);
  }
  for (std::uint64_t round = 1; round <= 6; ++round) {
    for (std::uint64_t i = 0; i < buffers.size(); ++i) {
      rewrite_on_thread_stream(device, buffers[i], from + 100 * round + i, (round + i) % 3);
    }
  }
  device.expect(calls.cuMemsetD8Async_ptsz(buffers[0].address, 3, 8 * buffers[0].words, nullptr),
                "cuMemsetD8Async_ptsz");
  device.expect(calls.cuMemcpyDtoDAsync_v2_ptsz(buffers[1].address, buffers[2].address,
                                                8 * buffers[1].words, nullptr),
                "cuMemcpyDtoDAsync_v2_ptsz");
  buffers[1].seed = buffers[2].seed;
  device.expect(calls.cuStreamSynchronize_ptsz(nullptr), "cuStreamSynchronize_ptsz");
  for (std::uint64_t i = 0; i < buffers.size(); ++i) {
    std::vector<std::uint64_t> words(buffers[i].words);
    device.expect(calls.cuMemcpyDtoH_v2_ptds(words.data(), buffers[i].address, 8 * words.size()),
                  "cuMemcpyDtoH_v2_ptds");
    for (std::uint64_t j = 0; j < words.size(); ++j) {
      device.require(words[j] == (i == 0 ? 0x0303030303030303ULL : pattern(buffers[i].seed, j)),
                     "a word of a thread's stream");
    }
    device.expect(calls.cuMemFreeAsync_ptsz(buffers[i].address, nullptr), "cuMemFreeAsync_ptsz");
  }
}

CuTensorMap map_of(const Device& device, const Buffer& buffer) {
  CuTensorMap map{};
  const std::array<std::uint64_t, 1> sizes{buffer.words};
  const std::array<std::uint32_t, 1> ones{1};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): as the call wants it
  auto* const address = reinterpret_cast<void*>(buffer.address);
  device.expect(device.calls.cuTensorMapEncodeTiled(&map, 0, 1, address, sizes.data(), nullptr,
                                                    ones.data(), ones.data(), 0, 0, 0, 0),
                "cuTensorMapEncodeTiled");
  return map;
}

}  // namespace

void thread_streams(const Device& device) {
  std::thread first([&] { work_on_thread_stream(device, 0); });
  std::thread second([&] { work_on_thread_stream(device, 10'000); });
  first.join();
  second.join();
}

void tensor_maps(const Device& device) {
  const CuStream stream = device.stream();
  std::vector<Buffer> buffers = many(device, stream);
  for (const Buffer& buffer : buffers) {
    device.add_mapped(map_of(device, buffer), buffer.words, stream);
  }
  const Buffer table = device.allocate(sizeof(CuTensorMap), stream);
  for (std::size_t i = 0; i < 2; ++i) {
    const CuTensorMap map = map_of(device, buffers[i]);
    device.expect(device.calls.cuMemcpyHtoD_v2(table.address, &map, sizeof map), "cuMemcpyHtoD");
    for (std::size_t j = 2; j < buffers.size(); ++j) {
      device.add(buffers[j], buffers[i], stream);
    }
    device.add_mapped_at(table, buffers[i].address, buffers[i].words, stream);
    device.synchronize(stream);
  }
  device.synchronize(stream);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const std::vector<std::uint64_t> words = device.words_of(buffers[i]);
    for (std::size_t j = 0; j < words.size(); ++j) {
      device.require(
          words[j] == (i < 2 ? pattern(i, j) + 2
                             : pattern(i, j) + 1 + pattern(0, j) + 1 + pattern(1, j) + 1),
          "what a tensor map names");
    }
  }
}

void foreign_streams(const Device& device) {
  device.calls.thread_opens_gates(-1);
  CuContext other = nullptr;
  device.expect(device.calls.cuCtxCreate_v2(&other, 0, 0), "cuCtxCreate");
  const CuStream stream = device.stream();
  device.expect(device.calls.cuCtxSetCurrent(device.context()), "cuCtxSetCurrent");
  std::vector<Buffer> buffers;
  for (std::uint64_t i = 0; i < 8; ++i) {
    buffers.push_back(device.allocate(4 * kMiB, stream));
    device.fill_by_library(buffers.back(), i, stream);
  }
  for (std::uint64_t round = 1; round <= 3; ++round) {
    for (std::uint64_t i = 0; i < buffers.size(); ++i) {
      device.fill_by_library(buffers[i], 100 * round + i, stream);
    }
  }
  device.synchronize(stream);
  for (Buffer& buffer : buffers) {
    device.check(buffer, device.stream());
    device.expect(device.calls.cuCtxSynchronize(), "cuCtxSynchronize");
  }
}

void next_context(const Device& device) {
  device.calls.thread_opens_gates(-1);
  CuContext first = nullptr;
  device.expect(device.calls.cuCtxCreate_v2(&first, 0, 0), "cuCtxCreate");
  const CuStream stream = device.stream();
  for (const Buffer& buffer : many(device, stream)) {
    device.free(buffer, stream);
  }
  device.expect(device.calls.cuCtxSynchronize(), "cuCtxSynchronize");
  device.expect(device.calls.cuCtxDestroy_v2(first), "cuCtxDestroy");
  device.expect(device.calls.cuCtxSetCurrent(device.context()), "cuCtxSetCurrent");
  memsets(device);
}

}  // namespace spillway::cuda::test
