// The made-up step of pressure_bench: GPT-2 XL. See pressure_step.h.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "bench/pressure_step.h"

namespace spillway::cuda {
namespace {

constexpr double kMemoryBytesPerS = 3.5e12;
constexpr double kFlopsPerS = 500e12;
constexpr TimeNs kShortestKernelNs = 3'000;
// PyTorch takes so much of the processor for what is one launch here.
constexpr TimeNs kEachNs = 80'000;

constexpr Bytes kWidth = 1600;
constexpr Bytes kTokens = Bytes{6} * 1024;
constexpr Bytes kVocabulary = 50257;
constexpr Bytes kAttended = Bytes{2} * 1024;  // keys and values of a sequence

using Held = Program::Held;

class MadeUpStep : public PressureStep {
 public:
  MadeUpStep(Program& program, int layers, bool reads_known)
      : program_(program), layers_(layers), reads_known_(reads_known) {
    build();
  }

  void run() override {
    program_.keep_pace(kEachNs);
    forward_and_backward();
    optimize();
    program_.synchronize();
  }

 private:
  struct Parameter {
    Held value, first, second, gradient;
  };
  // Of one layer, as the backward pass needs it.
  struct Saved {
    Held x, n1, w_qkv, qkv, att, w_o, mid, n2, w_up, up, gelu, w_down;
  };

  Held make(Bytes bytes) { return program_.make(bytes); }

  // The first `written` of these are written, as far as anybody tells us.
  void launch(const char* name, const std::vector<Held>& tensors, double flops = 0,
              std::size_t written = 1) {
    std::vector<Program::Use> uses;
    Bytes bytes = 0;
    for (const Held& it : tensors) {
      const bool reads = reads_known_ && uses.size() >= written;
      uses.push_back(
          {.tensor = it.get(), .mode = reads ? AccessMode::kRead : AccessMode::kReadWrite});
      bytes += it->bytes;
    }
    program_.launch({.name = name,
                     .uses = uses,
                     .took_ns = std::max(kShortestKernelNs,
                                         static_cast<TimeNs>(1e9 * (flops / kFlopsPerS +
                                                                    static_cast<double>(bytes) /
                                                                        kMemoryBytesPerS)))});
  }
  Held computed(const char* name, Bytes bytes, std::vector<Held> from, double flops = 0) {
    Held made = make(bytes);
    from.insert(from.begin(), made);
    launch(name, from, flops);
    return made;
  }

  void build() {
    const auto add = [this](Bytes elements) {
      parameters_.push_back(
          {.value = make(4 * elements), .first = {}, .second = {}, .gradient = {}});
      launch("initialize", {parameters_.back().value});
    };
    add(kVocabulary * kWidth);
    for (int i = 0; i < layers_; ++i) {
      add(3 * kWidth * kWidth);
      add(kWidth * kWidth);
      add(4 * kWidth * kWidth);
      add(4 * kWidth * kWidth);
      add(12 * kWidth);  // biases and norms
    }
  }

  static constexpr Bytes kRow = 2 * kTokens * kWidth;  // in half precision
  static double flops(Bytes columns) {
    return 2.0 * static_cast<double>(kTokens) * static_cast<double>(kWidth) *
           static_cast<double>(columns);
  }

  Held cast(const Parameter& p) { return computed("cast", p.value->bytes / 2, {p.value}); }
  Held forward(Saved& s, const Held& x, std::size_t first) {
    const Parameter* const p = &parameters_[first];
    s.x = x;
    s.n1 = computed("norm", kRow, {x, p[4].value});
    s.w_qkv = cast(p[0]);
    s.qkv = computed("addmm", 3 * kRow, {s.n1, s.w_qkv, p[4].value}, flops(3 * kWidth));
    s.att = computed("attention", kRow, {s.qkv}, flops(kAttended));
    s.w_o = cast(p[1]);
    const Held o = computed("addmm", kRow, {s.att, s.w_o, p[4].value}, flops(kWidth));
    s.mid = computed("add", 2 * kRow, {x, o});
    s.n2 = computed("norm", kRow, {s.mid, p[4].value});
    s.w_up = cast(p[2]);
    s.up = computed("addmm", 4 * kRow, {s.n2, s.w_up, p[4].value}, flops(4 * kWidth));
    s.gelu = computed("gelu", 4 * kRow, {s.up});
    s.w_down = cast(p[3]);
    const Held down = computed("addmm", kRow, {s.gelu, s.w_down, p[4].value}, flops(4 * kWidth));
    return computed("add", 2 * kRow, {s.mid, down});
  }

  void gradient(Parameter& p, const Held& d, const Held& input, double work) {
    const Held half = computed("mm", p.value->bytes / 2, {d, input}, work);
    p.gradient = computed("cast", p.value->bytes, {half});
  }
  Held sum_of(const Held& d) { return computed("sum", 8 * kWidth, {d}); }

