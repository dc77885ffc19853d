// A recorded iteration as a step of pressure_bench. See pressure_step.h.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/pressure_step.h"

namespace spillway::cuda {
namespace {

// PyTorch takes 30 to 45 us of the processor for a launch (docs/gpu.md section 1).
constexpr TimeNs kEachNs = 45'000;

constexpr KernelIndex kNever = std::numeric_limits<KernelIndex>::max();

struct Life {
  KernelIndex first = kNever;
  KernelIndex last = 0;
};

std::vector<Life> lives_of(std::size_t tensors, const std::vector<Kernel>& kernels) {
  std::vector<Life> lives(tensors);
  for (KernelIndex at = 0; at < kernels.size(); ++at) {
    for (const auto* const used : {&kernels[at].reads, &kernels[at].writes}) {
      for (const TensorId id : *used) {
        lives[id].first = std::min(lives[id].first, at);
        lives[id].last = at;
      }
    }
  }
  return lives;
}

// The names under which the interposer tells of them: "copy", "copies of rows".
bool is_fill(std::string_view name) { return name == "memset"; }
bool is_copy(std::string_view name) {
  const std::string_view what = name.substr(0, name.find(' '));
  return what == "copy" || what == "copies" || what == "value" || what == "values";
}

// A network: its launches, and what dies behind each.
struct Graph {
  const std::vector<Kernel>* kernels = nullptr;
  std::vector<std::vector<TensorId>> dying;
};

class RecordedStep : public PressureStep {
 public:
  RecordedStep(Program& program, spillway::Program steps, bool fills_as_kernels)
      : program_(program),
        steps_(std::move(steps)),
        fills_as_kernels_(fills_as_kernels),
        tensors_(steps_.tensors.size()) {
    for (const std::vector<Kernel>& kernels : steps_.graphs) {
      Graph& graph = graphs_.emplace_back(Graph{.kernels = &kernels, .dying = {}});
      graph.dying.resize(kernels.size());
      const std::vector<Life> lives = lives_of(steps_.tensors.size(), kernels);
      for (TensorId id = 0; id < lives.size(); ++id) {
        if (!steps_.tensors[id].persistent && lives[id].first != kNever) {
          graph.dying[lives[id].last].push_back(id);
        }
      }
    }
  }

  void run() override {
    program_.keep_pace(kEachNs);
    const Graph& graph = graphs_[steps_.iterations[done_++ % steps_.iterations.size()]];
    for (KernelIndex at = 0; at < graph.kernels->size(); ++at) {
      const Kernel& kernel = (*graph.kernels)[at];
      issue(kernel);
      for (const TensorId id : graph.dying[at]) {
        tensors_[id].reset();
      }
      if (kernel.synchronizes) {
        program_.synchronize();
      }
    }
    program_.synchronize();
  }

 private:
  static constexpr TimeNs kInitializeNs = 10'000;

  // Made when it is first used, as an optimizer's states are.
  const Program::Tensor* tensor(TensorId id) {
    if (tensors_[id] == nullptr) {
      const Tensor& recorded = steps_.tensors[id];
      tensors_[id] = program_.make(recorded.bytes);
      if (recorded.persistent) {
        const Program::Use written{.tensor = tensors_[id].get(), .mode = AccessMode::kOverwrite};
        program_.launch({.name = "initialize", .uses = {&written, 1}, .took_ns = kInitializeNs});
      }
    }
    return tensors_[id].get();
  }
  void issue(const Kernel& kernel) {
    uses_.clear();
    for (const TensorId id : kernel.writes) {
      const bool read =
          std::find(kernel.reads.begin(), kernel.reads.end(), id) != kernel.reads.end();
      uses_.push_back(
          {.tensor = tensor(id), .mode = read ? AccessMode::kReadWrite : AccessMode::kOverwrite});
    }
    const std::size_t written = uses_.size();
    for (const TensorId id : kernel.reads) {
      const Program::Tensor* const it = tensor(id);
      if (std::none_of(uses_.begin(), uses_.begin() + static_cast<std::ptrdiff_t>(written),
                       [it](const Program::Use& use) { return use.tensor == it; })) {
        uses_.push_back({.tensor = it, .mode = AccessMode::kRead});
      }
    }
    program_.launch(
        {.name = kernel.name,
         .uses = uses_,
         .took_ns = kernel.duration_ns,
         .needs_mapping = is_copy(kernel.name) || (is_fill(kernel.name) && !fills_as_kernels_)});
  }

  Program& program_;
  spillway::Program steps_;
  bool fills_as_kernels_;
  std::vector<Graph> graphs_;
  std::vector<Program::Held> tensors_;  // by TensorId; none while it is not alive
  std::size_t done_ = 0;
  std::vector<Program::Use> uses_;  // of the launch that is being issued
};

}  // namespace

std::unique_ptr<PressureStep> recorded_step(Program& program, spillway::Program steps,
                                            bool fills_as_kernels) {
  return std::make_unique<RecordedStep>(program, std::move(steps), fills_as_kernels);
}

Bytes recorded_peak_bytes(const Trace& trace) {
  const std::vector<Life> lives = lives_of(trace.tensors.size(), trace.kernels);
  std::vector<Bytes> born_bytes(trace.kernels.size());
  std::vector<Bytes> dying_bytes(trace.kernels.size());
  Bytes alive_bytes = 0;
  for (TensorId id = 0; id < trace.tensors.size(); ++id) {
    const Bytes bytes = DeviceHeap::size_of(trace.tensors[id].bytes);
    if (trace.tensors[id].persistent) {
      alive_bytes += bytes;
    } else if (lives[id].first != kNever) {
      born_bytes[lives[id].first] += bytes;
      dying_bytes[lives[id].last] += bytes;
    }
  }
  Bytes peak_bytes = alive_bytes;
  for (KernelIndex at = 0; at < trace.kernels.size(); ++at) {
    alive_bytes += born_bytes[at];
    peak_bytes = std::max(peak_bytes, alive_bytes);
    alive_bytes -= dying_bytes[at];
  }
  return peak_bytes;
}

}  // namespace spillway::cuda
