// From shared weights to layers. See layers.h.
#include "trace/perturb/layers.h"

#include <numeric>

#include "trace/perturb/forward_part.h"

namespace spillway {
namespace {

// Which persistent tensors one forward kernel uses together.
class WeightGroups {
 public:
  explicit WeightGroups(const Trace& trace)
      : parent_(trace.tensors.size()), layer_(trace.tensors.size(), kNoLayer) {
    std::iota(parent_.begin(), parent_.end(), TensorId{0});
    std::vector<bool> grouped(trace.tensors.size(), false);
    const KernelIndex forward = forward_kernels(trace);
    for (KernelIndex k = 0; k < forward; ++k) {
      TensorId first = kNone;
      for (const auto* list : {&trace.kernels[k].reads, &trace.kernels[k].writes}) {
        for (const TensorId id : *list) {
          if (trace.tensors[id].persistent) {
            first = first == kNone ? id : first;
            parent_[root(id)] = root(first);
            grouped[id] = true;
          }
        }
      }
    }
    for (TensorId id = 0; id < trace.tensors.size(); ++id) {
      if (grouped[id]) {
        std::uint32_t& layer = layer_[root(id)];
        layer = layer == kNoLayer ? count_++ : layer;
        layer_[id] = layer;
      }
    }
  }

  [[nodiscard]] std::uint32_t count() const { return count_; }
  // The layer that all grouped tensors of the kernel are of, or kNoLayer.
  [[nodiscard]] std::uint32_t layer_of(const Kernel& kernel) const {
    std::uint32_t layer = kNoLayer;
    for (const auto* list : {&kernel.reads, &kernel.writes}) {
      for (const TensorId id : *list) {
        if (layer != kNoLayer && layer_[id] != kNoLayer && layer_[id] != layer) {
          return kNoLayer;
        }
        layer = layer == kNoLayer ? layer_[id] : layer;
      }
    }
    return layer;
  }

 private:
  static constexpr TensorId kNone = std::numeric_limits<TensorId>::max();

  TensorId root(TensorId id) {
    while (parent_[id] != id) {
      parent_[id] = parent_[parent_[id]];
      id = parent_[id];
    }
    return id;
  }

  std::vector<TensorId> parent_;
  std::vector<std::uint32_t> layer_;  // by TensorId
  std::uint32_t count_ = 0;
};

// Who reads a tensor later on, as far as the kernels have been seen from the end: nobody, inner
// kernels of one layer, or somebody else too.
class Readers {
 public:
  explicit Readers(std::size_t tensors) : layer_(tensors, kNobody) {}

  void add(TensorId id, std::uint32_t layer, bool inner) {
    const std::uint32_t reader = inner ? layer : kOthers;
    layer_[id] = layer_[id] == kNobody || layer_[id] == reader ? reader : kOthers;
  }
  [[nodiscard]] bool nobody(TensorId id) const { return layer_[id] == kNobody; }
  // The layer whose inner kernels are all readers; no layer's number where there is none.
  [[nodiscard]] std::uint32_t layer(TensorId id) const { return layer_[id]; }

 private:
  static constexpr std::uint32_t kOthers = kNoLayer;
  static constexpr std::uint32_t kNobody = kNoLayer - 1;

  std::vector<std::uint32_t> layer_;  // by TensorId
};

// The layer whose inner kernels alone read what the kernel makes, or kNoLayer.
std::uint32_t layer_served(const Trace& trace, const Kernel& kernel, const Readers& readers) {
  std::uint32_t layer = kNoLayer;
  for (const TensorId id : kernel.writes) {
    if (trace.tensors[id].persistent) {
      return kNoLayer;
    }
    if (readers.nobody(id)) {
      continue;
    }
    if (readers.layer(id) == kNoLayer || (layer != kNoLayer && layer != readers.layer(id))) {
      return kNoLayer;
    }
    layer = readers.layer(id);
  }
  return layer;
}

bool is_inner(const Trace& trace, const Kernel& kernel, std::uint32_t layer,
              const Readers& readers) {
  for (const TensorId id : kernel.writes) {
    if (!trace.tensors[id].persistent && !readers.nobody(id) && readers.layer(id) != layer) {
      return false;
    }
  }
  return layer != kNoLayer;
}

}  // namespace

Layers find_layers(const Trace& trace) {
  const WeightGroups groups(trace);
  Layers layers;
  layers.count = groups.count();
  layers.of.assign(trace.kernels.size(), kNoLayer);
  layers.inner.assign(trace.kernels.size(), false);
  Readers readers(trace.tensors.size());
  for (std::size_t k = trace.kernels.size(); k-- > 0;) {
    const Kernel& kernel = trace.kernels[k];
    std::uint32_t layer = groups.layer_of(kernel);
    if (layer == kNoLayer) {
      layer = layer_served(trace, kernel, readers);
    }
    layers.of[k] = layer;
    layers.inner[k] = is_inner(trace, kernel, layer, readers);
    for (const TensorId id : kernel.reads) {
      readers.add(id, layer, layers.inner[k]);
    }
  }
  return layers;
}

}  // namespace spillway
