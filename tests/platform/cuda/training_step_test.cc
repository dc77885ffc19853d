// How much more than its peak a training loop needs so that nothing moves: forward, backward and an
// optimizer as PyTorch issues them, sizes mixed, on the heap that PyTorch's allocations come from.
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "heap/device_heap.h"
#include "platform/cuda/cuda_world.h"
#include "policy/registry.h"

namespace spillway::cuda {
namespace {

constexpr Bytes kWidth = 384;
constexpr Bytes kTokens = 2048;
constexpr Bytes kHeads = 6;
constexpr Bytes kLength = 512;
constexpr Bytes kVocabulary = 4096;
constexpr Bytes kFloat = 4;
constexpr unsigned kLayers = 6;

class TrainingStep : public CudaWorld, public ::testing::WithParamInterface<const char*> {
 protected:
  TrainingStep() {
    config.device_bytes = 4 * kGiB;
    config.poison_handles = 0;
    config.launch_ns = 50'000;
    options.host_bytes = 2 * kGiB;
    options.block_bytes = CudaOptions{}.block_bytes;
    options.pinned_piece_bytes = 64 * kMiB;
    options.address_bytes = 256 * kGiB;
  }

  // As a tensor: freed when nobody has it any more.
  struct Tensor {
    TrainingStep* in;
    std::uint64_t address;
    Bytes bytes;
    Tensor(TrainingStep* owner, std::uint64_t at, Bytes size)
        : in(owner), address(at), bytes(size) {}
    Tensor(const Tensor&) = delete;
    Tensor& operator=(const Tensor&) = delete;
    ~Tensor() { in->release(*this); }
  };
  using Held = std::shared_ptr<Tensor>;

  Held make(Bytes bytes) {
    const Result<std::uint64_t> address = heap->allocate(bytes, on);
    EXPECT_TRUE(address) << address.error().message;
    return std::make_shared<Tensor>(this, address.value_or(0), bytes);
  }
  void release(const Tensor& tensor) { EXPECT_TRUE(heap->free(tensor.address, on)); }
  // A kernel on all of these. It writes a little of the first.
  void kernel(std::string_view name, const std::vector<Held>& tensors) {
    std::vector<CudaOperand> operands;
    operands.reserve(tensors.size());
    for (const Held& it : tensors) {
      operands.push_back({.address = it->address, .bytes = it->bytes});
    }
    EXPECT_EQ(issue(on, operands, name, false,
                    [&] { return launch(test::kernels().fill, on, tensors[0]->address, 8, 1); }),
              CuResult::kSuccess);
  }
  Held computed(std::string_view name, Bytes bytes, std::vector<Held> from) {
    Held made = make(bytes);
    from.insert(from.begin(), made);
    kernel(name, from);
    return made;
  }

  struct Parameter {
    Held value, first, second, gradient;
  };
  struct Saved {
    std::vector<Held> tensors;
  };

  void build() {
    const auto add = [this](Bytes bytes) {
      parameters.push_back(
          {.value = make(bytes), .first = nullptr, .second = nullptr, .gradient = nullptr});
      kernel("initialize", {parameters.back().value});
    };
    add(kVocabulary * kWidth * kFloat);
    for (unsigned i = 0; i < kLayers; ++i) {
      for (const Bytes columns : {Bytes{3}, Bytes{1}, Bytes{4}, Bytes{4}}) {
        add(columns * kWidth * kWidth * kFloat);
        add(columns * kWidth * kFloat);
      }
      add(kWidth * kFloat);
      add(kWidth * kFloat);
    }
    add(kVocabulary * kWidth * kFloat);
  }

