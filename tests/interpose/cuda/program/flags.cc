// See flags.h.
#include "flags.h"

namespace spillway::cuda::test {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

std::vector<Buffer> filled(const Device& device, std::uint64_t count, CuStream stream) {
  std::vector<Buffer> buffers;
  for (std::uint64_t i = 0; i < count; ++i) {
    buffers.push_back(device.allocate(4 * kMiB, stream));
    device.fill(buffers.back(), i, stream);
  }
  device.synchronize(stream);
  return buffers;
}

// The stream does nothing while this lives.
class Flag {
 public:
  Flag(const Device& device, CuStream stream) : device_(device), stream_(stream) {
    device.calls.hold_stream(stream, 1);
  }
  Flag(const Flag&) = delete;
  Flag& operator=(const Flag&) = delete;
  ~Flag() { device_.calls.hold_stream(stream_, 0); }

 private:
  const Device& device_;
  CuStream stream_;
};

}  // namespace

void kernels_behind_a_flag(const Device& device) {
  const CuStream stream = device.stream();
  std::vector<Buffer> buffers = filled(device, 10, stream);
  {
    const Flag flag(device, stream);
    for (std::uint64_t round = 0; round < 36; ++round) {
      for (Buffer& buffer : buffers) {
        Buffer part = buffer;
        part.words = 64;
        device.check(part, stream);
      }
    }
  }
  for (Buffer& buffer : buffers) {
    device.check(buffer, stream);
  }
  device.synchronize(stream);
}

void copies_behind_a_flag(const Device& device) {
  const CuStream stream = device.stream();
  std::vector<Buffer> buffers = filled(device, 10, stream);
  void* memory = nullptr;
  device.expect(device.calls.cuMemHostAlloc(&memory, 8 * buffers.size(), 0), "cuMemHostAlloc");
  auto* const words = static_cast<std::uint64_t*>(memory);
  {
    const Flag flag(device, stream);
    for (std::uint64_t i = 0; i < buffers.size(); ++i) {
      device.check(buffers[i], stream);
      device.expect(device.calls.cuMemcpyDtoHAsync_v2(words + i, buffers[i].address, 8, stream),
                    "cuMemcpyDtoHAsync");
      words[i] = 0;
    }
    for (std::uint64_t i = 0; i + 1 < buffers.size(); i += 2) {
      device.expect(device.calls.cuMemcpyDtoDAsync_v2(buffers[i + 1].address, buffers[i].address,
                                                      8 * buffers[i].words, stream),
                    "cuMemcpyDtoDAsync");
      buffers[i + 1].seed = buffers[i].seed;
    }
  }
  device.synchronize(stream);
  for (std::uint64_t i = 0; i < buffers.size(); ++i) {
    device.require(words[i] == pattern(i, 0), "a word that was copied out behind a flag");
  }
  for (Buffer& buffer : buffers) {
    device.check(buffer, stream);
  }
  device.synchronize(stream);
}

void another_stream_before_a_flag(const Device& device) {
  const CuStream held = device.stream();
  const CuStream other = device.stream();
  std::vector<Buffer> behind = filled(device, 8, held);
  std::vector<Buffer> before = filled(device, 2, other);
  for (int round = 0; round < 2; ++round) {
    const Flag flag(device, held);
    for (Buffer& buffer : behind) {
      device.rewrite(buffer, buffer.seed + 100, held);
    }
    for (Buffer& buffer : before) {
      device.rewrite(buffer, buffer.seed + 100, other);
    }
    device.synchronize(other);
  }
  for (Buffer& buffer : behind) {
    device.check(buffer, held);
  }
  device.synchronize(held);
}

}  // namespace spillway::cuda::test
