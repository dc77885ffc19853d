// See graphs.h.
#include "graphs.h"

#include <array>
#include <memory>

namespace spillway::cuda::test {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kBytes = 4 * kMiB;

CuCopy3d::Side side_of(const Buffer& buffer) {
  CuCopy3d::Side side{};
  side.type = CuMemoryType::kDevice;
  side.device = buffer.address;
  return side;
}

CuCopy3d copy_of(const Buffer& to, const Buffer& from) {
  CuCopy3d copy{};
  copy.from = side_of(from);
  copy.to = side_of(to);
  copy.width_bytes = 8 * to.words;
  copy.height = 1;
  copy.depth = 1;
  return copy;
}

CuMemsetNode memset_of(const Buffer& to, unsigned value) {
  return {.to = to.address,
          .pitch_bytes = 0,
          .value = value,
          .element_bytes = 1,
          .width = 8 * to.words,
          .height = 1};
}

// A kernel with its parameters, as long as this lives.
struct AddNode {
  AddNode(const Device& device, const Buffer& to, const Buffer& from)
      : words{to.address, from.address, to.words},
        parameters{&words[0], &words[1], &words[2]},
        node{.launch = {.function = device.add_kernel(),
                        .grid_x = 1,
                        .grid_y = 1,
                        .grid_z = 1,
                        .block_x = 1,
                        .block_y = 1,
                        .block_z = 1,
                        .shared_bytes = 0,
                        .parameters = parameters.data(),
                        .extra = nullptr},
             .kernel = nullptr,
             .context = nullptr} {}
  AddNode(const AddNode&) = delete;
  AddNode& operator=(const AddNode&) = delete;
  std::array<std::uint64_t, 3> words;
  std::array<void*, 3> parameters;
  CuKernelNode node;
};

// A graph to which nodes are added one behind the other.
class Graph {
 public:
  explicit Graph(const Device& device) : device_(device) {
    device.expect(device.calls.cuGraphCreate(&graph, 0), "cuGraphCreate");
  }
  CuGraphNode add(const CuCopy3d& copy) {
    device_.expect(device_.calls.cuGraphAddMemcpyNode(&node_, graph, before(), count_++, &copy,
                                                      device_.context()),
                   "cuGraphAddMemcpyNode");
    return node_;
  }
  CuGraphNode add(const CuMemsetNode& set) {
    device_.expect(device_.calls.cuGraphAddMemsetNode(&node_, graph, before(), count_++, &set,
                                                      device_.context()),
                   "cuGraphAddMemsetNode");
    return node_;
  }
  CuGraphNode add(const AddNode& kernel) {
    device_.expect(
        device_.calls.cuGraphAddKernelNode_v2(&node_, graph, before(), count_++, &kernel.node),
        "cuGraphAddKernelNode");
    return node_;
  }
  CuGraphNode add(const CuHostNode& host) {
    device_.expect(device_.calls.cuGraphAddHostNode(&node_, graph, before(), count_++, &host),
                   "cuGraphAddHostNode");
    return node_;
  }
  CuGraphNode add(CuGraph child) {
    device_.expect(device_.calls.cuGraphAddChildGraphNode(&node_, graph, before(), count_++, child),
                   "cuGraphAddChildGraphNode");
    return node_;
  }
  CuGraphNode add(CuNodeParams& any) {
    device_.expect(
        device_.calls.cuGraphAddNode_v2(&node_, graph, before(), nullptr, count_++, &any),
        "cuGraphAddNode");
    return node_;
  }
  [[nodiscard]] CuGraphExec executable() const {
    CuGraphExec exec = nullptr;
    device_.expect(device_.calls.cuGraphInstantiateWithFlags(&exec, graph, 0),
                   "cuGraphInstantiate");
    return exec;
  }

  CuGraph graph = nullptr;

 private:
  const CuGraphNode* before() const { return count_ == 0 ? nullptr : &node_; }