  void step() {
    const Bytes row = kTokens * kWidth * kFloat;
    const Bytes scores = kTokens * kHeads * kLength * kFloat;
    std::vector<Saved> saved(kLayers);
    Held x = computed("embed", row, {parameters[0].value});
    std::size_t next = 1;
    for (Saved& layer : saved) {
      const Parameter* const p = &parameters[next];
      Held normed = computed("norm", row, {x, p[8].value});
      Held qkv = computed("qkv", 3 * row, {normed, p[0].value, p[1].value});
      Held q = computed("split", row, {qkv});
      Held k = computed("split", row, {qkv});
      Held v = computed("split", row, {qkv});
      qkv.reset();
      Held s = computed("scores", scores, {q, k});
      Held scaled = computed("scale", scores, {s});
      s.reset();
      Held masked = computed("mask", scores, {scaled});
      scaled.reset();
      Held soft = computed("softmax", scores, {masked});
      masked.reset();
      Held a = computed("attend", row, {soft, v});
      Held merged = computed("merge", row, {a});
      a.reset();
      Held out = computed("out", row, {merged, p[2].value, p[3].value});
      Held mid = computed("add", row, {x, out});
      out.reset();
      Held second = computed("norm", row, {mid, p[9].value});
      Held up = computed("up", 4 * row, {second, p[4].value, p[5].value});
      Held gelu = computed("gelu", 4 * row, {up});
      Held down = computed("down", row, {gelu, p[6].value, p[7].value});
      Held end = computed("add", row, {mid, down});
      layer.tensors = {x, normed, q, k, v, soft, merged, mid, second, up, gelu};
      x = end;
      next += 10;
    }
    Held logits = computed("head", kTokens * kVocabulary * kFloat, {x, parameters[next].value});
    Held logs = computed("log_softmax", kTokens * kVocabulary * kFloat, {logits});
    Held loss = computed("loss", 4, {logs});
    Held d_logs = computed("d_loss", kTokens * kVocabulary * kFloat, {loss});
    Held d_logits = computed("d_log_softmax", kTokens * kVocabulary * kFloat, {d_logs, logs});
    logits.reset();
    d_logs.reset();
    logs.reset();
    const auto gradient = [this](Parameter& p, std::vector<Held> from) {
      p.gradient = computed("gradient", p.value->bytes, std::move(from));
    };
    gradient(parameters[next], {d_logits, x});
    Held d = computed("d_head", row, {d_logits, parameters[next].value});
    d_logits.reset();
    x.reset();
    while (!saved.empty()) {
      next -= 10;
      Parameter* const p = &parameters[next];
      const std::vector<Held>& t = saved.back().tensors;
      Held d_gelu = computed("d_down", 4 * row, {d, p[6].value});
      gradient(p[6], {d, t[10]});
      gradient(p[7], {d});
      Held d_up = computed("d_gelu", 4 * row, {d_gelu, t[9]});
      d_gelu.reset();
      Held d_second = computed("d_up", row, {d_up, p[4].value});
      gradient(p[4], {d_up, t[8]});
      gradient(p[5], {d_up});
      d_up.reset();
      Held d_mid = computed("d_norm", row, {d_second, t[7]});
      gradient(p[9], {d_second});
      d_second.reset();
      Held sum = computed("add", row, {d, d_mid});
      d_mid.reset();
      d = sum;
      sum.reset();
      Held d_merged = computed("d_out", row, {d, p[2].value});
      gradient(p[2], {d, t[6]});
      gradient(p[3], {d});
      Held d_soft = computed("d_attend", scores, {d_merged, t[4]});
      Held d_v = computed("d_attend", row, {d_merged, t[5]});
      d_merged.reset();
      Held d_masked = computed("d_softmax", scores, {d_soft, t[5]});
      d_soft.reset();
      Held d_scaled = computed("d_mask", scores, {d_masked});
      d_masked.reset();
      Held d_scores = computed("d_scale", scores, {d_scaled});
      d_scaled.reset();
      Held d_q = computed("d_scores", row, {d_scores, t[3]});
      Held d_k = computed("d_scores", row, {d_scores, t[2]});
      d_scores.reset();
      Held d_qkv = computed("cat", 3 * row, {d_q, d_k, d_v});
      d_q.reset();
      d_k.reset();
      d_v.reset();
      Held d_normed = computed("d_qkv", row, {d_qkv, p[0].value});
      gradient(p[0], {d_qkv, t[1]});
      gradient(p[1], {d_qkv});
      d_qkv.reset();
      Held d_x = computed("d_norm", row, {d_normed, t[0]});
      gradient(p[8], {d_normed});
      d_normed.reset();
      Held total = computed("add", row, {d, d_x});
      d_x.reset();
      d = total;
      total.reset();
      saved.pop_back();
    }
    gradient(parameters[0], {d});
    d.reset();
    optimize();
  }

