// See random_worker.h: what is done.
#include "random_worker.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

namespace spillway::cuda::test {
namespace {

constexpr std::uint64_t kStepsOfThread = 1'000'000;

CuAddress address_of(const void* memory) { return reinterpret_cast<CuAddress>(memory); }

}  // namespace

void Worker::fail(const std::string& what) const {
  std::printf("random %llu: wrong: %s, in step %zu of thread %zu\n",
              static_cast<unsigned long long>(common_.seed), what.c_str(), history_.size(),
              number_);
  std::fflush(stdout);
  std::_Exit(4);
}

void Worker::expect(CuResult result, const char* call, CuResult expected) const {
  if (result != expected) {
    fail(std::string(call) + " gave " + std::to_string(static_cast<unsigned>(result)) +
         " instead of " + std::to_string(static_cast<unsigned>(expected)));
  }
}

std::string Worker::who(const std::string& what) const {
  return what + " in step " + std::to_string(history_.size());
}

void Worker::trace(const std::string& what) const {
  if (common_.trace) {
    std::fprintf(stderr, "%zu.%zu %s\n", number_, history_.size(), what.c_str());
  }
}

void Worker::prepare(Op& op, std::vector<Blocks::Used>* used) {
  for (const Blocks::Used& it : blocks_.used_by(op).value_or(std::vector<Blocks::Used>())) {
    if (!it.block->shared) {
      used->push_back(it);
    }
  }
  blocks_.apply(op, who(words_of(op)));
}

void Worker::put(Op op, std::size_t lane) {
  trace(words_of(op) + " on " + std::to_string(lane));
  if (!history_.empty()) {
    history_.back() += words_of(op) + "; ";
  }
  std::vector<Blocks::Used> used;
  prepare(op, &used);
  for (const Blocks::Used& it : used) {
    lanes_.before(lane, it.block->use, it.writes);
  }
  lanes_.count_one(lane);
  if (op.landing != nullptr) {
    op.landing->pending = true;
    op.landing->stream = lane;
    op.landing->number = lanes_.issued(lane);
  }
  issue(op, lanes_.stream(lane));
  for (const Blocks::Used& it : used) {
    lanes_.after(lane, it.block->use, it.writes);
  }
}

void Worker::issue(Op& op, CuStream stream) {
  const Calls& calls = device_.calls;
  const LaunchWay how{.stream = stream, .way = op.way % 3, .refused = false};
  const CuAddress to = op.to == nullptr ? 0 : op.to->address + op.to_at;
  const CuAddress a = op.a == nullptr ? 0 : op.a->address + op.a_at;
  const CuAddress b = op.b == nullptr ? 0 : op.b->address + op.b_at;
  const std::uint64_t words = op.bytes / 8;
  const bool unified = op.way % 2 == 1;
  const RandomKernels& kernels = common_.kernels;
  switch (op.kind) {
    case Op::Kind::kFill:
      return expect(kernels.fill(how, to, words, op.key), "a launch");
    case Op::Kind::kMix:
      return expect(kernels.mix(how, to, a, b, words, op.key), "a launch");
    case Op::Kind::kPointwise:
      return expect(kernels.pointwise(how, to, a, b, words), "a launch");
    case Op::Kind::kListed:
      return expect(kernels.listed(how, a, op.count, words, op.key), "a launch");
    case Op::Kind::kNested:
      return expect(kernels.nested(how, a, op.count, op.inner, words, op.key), "a launch");
    case Op::Kind::kCheck:
      return expect(
          kernels.check(how, a, words, op.digest, kStepsOfThread * number_ + history_.size()),
          "a launch");
    case Op::Kind::kCopyIn: {
      const void* const from = op.pinned != nullptr ? op.pinned : op.data.data();
      expect(unified ? calls.cuMemcpyAsync(to, address_of(from), op.bytes, stream)
                     : calls.cuMemcpyHtoDAsync_v2(to, from, op.bytes, stream),
             "a copy in");
      // What is pageable has been taken.
      std::fill(op.data.begin(), op.data.end(), char{0x5a});
      return;
    }
    case Op::Kind::kCopyWithin:
      return expect(unified ? calls.cuMemcpyAsync(to, a, op.bytes, stream)
                            : calls.cuMemcpyDtoDAsync_v2(to, a, op.bytes, stream),
                    "a copy within");
    case Op::Kind::kCopyOut:
      return expect(unified
                        ? calls.cuMemcpyAsync(address_of(op.landing->memory), a, op.bytes, stream)
                        : calls.cuMemcpyDtoHAsync_v2(op.landing->memory, a, op.bytes, stream),
                    "a copy out");
    case Op::Kind::kSet:
      return expect(calls.cuMemsetD8Async(to, static_cast<unsigned char>(op.key), op.bytes, stream),
                    "a memset");
  }
}

void Worker::require_checks() const {
  const std::uint64_t failed = RandomKernels::failed_step();
  if (failed != 0 && failed / kStepsOfThread == number_) {
    fail("a kernel found other words: " + history_[failed % kStepsOfThread - 1]);
  }
}

void Worker::require_landings() {
  for (Landing& it : landings_) {
    if (!it.pending || !lanes_.has_ended(it.stream, it.number)) {
      continue;
    }
    it.pending = false;
    const auto [found, expected] =
        std::mismatch(it.memory, it.memory + it.expected.size(), it.expected.begin());
    if (expected != it.expected.end()) {
      const auto wrong = std::inner_product(
          it.expected.begin(), it.expected.end(), it.memory, std::size_t{0}, std::plus<>(),
          [](char x, char y) { return x == y ? std::size_t{0} : std::size_t{1}; });
      fail(it.what + ": byte " + std::to_string(found - it.memory) + " and " +
           std::to_string(wrong) + " in all");
    }
    it.taken = it.of_graph;
  }
}

void Worker::synchronize(std::size_t lane) {
  lanes_.synchronize(lane);
  require_checks();
  require_landings();
}

void Worker::synchronize_all() {
  lanes_.synchronize_all();
  require_checks();
  require_landings();
}

Landing* Worker::landing(bool of_graph) {
  constexpr auto kMostOfGraphs = 2;
  if (of_graph && std::count_if(landings_.begin(), landings_.end(),
                                [](const Landing& it) { return it.of_graph; }) >= kMostOfGraphs) {
    return nullptr;
  }
  for (int round = 0; round < 2; ++round) {
    for (Landing& it : landings_) {
      if (!it.taken) {
        it.taken = true;
        it.of_graph = of_graph;
        return &it;
      }
    }
    synchronize_all();
  }
  return nullptr;
}

Block* Worker::allocate(std::uint64_t bytes, Block::Holds holds) {
  auto made = std::make_unique<Block>();
  made->bytes.resize(bytes);
  made->holds = holds;
  const std::size_t lane = any_lane();
  if (dice_.chance(80)) {
    expect(device_.calls.cuMemAllocAsync(&made->address, bytes, lanes_.stream(lane)),
           "cuMemAllocAsync");
    lanes_.count_one(lane);
    lanes_.after(lane, made->use, true);
  } else {
    expect(device_.calls.cuMemAlloc_v2(&made->address, bytes), "cuMemAlloc");
    made->of_context = true;
  }
  trace("allocate " + std::to_string(bytes));
  return blocks_.add(std::move(made));
}

bool Worker::uses(const std::vector<Op>& ops, const Block* block) const {
  return std::any_of(ops.begin(), ops.end(), [block](const Op& op) {
    return op.to == block || op.a == block || op.b == block;
  });
}

void Worker::free(Block* block) {
  for (auto graph = graphs_.begin(); graph != graphs_.end();) {
    const auto next = std::next(graph);
    if (uses(graph->ops, block)) {
      destroy(graph);
    }
    graph = next;
  }
  if (dice_.chance(75)) {
    const std::size_t lane = any_lane();
    lanes_.before(lane, block->use, true);
    expect(device_.calls.cuMemFreeAsync(block->address, lanes_.stream(lane)), "cuMemFreeAsync");
  } else {
    if (!block->of_context) {
      lanes_.before_host(block->use, true);
      require_landings();
    }
    expect(device_.calls.cuMemFree_v2(block->address), "cuMemFree");
  }
  trace("free " + std::to_string(block->bytes.size()));
  blocks_.remove(block);
}

}  // namespace spillway::cuda::test