  const Device& device_;
  CuGraphNode node_ = nullptr;
  std::size_t count_ = 0;
};

// Buffers with patterns, and others that leave them no place on the device.
class Memory {
 public:
  Memory(const Device& device, CuStream stream, std::size_t count)
      : device_(device), stream_(stream) {
    for (std::uint64_t i = 0; i < count; ++i) {
      buffers.push_back(device.allocate(kBytes, stream));
      device.fill(buffers.back(), i, stream);
    }
    for (std::uint64_t i = 0; i < 5; ++i) {
      others_.push_back(device.allocate(kBytes, stream));
      device.fill(others_.back(), 100 + i, stream);
    }
    push_out();
  }
  void push_out() {
    for (Buffer& other : others_) {
      device_.check(other, stream_);
    }
    device_.synchronize(stream_);
  }
  // Each word is this one, or a pattern's and so often another's.
  void require(std::size_t buffer, std::uint64_t seed, std::uint64_t times = 0,
               std::uint64_t other_seed = 0) const {
    const std::vector<std::uint64_t> words = device_.words_of(buffers[buffer]);
    for (std::uint64_t i = 0; i < words.size(); ++i) {
      device_.require(words[i] == pattern(seed, i) + times * pattern(other_seed, i),
                      "a word of a graph's");
    }
  }
  void require_set(std::size_t buffer, unsigned char value) const {
    for (const std::uint64_t word : device_.words_of(buffers[buffer])) {
      device_.require(word == 0x0101010101010101ULL * value, "a word that a graph has set");
    }
  }
  std::vector<Buffer> buffers;

 private:
  const Device& device_;
  CuStream stream_;
  std::vector<Buffer> others_;
};

void launch(const Device& device, CuGraphExec exec, CuStream stream) {
  device.expect(device.calls.cuGraphLaunch(exec, stream), "cuGraphLaunch");
  device.synchronize(stream);
}

}  // namespace

void graphs_by_hand(const Device& device) {
  const CuStream stream = device.stream();
  Memory memory(device, stream, 8);
  const std::vector<Buffer>& at = memory.buffers;
  Graph child(device);
  CuNodeParams any{};
  any.type = CuNodeType::kMemset;
  any.set = memset_of(at[0], 1);
  child.add(any);
  Graph graph(device);
  const CuGraphNode within = graph.add(child.graph);
  memory.push_out();
  const CuGraphNode copy = graph.add(copy_of(at[1], at[2]));
  memory.push_out();
  const CuGraphNode set = graph.add(memset_of(at[3], 7));
  memory.push_out();
  any = {};
  any.type = CuNodeType::kCopy;
  any.copy.copy = copy_of(at[4], at[2]);
  const CuGraphNode other_copy = graph.add(any);
  const AddNode sum(device, at[5], at[2]);
  const CuGraphNode kernel = graph.add(sum);
  memory.push_out();
  const CuGraphExec exec = graph.executable();
  for (int round = 0; round < 2; ++round) {
    memory.push_out();
    launch(device, exec, stream);
  }
  memory.require_set(0, 1);
  memory.require(1, 2);
  memory.require_set(3, 7);
  memory.require(4, 2);
  memory.require(5, 5, 2, 2);
  // Other memory for each, of which nothing is on the device.
  memory.push_out();
  const CuCopy3d new_copy = copy_of(at[6], at[2]);
  device.expect(
      device.calls.cuGraphExecMemcpyNodeSetParams(exec, copy, &new_copy, device.context()),
      "cuGraphExecMemcpyNodeSetParams");
  memory.push_out();
  const CuMemsetNode new_set = memset_of(at[7], 9);
  device.expect(device.calls.cuGraphExecMemsetNodeSetParams(exec, set, &new_set, device.context()),
                "cuGraphExecMemsetNodeSetParams");
  memory.push_out();
  any = {};
  any.type = CuNodeType::kCopy;
  any.copy.copy = copy_of(at[3], at[2]);
  device.expect(device.calls.cuGraphExecNodeSetParams(exec, other_copy, &any),
                "cuGraphExecNodeSetParams");
  const AddNode new_sum(device, at[1], at[2]);
  device.expect(device.calls.cuGraphExecKernelNodeSetParams_v2(exec, kernel, &new_sum.node),
                "cuGraphExecKernelNodeSetParams");
  memory.push_out();
  Graph new_child(device);
  new_child.add(memset_of(at[0], 3));
  device.expect(device.calls.cuGraphExecChildGraphNodeSetParams(exec, within, new_child.graph),
                "cuGraphExecChildGraphNodeSetParams");
  memory.push_out();
  launch(device, exec, stream);
  memory.require_set(0, 3);
  memory.require(6, 2);
  memory.require_set(7, 9);
  memory.require(3, 2);
  memory.require(1, 2, 1, 2);
  memory.require(4, 2);
  // The graph itself is changed, and the executable one becomes what it is.
  memory.push_out();
  const CuCopy3d last_copy = copy_of(at[4], at[7]);
  device.expect(device.calls.cuGraphMemcpyNodeSetParams(copy, &last_copy),
                "cuGraphMemcpyNodeSetParams");
  CuGraph clone = nullptr;
  device.expect(device.calls.cuGraphClone(&clone, graph.graph), "cuGraphClone");
  memory.push_out();
  std::array<std::uint64_t, 4> told{};
  device.expect(device.calls.cuGraphExecUpdate_v2(exec, clone, told.data()), "cuGraphExecUpdate");
  memory.push_out();
  any = {};
  any.type = CuNodeType::kMemset;
  any.set = memset_of(at[3], 7);
  device.expect(device.calls.cuGraphExecNodeSetParams(exec, other_copy, &any),
                "cuGraphExecNodeSetParams");
  launch(device, exec, stream);
  memory.require_set(4, 9);
  memory.require_set(3, 7);
  memory.require(5, 5, 3, 2);
}