  // One kernel for some of them.
  void optimize() {
    constexpr std::size_t kTogether = 12;
    for (Parameter& p : parameters) {
      if (p.first == nullptr) {
        p.first = computed("zeros", p.value->bytes, {});
        p.second = computed("zeros", p.value->bytes, {});
      }
    }
    for (std::size_t i = 0; i < parameters.size(); i += kTogether) {
      std::vector<Held> used;
      for (std::size_t j = i; j < std::min(i + kTogether, parameters.size()); ++j) {
        const Parameter& p = parameters[j];
        used.insert(used.end(), {p.value, p.gradient, p.first, p.second});
      }
      kernel("adamw", used);
    }
    for (Parameter& p : parameters) {
      p.gradient.reset();
    }
  }

  // Launches behind a stream wait, from this line of the driver's log on.
  static std::size_t gates(std::size_t from) { return calls("cuStreamWaitValue64", from); }

  void run(Policy& steered_by, Bytes budget_bytes, int steps) {
    options.device_bytes = budget_bytes / kBlockBytes * kBlockBytes;
    open(steered_by);
    on = stream();
    heap = std::make_unique<DeviceHeap>(*platform);
    build();
    for (int i = 0; i < steps; ++i) {
      const std::size_t before = fake_cuda_log_lines();
      const FakeCudaCounters seen = counters();
      step();
      synchronize(on);
      gates_of_last_step = gates(before);
      maps_of_last_step = counters().maps - seen.maps;
    }
    parameters.clear();
    synchronize(on);
  }

