// See graph_steps.h.
#include "interpose/cuda/graphs/graph_steps.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <variant>

#include "base/mutex.h"
#include "interpose/cuda/issue.h"
#include "interpose/cuda/operands/launch_operands.h"
#include "interpose/cuda/replay/stored_launch.h"

namespace spillway::cuda {
namespace {

std::atomic<std::uint64_t> forgotten{0};

class KernelStep final : public GraphStep {
 public:
  KernelStep(const LaunchShape& shape, const KernelLayout& kernel, const CuKernelNodeV1& node)
      : kernel_(kernel), launch_(shape, kernel, node.parameters, parameter_block(node.extra)) {}

  [[nodiscard]] bool prepare(const Session& /*session*/) const override { return true; }

  [[nodiscard]] CuResult issue(const Session& session, CuStream stream,
                               std::span<const CuLaunchAttribute> attributes) const override {
    Operands operands(session);
    launch_.with_parameters([&](void* const* singly, void* const* extra) {
      add_parameters(operands, kernel_, kernel_.addresses, singly, extra);
    });
    operands.add_what_is_everywhere();
    const auto call = [&] { return launch_.launch(stream, attributes); };
    const bool reaches = kernel_.addresses.reaches;
    if (operands.empty() && !(reaches && session.platform->launches().has_exposed())) {
      return call();
    }
    return spillway::cuda::issue(session,
                                 {.stream = stream,
                                  .hash = operands.hash(kernel_.hash),
                                  .kind = kernel_.hash.first,
                                  .name = kernel_.name,
                                  .operands = operands.all(),
                                  .needs_mapping = false,
                                  .sparse = kernel_.sparse,
                                  .exposes = exposes(kernel_.addresses),
                                  .reaches = reaches},
                                 call);
  }

 private:
  const KernelLayout& kernel_;
  StoredLaunch launch_;
};

// Anything else is a graph of one node: the driver does with it what it does in the program's, also
// where a call for the stream would do something else (a copy of pageable memory is taken when it
// is called).
class OneNodeStep final : public GraphStep {
 public:
  using Node = std::variant<CuCopy3d, CuMemsetNode, CuHostNode>;
  OneNodeStep(const char* name, const Node& node, std::span<const CudaOperand> operands,
              std::span<const CudaOperand> checked)
      : name_(name),
        node_(node),
        operands_(operands.begin(), operands.end()),
        checked_(checked.begin(), checked.end()) {}
  ~OneNodeStep() override {
    if (exec_ != nullptr && made_before_ == graph_handles_forgotten()) {
      (void)real().cuGraphExecDestroy(exec_);
    }
  }

  [[nodiscard]] bool prepare(const Session& session) const override {
    const MutexLock lock(mutex_);
    if (exec_ == nullptr) {
      made_before_ = graph_handles_forgotten();
      (void)with_memory(session, checked_, [&] { return make(); });
    }
    return exec_ != nullptr;
  }

  [[nodiscard]] CuResult issue(const Session& session, CuStream stream,
                               std::span<const CuLaunchAttribute> /*attributes*/) const override {
    const auto call = [exec = exec(), stream] { return real().cuGraphLaunch(exec, stream); };
    if (operands_.empty()) {
      return call();
    }
    return spillway::cuda::issue(session,
                                 {.stream = stream,
                                  .hash = hash_of(hash_launch(name_, {}), operands_),
                                  .name = name_,
                                  .operands = operands_,
                                  .needs_mapping = false},
                                 call);
  }