  Held backward(Saved s, Held d, std::size_t first) {
    Parameter* const p = &parameters_[first];
    Held half = computed("cast", kRow, {d});
    Held d_gelu = computed("mm", 4 * kRow, {half, s.w_down}, flops(4 * kWidth));
    gradient(p[3], half, s.gelu, flops(4 * kWidth));
    sum_of(half);
    Held d_up = computed("gelu_backward", 4 * kRow, {d_gelu, s.up});
    d_gelu.reset();
    s.gelu.reset();
    s.up.reset();
    Held d_n = computed("mm", kRow, {d_up, s.w_up}, flops(4 * kWidth));
    gradient(p[2], d_up, s.n2, flops(4 * kWidth));
    sum_of(d_up);
    d_up.reset();
    Held d_mid = computed("norm_backward", 2 * kRow, {d_n, s.mid, p[4].value});
    sum_of(d_n);
    d = computed("add", 2 * kRow, {d, d_mid});
    d_mid.reset();
    s.mid.reset();
    half = computed("cast", kRow, {d});
    Held d_att = computed("mm", kRow, {half, s.w_o}, flops(kWidth));
    gradient(p[1], half, s.att, flops(kWidth));
    Held d_qkv =
        computed("attention_backward", 3 * kRow, {d_att, s.qkv, s.att}, 2.5 * flops(kAttended));
    d_att.reset();
    s.qkv.reset();
    d_n = computed("mm", kRow, {d_qkv, s.w_qkv}, flops(3 * kWidth));
    gradient(p[0], d_qkv, s.n1, flops(3 * kWidth));
    d_qkv.reset();
    Held d_x = computed("norm_backward", 2 * kRow, {d_n, s.x, p[4].value});
    p[4].gradient = computed("sum", p[4].value->bytes, {d_n});
    return computed("add", 2 * kRow, {d, d_x});
  }

  void forward_and_backward() {
    std::vector<Saved> saved(static_cast<std::size_t>(layers_));
    Held x = computed("embedding", 2 * kRow, {parameters_[0].value});
    for (std::size_t i = 0; i < saved.size(); ++i) {
      x = forward(saved[i], x, 1 + 5 * i);
    }
    const Bytes logits_bytes = 2 * kTokens * kVocabulary;
    Held w = cast(parameters_[0]);
    Held logits = computed("mm", logits_bytes, {x, w}, flops(kVocabulary));
    Held single = computed("cast", 2 * logits_bytes, {logits});
    logits.reset();
    Held logs = computed("log_softmax", 2 * logits_bytes, {single});
    single.reset();
    Held d_single = computed("log_softmax_backward", 2 * logits_bytes, {logs});
    logs.reset();
    Held d_logits = computed("cast", logits_bytes, {d_single});
    d_single.reset();
    Held d16 = computed("mm", kRow, {d_logits, w}, flops(kVocabulary));
    w.reset();
    gradient(parameters_[0], d_logits, x, flops(kVocabulary));
    d_logits.reset();
    x.reset();
    Held d = computed("cast", 2 * kRow, {d16});
    d16.reset();
    for (std::size_t i = saved.size(); i-- > 0;) {
      d = backward(std::move(saved[i]), std::move(d), 1 + 5 * i);
    }
    launch("embedding_backward", {parameters_[0].gradient, d});
  }

  // A few parameters in each launch.
  void optimize() {
    constexpr std::size_t kTogether = 5;
    for (Parameter& p : parameters_) {
      if (p.first == nullptr) {
        p.first = computed("zeros", p.value->bytes, {});
        p.second = computed("zeros", p.value->bytes, {});
      }
    }
    for (std::size_t i = 0; i < parameters_.size(); i += kTogether) {
      std::vector<Held> used;
      const std::size_t end = std::min(i + kTogether, parameters_.size());
      for (std::size_t j = i; j < end; ++j) {
        const Parameter& p = parameters_[j];
        used.insert(used.end(), {p.value, p.first, p.second});
      }
      for (std::size_t j = i; j < end; ++j) {
        used.push_back(parameters_[j].gradient);
      }
      launch("adamw", used, 0, 3 * (end - i));
    }
    for (Parameter& p : parameters_) {
      p.gradient.reset();
    }
  }

  Program& program_;
  int layers_;
  bool reads_known_;
  std::vector<Parameter> parameters_;
};

}  // namespace

std::unique_ptr<PressureStep> made_up_step(Program& program, int layers, bool reads_known) {
  return std::make_unique<MadeUpStep>(program, layers, reads_known);
}

// Layers' states and activations, and the first and last layer.
Bytes made_up_peak_bytes(int layers) {
  constexpr Bytes kLayerBytes = 780 * kMiB;
  constexpr Bytes kOtherBytes = 2900 * kMiB;
  return static_cast<Bytes>(layers) * kLayerBytes + kOtherBytes;
}

}  // namespace spillway::cuda
