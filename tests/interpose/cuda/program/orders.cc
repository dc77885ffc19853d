// See orders.h.
#include "orders.h"

#include <algorithm>
#include <array>

namespace spillway::cuda::test {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

CuStreamOperation operation(CuStreamOperationType type, const std::uint64_t* word) {
  return {.type = type,
          .address = reinterpret_cast<CuAddress>(word),
          .value = 1,
          .flags = kCuWaitAtLeast,
          .reserved = {}};
}

// Five kernels on one stream, of which the last fits the budget of 16 MiB beside none of those
// before it, nor beside the other, which is to come behind it on another stream. That one fits
// beside the first, and no more of them are admitted at once by policies that look no further.
class Work {
 public:
  Work(const Device& device, CuStream first, CuStream other) : device_(device) {
    for (std::uint64_t i = 0; i < 6; ++i) {
      const CuStream stream = i < 4 ? first : other;
      buffers_[i] = device.allocate((i / 2 == 1 ? 6 : 4) * kMiB, stream);
      device.fill(buffers_[i], i, stream);
    }
    device.synchronize(first);
    device.synchronize(other);
  }
  void first(CuStream stream) const {
    for (std::uint64_t i = 0; i < kBefore; ++i) {
      device_.add(buffers_[0], buffers_[1], stream);
    }
    device_.add(buffers_[2], buffers_[3], stream);
  }
  void other(CuStream stream) const { device_.add(buffers_[4], buffers_[5], stream); }
  void require() const {
    for (std::uint64_t i = 0; i < 6; i += 2) {
      const std::vector<std::uint64_t> words = device_.words_of(buffers_[i]);
      for (std::uint64_t j = 0; j < words.size(); ++j) {
        const std::uint64_t times = i == 0 ? kBefore : 1;
        device_.require(words[j] == pattern(i, j) + times * pattern(i + 1, j), "a sum");
      }
    }
  }

 private:
  static constexpr std::uint64_t kBefore = 4;
  const Device& device_;
  std::array<Buffer, 6> buffers_;
};

}  // namespace

void orders_by_batches(const Device& device) {
  const std::array<CuStream, 3> streams{device.stream(), device.stream(), device.stream()};
  void* memory = nullptr;
  device.expect(device.calls.cuMemHostAlloc(&memory, 3 * sizeof(std::uint64_t), 0),
                "cuMemHostAlloc");
  auto* const words = static_cast<std::uint64_t*>(memory);
  std::fill_n(words, 3, 0);
  const auto put = [&](std::size_t stream, std::vector<CuStreamOperation> operations) {
    device.expect(
        device.calls.cuStreamBatchMemOp_v2(
            streams[stream], static_cast<unsigned>(operations.size()), operations.data(), 0),
        "cuStreamBatchMemOp");
  };
  using Type = CuStreamOperationType;
  const Work work(device, streams[0], streams[1]);
  device.calls.hold_stream(streams[0], 1);
  work.first(streams[0]);
  put(0, {operation(Type::kWriteValue64, &words[2]), operation(Type::kWriteValue64, &words[0])});
  put(2, {operation(Type::kWaitValue64, &words[0]), operation(Type::kWriteValue64, &words[1])});
  put(1, {operation(Type::kBarrier, nullptr), operation(Type::kWaitValue64, &words[1])});
  work.other(streams[1]);
  device.calls.hold_stream(streams[0], 0);
  for (const CuStream stream : streams) {
    device.synchronize(stream);
  }
  work.require();
}

void orders_by_refused_recordings(const Device& device) {
  const std::array<CuStream, 2> streams{device.stream(), device.stream()};
  CuEvent event = nullptr;
  device.expect(device.calls.cuEventCreate(&event, kCuEventDisableTiming), "cuEventCreate");
  const Work work(device, streams[0], streams[1]);
  device.calls.hold_stream(streams[0], 1);
  work.first(streams[0]);
  device.expect(device.calls.cuEventRecord(event, streams[0]), "cuEventRecord");
  constexpr unsigned kOfCaptures = 1;
  device.expect(device.calls.cuEventRecordWithFlags(event, device.stream(), kOfCaptures),
                "cuEventRecordWithFlags", CuResult::kInvalidValue);
  device.expect(device.calls.cuEventRecordWithFlags(event, streams[1], kOfCaptures),
                "cuEventRecordWithFlags", CuResult::kInvalidValue);
  device.expect(device.calls.cuStreamWaitEvent(streams[1], event, 0), "cuStreamWaitEvent");
  work.other(streams[1]);
  device.calls.hold_stream(streams[0], 0);
  for (const CuStream stream : streams) {
    device.synchronize(stream);
  }
  work.require();
}

}  // namespace spillway::cuda::test
