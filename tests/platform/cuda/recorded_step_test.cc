// The heap's memory under recorded training steps: what they allocate and free, in their order,
// with launches that use what their kernels use. Where what is alive has some room, each step after
// the first few finds all of its memory in place, and nobody is told of its launches.
#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "heap/device_heap.h"
#include "platform/common/gpu_sizes.h"
#include "platform/cuda/cuda_world.h"
#include "trace/read.h"

namespace spillway::cuda {
namespace {

struct What {
  const char* trace;
  int percent;  // of the most that is alive at once
};

void PrintTo(const What& what, std::ostream* out) { *out << what.trace << ' ' << what.percent; }

class RecordedStep : public CudaWorld, public ::testing::WithParamInterface<What> {
 protected:
  RecordedStep() {
    config.device_bytes = 64 * kGiB;
    config.poison_handles = 0;
    options.host_bytes = 2 * kGiB;
    options.bypass_after = 16;
    options.bypass_after_at_most = 64;
    options.address_bytes = 256 * kGiB;
  }

  void SetUp() override {
    Result<Trace> read =
        read_trace(std::string(SPILLWAY_SOURCE_DIR "/traces/h200/") + GetParam().trace + ".swt");
    ASSERT_TRUE(read) << read.error().message;
    trace = std::move(*read);
    constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();
    first.assign(trace.tensors.size(), kNever);
    last.assign(trace.tensors.size(), kNever);
    for (std::size_t at = 0; at < trace.kernels.size(); ++at) {
      for (const TensorId id : used_by(at)) {
        first[id] = std::min(first[id], at);
        last[id] = at;
      }
    }
  }
  [[nodiscard]] std::vector<TensorId> used_by(std::size_t at) const {
    const Kernel& kernel = trace.kernels[at];
    std::vector<TensorId> used(kernel.reads.begin(), kernel.reads.end());
    used.insert(used.end(), kernel.writes.begin(), kernel.writes.end());
    std::sort(used.begin(), used.end());
    used.erase(std::unique(used.begin(), used.end()), used.end());
    return used;
  }
  [[nodiscard]] bool stays(TensorId id) const { return trace.tensors[id].persistent; }

  template <typename Visit>
  void for_each_born(std::size_t at, const Visit& visit) const {
    for (const TensorId id : used_by(at)) {
      if (first[id] == at) {
        visit(id);
      }
    }
  }
  template <typename Visit>
  void for_each_dead(std::size_t at, const Visit& visit) const {
    for (const TensorId id : used_by(at)) {
      if (last[id] == at && !stays(id)) {
        visit(id);
      }
    }
  }

  [[nodiscard]] Bytes most_alive_bytes() const {
    Bytes bytes = 0;
    for (const Tensor& tensor : trace.tensors) {
      bytes += tensor.persistent ? tensor.bytes : 0;
    }
    Bytes most_bytes = bytes;
    for (std::size_t at = 0; at < trace.kernels.size(); ++at) {
      for_each_born(at, [&](TensorId id) { bytes += stays(id) ? 0 : trace.tensors[id].bytes; });
      most_bytes = std::max(most_bytes, bytes);
      for_each_dead(at, [&](TensorId id) { bytes -= trace.tensors[id].bytes; });
    }
    return most_bytes;
  }

  void step(CuStream on) {
    for (std::size_t at = 0; at < trace.kernels.size(); ++at) {
      for_each_born(at, [&](TensorId id) {
        if (addresses[id] == 0) {
          const Result<std::uint64_t> made = heap->allocate(trace.tensors[id].bytes, on);
          ASSERT_TRUE(made) << made.error().message;
          addresses[id] = *made;
        }
      });
      std::vector<CudaOperand> operands;
      for (const TensorId id : used_by(at)) {
        const auto range =
            platform->memory().allocation_of(addresses[id]);  // as the interposer finds them
        ASSERT_TRUE(range);
        operands.push_back({.address = range->start, .bytes = range->bytes});
      }
      if (!operands.empty()) {
        EXPECT_EQ(issue(on, operands, trace.kernels[at].name, false,
                        [&] {
                          return launch(test::kernels().fill, on, operands[0].address,
                                        operands[0].bytes >= 8 ? 1 : 0, 1);
                        }),
                  CuResult::kSuccess);
      }
      for_each_dead(at, [&](TensorId id) {
        EXPECT_TRUE(heap->free(addresses[id], on));
        addresses[id] = 0;
      });
    }
    synchronize(on);
  }

  Trace trace;
  std::vector<std::size_t> first;  // kernel that uses it, by tensor
  std::vector<std::size_t> last;
  std::vector<std::uint64_t> addresses;
  std::unique_ptr<DeviceHeap> heap;
};

TEST_P(RecordedStep, FindsAllOfItsMemoryAfterAFewSteps) {
  options.device_bytes =
      most_alive_bytes() * static_cast<Bytes>(GetParam().percent) / 100 / kBlockBytes * kBlockBytes;
  options.block_bytes = largest_block_of_run(options.device_bytes, options.host_bytes, false);
  options.pinned_piece_bytes = pinned_piece_of_run(options.host_bytes, options.block_bytes);
  open(lookahead);
  heap = std::make_unique<DeviceHeap>(*platform);
  addresses.assign(trace.tensors.size(), 0);
  const CuStream on = stream();
  constexpr int kFew = 8;
  for (int i = 0; i < kFew; ++i) {
    step(on);
  }
  const std::uint64_t told =
      platform->stats().engine.launches - platform->bypass().bypassed_calls();
  const std::uint64_t maps = counters().maps;
  for (int i = 0; i < 3; ++i) {
    step(on);
  }
  EXPECT_EQ(platform->stats().engine.launches - platform->bypass().bypassed_calls(), told);
  EXPECT_EQ(counters().maps, maps);
  EXPECT_EQ(moved(Tier::kDevice, Tier::kHost), 0U);
  whole();
  heap.reset();
}

INSTANTIATE_TEST_SUITE_P(Traces, RecordedStep,
                         ::testing::Values(What{"gpt2", 125}, What{"gpt2", 130},
                                           What{"bert-large", 120}, What{"gpt2-xl", 130}),
                         [](const auto& it) {
                           std::string name =
                               std::string(it.param.trace) + std::to_string(it.param.percent);
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace spillway::cuda