 private:
  [[nodiscard]] CuGraphExec exec() const {
    const MutexLock lock(mutex_);
    return exec_;
  }
  CuResult add(CuGraph graph, const CuCopy3d& copy, CuContext context) const {
    CuGraphNode node = nullptr;
    return real().cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, context);
  }
  CuResult add(CuGraph graph, const CuMemsetNode& set, CuContext context) const {
    CuGraphNode node = nullptr;
    return real().cuGraphAddMemsetNode(&node, graph, nullptr, 0, &set, context);
  }
  CuResult add(CuGraph graph, const CuHostNode& host, CuContext /*context*/) const {
    CuGraphNode node = nullptr;
    return real().cuGraphAddHostNode(&node, graph, nullptr, 0, &host);
  }
  CuResult make() const {
    CuContext context = nullptr;
    (void)real().cuCtxGetCurrent(&context);
    CuGraph graph = nullptr;
    if (const CuResult made = real().cuGraphCreate(&graph, 0); made != CuResult::kSuccess) {
      return made;
    }
    CuResult result =
        std::visit([&](const auto& node) { return add(graph, node, context); }, node_);
    if (result == CuResult::kSuccess) {
      result = real().cuGraphInstantiateWithFlags(&exec_, graph, 0);
    }
    (void)real().cuGraphDestroy(graph);
    return result;
  }

  const char* const name_;
  const Node node_;
  const std::vector<CudaOperand> operands_;
  const std::vector<CudaOperand> checked_;
  mutable Mutex mutex_;
  mutable CuGraphExec exec_ SPILLWAY_GUARDED_BY(mutex_) = nullptr;  // once it has been prepared
  mutable std::uint64_t made_before_ SPILLWAY_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::shared_ptr<const GraphStep> step_of(const Session& session, const CuKernelNode& kernel) {
  const CuKernelNodeV1& it = kernel.launch;
  const auto function =
      it.function != nullptr ? it.function : reinterpret_cast<CuFunction>(kernel.kernel);
  const KernelLayout& layout = kernel_layout(function);
  // A stream's context is the kernel's there.
  if (!layout.known || (kernel.context != nullptr && kernel.context != session.context)) {
    return nullptr;
  }
  return std::make_shared<const KernelStep>(
      LaunchShape{function, it.grid_x, it.grid_y, it.grid_z, it.block_x, it.block_y, it.block_z,
                  it.shared_bytes},
      layout, it);
}

std::shared_ptr<const GraphStep> step_of(const CuCopy3d& copy,
                                         std::span<const CudaOperand> operands,
                                         std::span<const CudaOperand> checked) {
  return std::make_shared<const OneNodeStep>("a graph's copy", copy, operands, checked);
}

std::shared_ptr<const GraphStep> step_of(const CuMemsetNode& set,
                                         std::span<const CudaOperand> operands,
                                         std::span<const CudaOperand> checked) {
  return std::make_shared<const OneNodeStep>("a graph's memset", set, operands, checked);
}

std::shared_ptr<const GraphStep> step_of(const CuHostNode& host) {
  return std::make_shared<const OneNodeStep>("a graph's host function", host,
                                             std::span<const CudaOperand>(),
                                             std::span<const CudaOperand>());
}

// Priorities and hints are left out: the nodes run one after the other.
std::optional<std::vector<CuLaunchAttribute>> attributes_of(CuGraphNode kernel) {
  const auto asked = [kernel](unsigned id) {
    CuLaunchAttribute attribute{.id = id, .reserved = 0, .value = {}};
    // One that this driver does not know no node of its has.
    if (real().cuGraphKernelNodeGetAttribute(kernel, id, attribute.value) != CuResult::kSuccess) {
      std::fill(std::begin(attribute.value), std::end(attribute.value), 0);
    }
    return attribute;
  };
  const auto is_set = [](const CuLaunchAttribute& it) {
    unsigned first = 0;
    std::memcpy(&first, it.value, sizeof first);
    return first != 0;
  };
  if (is_set(asked(kCuAttributeUpdatedByDevice))) {
    return std::nullopt;
  }
  std::vector<CuLaunchAttribute> attributes;
  for (const unsigned id : {kCuAttributeCooperative, kCuAttributeClusterSize,
                            kCuAttributeClusterScheduling, kCuAttributePreferredClusterSize}) {
    if (const CuLaunchAttribute attribute = asked(id); is_set(attribute)) {
      attributes.push_back(attribute);
    }
  }
  return attributes;
}

void forget_graph_handles() { forgotten.fetch_add(1); }

std::uint64_t graph_handles_forgotten() { return forgotten.load(); }

}  // namespace spillway::cuda