  std::unique_ptr<Policy> policy;  // outlives the platform, which the world ends
  CuStream on = nullptr;
  std::size_t gates_of_last_step = 0;
  std::uint64_t maps_of_last_step = 0;
  std::unique_ptr<DeviceHeap> heap;
  std::vector<Parameter> parameters;
};

std::unique_ptr<Policy> made(const char* name) {
  const PolicyInfo& info = **find_policy(name);
  return std::move(*(info.make_with_queue != nullptr ? info.make_with_queue : info.make)(
      Trace{}, Machine{}, PolicyOptions{}));
}

// What the heap has at its highest is what the program has asked for, rounded up. A twentieth more
// than that holds what small allocations share.
TEST_P(TrainingStep, NothingMovesWhenWhatIsAliveFits) {
  policy = made(GetParam());
  constexpr Bytes kHeapHighBytes = 833 * kMiB;
  run(*policy, kHeapHighBytes / 20 * 21, 4);
  EXPECT_LE(heap->usage().used_high_bytes, kHeapHighBytes);
  EXPECT_EQ(moved(Tier::kHost, Tier::kDevice), 0U);
  whole();
  heap.reset();
}

TEST_P(TrainingStep, LittleMovesWhenNearlyAllFits) {
  policy = made(GetParam());
  run(*policy, 810 * kMiB, 4);
  // Each step lacks less than 40 MiB for a moment.
  EXPECT_LE(moved(Tier::kHost, Tier::kDevice), Bytes{4} * 80 * kMiB);
  whole();
  heap.reset();
}

// A stream wait costs the program's thread two calls, and the device a wait for ours.
TEST_P(TrainingStep, NothingIsGatedWhereMoreThanEnoughFits) {
  policy = made(GetParam());
  config.log_calls = 1;
  run(*policy, 833 * kMiB * 4 / 3, 3);
  EXPECT_EQ(gates_of_last_step, 0U);
  whole();
  heap.reset();
}

// Nor where the heap keeps more than that of what is dead: frames go to blocks of their own size.
TEST_P(TrainingStep, NothingIsGatedOrMappedWhereEnoughFits) {
  policy = made(GetParam());
  config.log_calls = 1;
  run(*policy, 833 * kMiB * 6 / 5, 4);
  EXPECT_EQ(gates_of_last_step, 0U);
  EXPECT_EQ(maps_of_last_step, 0U);
  whole();
  heap.reset();
}

// Where what is dead of each size and what is alive do not fit together, but what is alive has much
// room: after a few steps everything finds memory of its size, or larger, that is dead, and nobody
// has to be told of launches.
TEST_P(TrainingStep, NobodyIsToldWhereWhatIsKeptDoesNotFit) {
  policy = made(GetParam());
  options.device_bytes = 160 * kMiB;
  options.bypass_after = 4;
  options.bypass_after_at_most = 16;
  open(*policy);
  on = stream();
  heap = std::make_unique<DeviceHeap>(*platform);
  Held kept = computed("parameter", 48 * kMiB, {});
  std::vector<std::uint64_t> told;
  std::vector<std::uint64_t> mapped;
  for (int i = 0; i < 60; ++i) {
    const std::uint64_t told_before =
        platform->stats().engine.launches - platform->bypass().bypassed_calls();
    const std::uint64_t maps = counters().maps;
    for (const Bytes bytes : {16 * kMiB, 12 * kMiB, 20 * kMiB, 24 * kMiB, 10 * kMiB, 18 * kMiB}) {
      const Held temporary = make(bytes);
      kernel("one of many sizes", {temporary, kept});
      const Held beside = make(bytes / 2);
      kernel("beside it", {beside, temporary});
    }
    synchronize(on);
    told.push_back(platform->stats().engine.launches - platform->bypass().bypassed_calls() -
                   told_before);
    mapped.push_back(counters().maps - maps);
  }
  told.erase(told.begin(), told.end() - 10);
  mapped.erase(mapped.begin(), mapped.end() - 10);
  EXPECT_THAT(told, ::testing::Each(0U));
  EXPECT_THAT(mapped, ::testing::Each(0U));
  EXPECT_LE(heap->usage().used_high_bytes, 84 * kMiB);
  EXPECT_EQ(moved(Tier::kDevice, Tier::kHost), 0U);
  whole();
  kept.reset();
  heap.reset();
}

// Two that are never alive together, of sizes that share no addresses: in the first steps the one
// has the other's memory, and from then on both are mapped there.
TEST_P(TrainingStep, WhatIsNeverAliveTogetherStaysMappedAtTheSameMemory) {
  policy = made(GetParam());
  config.log_calls = 1;
  options.device_bytes = 160 * kMiB;
  open(*policy);
  on = stream();
  heap = std::make_unique<DeviceHeap>(*platform);
  std::vector<std::size_t> gated;
  std::vector<std::uint64_t> mapped;
  for (int i = 0; i < 4; ++i) {
    const std::size_t before = fake_cuda_log_lines();
    const std::uint64_t maps = counters().maps;
    computed("one of two blocks", 128 * kMiB, {});
    synchronize(on);  // until it has run it is not dead
    const Held first = computed("one of a block", 64 * kMiB, {});
    computed("another of a block", 64 * kMiB, {first});
    synchronize(on);
    gated.push_back(gates(before));
    mapped.push_back(counters().maps - maps);
  }
  EXPECT_THAT(gated, ::testing::ElementsAre(::testing::_, ::testing::_, 0U, 0U));
  EXPECT_THAT(mapped, ::testing::ElementsAre(4U, ::testing::Le(1U), 0U, 0U));
  EXPECT_LE(counters().peak_handle_bytes, 160 * kMiB);
  whole();
  heap.reset();
}

INSTANTIATE_TEST_SUITE_P(Policies, TrainingStep, ::testing::Values("base_uvm", "lookahead"),
                         [](const auto& it) { return std::string(it.param); });

}  // namespace
}  // namespace spillway::cuda
