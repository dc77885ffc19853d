// Kernels of blocks a second time, with tensors of their own. See checkpointing.h.
#include "analysis/checkpointing.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "analysis/memory_curve.h"
#include "analysis/vitality.h"

namespace spillway {
namespace {

constexpr TensorId kNotAgain = std::numeric_limits<TensorId>::max();
// So many times the least peak is about as good: who checkpoints by hand takes single layers unless
// that is much worse.
constexpr double kAlike = 1.2;

// A block, and what of it the backward pass wants.
struct Again {
  ForwardBlock block;
  KernelIndex end = 0;     // of those that run again
  KernelIndex before = 0;  // the kernel of the backward pass that first wants something
  // Every tensor that the block makes, and what stands for it the second time.
  std::vector<std::pair<TensorId, TensorId>> made;
  std::vector<TensorId> wanted;  // of those the ones that are not kept
};

class Checkpointer {
 public:
  Checkpointer(const Trace& trace, const Checkpoints& checkpoints)
      : trace_(trace), lives_(analyze_vitality(trace).lives), out_(trace) {
    out_.kernels.clear();
    for (const CheckpointedPass& each : checkpoints) {
      add_pass(each.pass, each.blocks);
    }
    std::stable_sort(agains_.begin(), agains_.end(), [](const Again& a, const Again& b) {
      return std::pair(a.before, b.block.begin) < std::pair(b.before, a.block.begin);
    });
  }

  Trace run() {
    second_.assign(trace_.tensors.size(), kNotAgain);
    auto next = agains_.begin();
    for (KernelIndex kernel = 0; kernel < trace_.kernels.size(); ++kernel) {
      for (; next != agains_.end() && next->before == kernel; ++next) {
        run_again(*next);
      }
      out_.kernels.push_back(with_seconds(trace_.kernels[kernel]));
    }
    return std::move(out_);
  }

 private:
  void add_pass(const Pass& pass, const std::vector<ForwardBlock>& blocks) {
    std::vector<KernelIndex> forward_end(trace_.tensors.size(), 0);
    std::vector<KernelIndex> backward_begin(trace_.tensors.size(), pass.end);
    std::vector<KernelIndex> last_write(trace_.tensors.size(), 0);
    for (KernelIndex kernel = pass.begin; kernel < pass.end; ++kernel) {
      for (const auto* operands : {&trace_.kernels[kernel].reads, &trace_.kernels[kernel].writes}) {
        for (const TensorId id : *operands) {
          if (kernel < pass.turn) {
            forward_end[id] = kernel + 1;
          } else {
            backward_begin[id] = std::min(backward_begin[id], kernel);
          }
        }
      }
      for (const TensorId id : trace_.kernels[kernel].writes) {
        last_write[id] = kernel < pass.turn ? kernel : last_write[id];
      }
    }
    for (const ForwardBlock& block : blocks) {
      Again again{block, block.begin, pass.end, {}, {}};
      for (const TensorId id : made_in(block)) {
        again.made.emplace_back(id, kNotAgain);
        // What later kernels of the forward pass use leads on and is kept.
        if (forward_end[id] <= block.end && lives_[id]->last_use >= pass.turn &&
            lives_[id]->last_use < pass.end) {
          again.wanted.push_back(id);
          again.before = std::min(again.before, backward_begin[id]);
          again.end = std::max(again.end, last_write[id] + 1);
        }
      }
      if (!again.wanted.empty()) {
        agains_.push_back(std::move(again));
      }
    }
  }

  [[nodiscard]] std::vector<TensorId> made_in(const ForwardBlock& block) const {
    std::vector<TensorId> made;
    for (KernelIndex kernel = block.begin; kernel < block.end; ++kernel) {
      for (const TensorId id : trace_.kernels[kernel].writes) {
        const auto& life = lives_[id];
        if (!trace_.tensors[id].persistent && life && life->first_use == kernel) {
          made.push_back(id);
        }
      }
    }
    return made;
  }

  void run_again(Again& again) {
    for (auto& [first, second] : again.made) {
      second = static_cast<TensorId>(out_.tensors.size());
      out_.tensors.push_back(trace_.tensors[first]);
      second_[first] = second;
    }
    for (KernelIndex kernel = again.block.begin; kernel < again.end; ++kernel) {
      out_.kernels.push_back(with_seconds(trace_.kernels[kernel]));
      out_.kernels.back().synchronizes = false;
    }
    for (const auto& [first, second] : again.made) {
      second_[first] = kNotAgain;
    }
    for (const TensorId id : again.wanted) {
      const auto made = std::find_if(again.made.begin(), again.made.end(),
                                     [id](const auto& pair) { return pair.first == id; });
      second_[id] = made->second;
    }
  }