void disabled_nodes(const Device& device) {
  const CuStream stream = device.stream();
  Memory memory(device, stream, 6);
  const std::vector<Buffer>& at = memory.buffers;
  Graph graph(device);
  const AddNode sum(device, at[0], at[1]);
  const AddNode other_sum(device, at[2], at[3]);
  const CuGraphNode first = graph.add(sum);
  const CuGraphNode second = graph.add(other_sum);
  const CuGraphNode set = graph.add(memset_of(at[4], 5));
  const CuGraphExec exec = graph.executable();
  const auto enable = [&](CuGraphNode node, bool enabled) {
    device.expect(device.calls.cuGraphNodeSetEnabled(exec, node, enabled ? 1 : 0),
                  "cuGraphNodeSetEnabled");
  };
  enable(set, false);
  enable(second, false);
  for (int round = 0; round < 3; ++round) {
    memory.push_out();
    launch(device, exec, stream);
  }
  enable(first, false);
  enable(second, true);
  memory.push_out();
  launch(device, exec, stream);
  // Given other memory, it stays what it is.
  const CuMemsetNode other_set = memset_of(at[5], 6);
  device.expect(
      device.calls.cuGraphExecMemsetNodeSetParams(exec, set, &other_set, device.context()),
      "cuGraphExecMemsetNodeSetParams");
  launch(device, exec, stream);
  memory.require(0, 0, 3, 1);
  memory.require(2, 2, 2, 3);
  memory.require(4, 4);
  memory.require(5, 5);
  enable(second, false);
  enable(set, true);
  memory.push_out();
  launch(device, exec, stream);
  memory.require(4, 4);
  memory.require_set(5, 6);
}

void conditional_graphs(const Device& device) {
  const CuStream stream = device.stream();
  Memory memory(device, stream, 4);
  const std::vector<Buffer>& at = memory.buffers;
  Graph graph(device);
  CuNodeParams any{};
  any.type = CuNodeType::kConditional;
  any.conditional.count = 1;
  graph.add(any);
  Graph body(device);
  body.graph = any.conditional.graphs[0];
  body.add(copy_of(at[0], at[1]));
  memory.push_out();
  const AddNode sum(device, at[0], at[2]);
  body.add(sum);
  memory.push_out();
  const CuGraphExec exec = graph.executable();
  memory.push_out();
  launch(device, exec, stream);
  memory.require(0, 1, 1, 2);
  memory.require(3, 3);
}

