// Which layers go, and who reads what instead. See thinned.h.
#include "trace/perturb/thinned.h"

#include <limits>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "base/rng.h"
#include "trace/perturb/layers.h"

namespace spillway {
namespace {

constexpr TensorId kNone = std::numeric_limits<TensorId>::max();

// By layer: is it left out? One that is too large for what is left of the quarter stays.
std::vector<bool> draw_layers(const Layers& layers, std::uint64_t seed) {
  std::vector<std::size_t> sizes(layers.count, 0);
  for (const std::uint32_t layer : layers.of) {
    if (layer != kNoLayer) {
      ++sizes[layer];
    }
  }
  std::vector<std::uint32_t> order(layers.count);
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  Rng rng(seed);
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[rng.below(i)]);
  }
  std::size_t left = layers.of.size() / 4;
  std::vector<bool> drawn(layers.count, false);
  for (const std::uint32_t layer : order) {
    if (sizes[layer] <= left) {
      left -= sizes[layer];
      drawn[layer] = true;
    }
  }
  return drawn;
}

// Takes the trace's kernels in order and keeps or leaves out each.
class Thinner {
 public:
  Thinner(const Trace& trace, std::vector<Tensor>& tensors)
      : trace_(trace),
        tensors_(tensors),
        first_own_(static_cast<TensorId>(tensors.size())),
        contents_(trace.tensors.size(), kNone),
        own_(trace.tensors.size(), kNone) {}

  // False, and nothing has changed, where an output has no substitute.
  bool leave_out(const Kernel& kernel) {
    for (const TensorId id : kernel.writes) {
      if (needs_substitute(id) && !latest_.contains(trace_.tensors[id].bytes)) {
        return false;
      }
    }
    for (const TensorId id : kernel.writes) {
      if (needs_substitute(id)) {
        contents_[id] = latest_.at(trace_.tensors[id].bytes);
      }
    }
    return true;
  }

  void keep(const Kernel& kernel) {
    Kernel& kept = kernels_.emplace_back(kernel);
    const auto now = static_cast<KernelIndex>(kernels_.size());
    kept.reads.clear();
    for (const TensorId id : kernel.reads) {
      const TensorId source = trace_.tensors[id].persistent ? id : source_of(id);
      if (source >= first_own_) {
        // Two of the kernel's tensors may have the same substitute.
        KernelIndex& read_by = uses_[source - first_own_].read_by;
        if (read_by == now) {
          continue;
        }
        read_by = now;
      }
      kept.reads.push_back(source);
    }
    for (TensorId& id : kept.writes) {
      id = trace_.tensors[id].persistent ? id : target_of(id, now);
    }
  }

  [[nodiscard]] std::vector<Kernel> take() { return std::move(kernels_); }

 private:
  // Of a tensor of this graph's own.
  struct Uses {
    KernelIndex read_by = 0;  // the last reader, counted from 1; 0: none yet
    bool written = false;
  };

  [[nodiscard]] bool needs_substitute(TensorId id) const {
    const Tensor& tensor = trace_.tensors[id];
    return !tensor.persistent && !tensor.scratch && contents_[id] == kNone;
  }

  // What holds the contents of the trace's tensor. Nothing has made it where it is input.
  TensorId source_of(TensorId id) {
    if (contents_[id] == kNone) {
      add_own(id);
    }
    return contents_[id];
  }

  // Where the kernel `now` writes the trace's tensor. Its own one, unless that has been read as
  // input: to make its contents after that is a cycle in lifetimes.
  TensorId target_of(TensorId id, KernelIndex now) {
    bool fits = own_[id] != kNone;
    if (fits) {
      const Uses& uses = uses_[own_[id] - first_own_];
      fits = uses.written || uses.read_by == 0 || uses.read_by == now;
    }
    if (!fits) {
      add_own(id);
    }
    uses_[own_[id] - first_own_].written = true;
    hold(id);
    return own_[id];
  }

  void add_own(TensorId id) {
    own_[id] = static_cast<TensorId>(tensors_.size());
    const Tensor tensor = trace_.tensors[id];
    tensors_.push_back(tensor);
    uses_.emplace_back();
    hold(id);
  }

  void hold(TensorId id) {
    contents_[id] = own_[id];
    if (!trace_.tensors[id].scratch) {
      latest_[trace_.tensors[id].bytes] = own_[id];
    }
  }

  const Trace& trace_;
  std::vector<Tensor>& tensors_;
  TensorId first_own_;
  std::vector<TensorId> contents_;              // by the trace's TensorId: what is read for it
  std::vector<TensorId> own_;                   // by the trace's TensorId: what is written for it
  std::vector<Uses> uses_;                      // by TensorId - first_own_
  std::unordered_map<Bytes, TensorId> latest_;  // the last of a size
  std::vector<Kernel> kernels_;
};

}  // namespace

std::vector<Kernel> thinned(const Trace& trace, std::uint64_t seed, std::vector<Tensor>& tensors) {
  const Layers layers = find_layers(trace);
  const std::vector<bool> drawn = draw_layers(layers, seed);
  Thinner thinner(trace, tensors);
  for (KernelIndex k = 0; k < trace.kernels.size(); ++k) {
    const bool goes = layers.of[k] != kNoLayer && drawn[layers.of[k]];
    if (!goes || (!layers.inner[k] && !thinner.leave_out(trace.kernels[k]))) {
      thinner.keep(trace.kernels[k]);
    }
  }
  return thinner.take();
}

}  // namespace spillway