  [[nodiscard]] Kernel with_seconds(Kernel kernel) const {
    for (auto* const operands : {&kernel.reads, &kernel.writes}) {
      for (TensorId& id : *operands) {
        id = second_[id] == kNotAgain ? id : second_[id];
      }
    }
    return kernel;
  }

  const Trace& trace_;
  std::vector<std::optional<TensorLife>> lives_;
  std::vector<Again> agains_;
  std::vector<TensorId> second_;  // by tensor: what stands for it from now on
  Trace out_;
};

std::vector<ForwardBlock> taken_together(const std::vector<ForwardBlock>& blocks,
                                         std::size_t together) {
  std::vector<ForwardBlock> taken;
  for (std::size_t i = 0; i < blocks.size(); i += together) {
    taken.push_back({blocks[i].begin, blocks[std::min(i + together, blocks.size()) - 1].end});
  }
  return taken;
}

// While the pass runs, if only it is checkpointed.
Bytes peak_in(const Trace& trace, const CheckpointedPass& pass, Bytes granularity_bytes) {
  const Trace with = checkpointed(trace, {{pass}});
  const MemoryCurve curve = memory_curve(with, analyze_vitality(with), granularity_bytes);
  const std::size_t end = pass.pass.end + with.kernels.size() - trace.kernels.size();
  Bytes peak_bytes = 0;
  for (std::size_t kernel = pass.pass.begin; kernel < end; ++kernel) {
    peak_bytes = std::max(peak_bytes, curve.kernels[kernel].live_bytes);
  }
  return peak_bytes;
}

// What might be checkpointed, first what a program would rather do.
std::vector<CheckpointedPass> choices_of(const Trace& trace, const Vitality& vitality,
                                         const Pass& pass) {
  constexpr std::array<std::size_t, 8> kTogether{1, 2, 3, 4, 6, 8, 12, 16};
  constexpr std::array<std::size_t, 8> kParts{2, 3, 4, 6, 8, 12, 16, 24};
  const ForwardBlocks forward(trace, vitality, pass);
  const std::vector<std::vector<ForwardBlock>> repeated = forward.repeated();
  std::vector<CheckpointedPass> choices;
  for (const std::size_t together : kTogether) {
    for (const std::vector<ForwardBlock>& blocks : repeated) {
      if (together < blocks.size()) {
        choices.push_back({pass, taken_together(blocks, together), together});
      }
    }
  }
  for (const std::size_t parts : kParts) {
    choices.push_back({pass, forward.even(parts), 0});
  }
  return choices;
}

// The first with which the peak is about the least.
CheckpointedPass best_of(const Trace& trace, std::vector<CheckpointedPass> choices,
                         Bytes granularity_bytes) {
  std::vector<Bytes> peaks;
  peaks.reserve(choices.size());
  for (const CheckpointedPass& choice : choices) {
    peaks.push_back(peak_in(trace, choice, granularity_bytes));
  }
  const auto enough = static_cast<Bytes>(
      kAlike * static_cast<double>(*std::min_element(peaks.begin(), peaks.end())));
  const auto first =
      std::find_if(peaks.begin(), peaks.end(), [&](Bytes peak) { return peak <= enough; });
  return std::move(choices[static_cast<std::size_t>(first - peaks.begin())]);
}

}  // namespace

Result<Checkpoints> find_checkpoints(const Trace& trace, Bytes granularity_bytes) {
  const Vitality vitality = analyze_vitality(trace);
  Checkpoints checkpoints;
  for (const Pass& pass : find_passes(trace, vitality)) {
    checkpoints.push_back(best_of(trace, choices_of(trace, vitality, pass), granularity_bytes));
  }
  if (checkpoints.empty()) {
    return make_error(ErrorCode::kUnsupported,
                      "nothing was found that the step keeps for a backward pass");
  }
  return checkpoints;
}

Trace checkpointed(const Trace& trace, const Checkpoints& checkpoints) {
  return Checkpointer(trace, checkpoints).run();
}

}  // namespace spillway