namespace {

CuCopy3d::Side host_side(const std::vector<std::uint64_t>& words) {
  CuCopy3d::Side side{};
  side.type = CuMemoryType::kHost;
  side.host = words.data();
  return side;
}

void double_words(void* argument) {
  for (std::uint64_t& word : *static_cast<std::vector<std::uint64_t>*>(argument)) {
    word *= 2;
  }
}

void leave_words(void* /*argument*/) {}

}  // namespace

void large_graphs(const Device& device) {
  constexpr std::size_t kSums = 5;
  const CuStream stream = device.stream();
  const CuStream other_stream = device.stream();
  Memory memory(device, stream, 2 * kSums + 2);
  const std::vector<Buffer>& at = memory.buffers;
  const Buffer& doubled = at[2 * kSums];
  const Buffer& set = at[2 * kSums + 1];
  // Each sum is of two buffers; one is read by the host, which doubles it in pageable memory, from
  // where it is copied again.
  std::vector<std::uint64_t> on_host(doubled.words);
  Graph child(device);
  child.add(memset_of(set, 3));
  Graph graph(device);
  std::vector<std::unique_ptr<AddNode>> sums;
  std::vector<CuGraphNode> nodes;
  for (std::size_t i = 0; i < kSums; ++i) {
    sums.push_back(std::make_unique<AddNode>(device, at[i], at[kSums + i]));
    nodes.push_back(graph.add(*sums.back()));
  }
  CuCopy3d copy = copy_of(doubled, at[0]);
  copy.to = host_side(on_host);
  graph.add(copy);
  const CuGraphNode host = graph.add(CuHostNode{.function = double_words, .argument = &on_host});
  copy = copy_of(doubled, at[0]);
  copy.from = host_side(on_host);
  graph.add(copy);
  graph.add(child.graph);
  const CuGraphExec exec = graph.executable();
  device.expect(device.calls.cuGraphDestroy(graph.graph), "cuGraphDestroy");
  const auto start = [&](CuStream on) {
    device.expect(device.calls.cuGraphLaunch(exec, on), "cuGraphLaunch");
  };
  // One after the other, although nothing but the graph itself orders the streams.
  for (int round = 0; round < 2; ++round) {
    start(stream);
    start(other_stream);
  }
  device.synchronize(other_stream);
  for (std::size_t i = 0; i < kSums; ++i) {
    memory.require(i, i, 4, kSums + i);
  }
  const std::vector<std::uint64_t> twice = device.words_of(doubled);
  for (std::uint64_t i = 0; i < twice.size(); ++i) {
    device.require(twice[i] == 2 * (pattern(0, i) + 4 * pattern(kSums, i)), "a doubled word");
  }
  memory.require_set(2 * kSums + 1, 3);
  // Other parameters, and a node that does not run.
  const AddNode other_sum(device, at[1], at[kSums]);
  device.expect(device.calls.cuGraphExecKernelNodeSetParams_v2(exec, nodes[1], &other_sum.node),
                "cuGraphExecKernelNodeSetParams");
  const CuHostNode other_host{.function = leave_words, .argument = nullptr};
  device.expect(device.calls.cuGraphExecHostNodeSetParams(exec, host, &other_host),
                "cuGraphExecHostNodeSetParams");
  device.expect(device.calls.cuGraphNodeSetEnabled(exec, nodes[2], 0), "cuGraphNodeSetEnabled");
  start(stream);
  device.synchronize(stream);
  memory.require(0, 0, 5, kSums);
  memory.require(2, 2, 4, kSums + 2);
  memory.require(3, 3, 5, kSums + 3);
  const std::vector<std::uint64_t> once = device.words_of(doubled);
  const std::vector<std::uint64_t> added = device.words_of(at[1]);
  for (std::uint64_t i = 0; i < once.size(); ++i) {
    device.require(once[i] == pattern(0, i) + 5 * pattern(kSums, i), "a word as it was read");
    device.require(added[i] == pattern(1, i) + 4 * pattern(kSums + 1, i) + pattern(kSums, i),
                   "a word of a node with other parameters");
  }
  device.expect(device.calls.cuGraphExecDestroy(exec), "cuGraphExecDestroy");
}

}  // namespace spillway::cuda::test
