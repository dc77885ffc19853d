// What one step of an optimizer computes, for a range of a tensor's elements, with the bits of one
// of PyTorch's implementations. No threads, no memory of its own: a range may be anything from a
// block of a device (platform/near) to a whole tensor. Layer: optimizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>

namespace spillway::optimizer {

enum class Rule : std::uint8_t {
  kAdam,     // torch.optim.Adam, and AdamW with Options::decoupled_decay
  kSgd,      // torch.optim.SGD
  kAdagrad,  // torch.optim.Adagrad
};

// Whose bits. PyTorch computes each rule in several ways, which round in different orders
// (docs/optimizer-bits.md).
enum class Variant : std::uint8_t {
  kLoopCpu,  // one operator after the other; what foreach does on the CPU as well
  kFusedCpu,
  kLoopCuda,
  kForeachCuda,
  kFusedCuda,
};

enum class NumberType : std::uint8_t { kFloat32, kBfloat16 };

// Square roots of `count` numbers, in place where `in` is `out`. PyTorch built with MKL takes
// torch.sqrt from it, whose last bit depends on the processor: this is the form of its vmsSqrt.
using SquareRoots = void (*)(int count, const float* in, float* out, std::int64_t mode);

// What stays the same from step to step.
struct Options {
  Rule rule = Rule::kAdam;
  Variant variant = Variant::kLoopCpu;
  NumberType parameter_type = NumberType::kFloat32;  // states are kept in the same type
  NumberType gradient_type = NumberType::kFloat32;
  bool decoupled_decay = false;  // AdamW
  bool amsgrad = false;
  bool maximize = false;
  bool nesterov = false;
  // kLoopCpu: torch.get_num_threads(), which decides where a tensor is cut, and that the bits of
  // bfloat16, and with amsgrad those of NaN.
  std::size_t torch_threads = 1;
  // Adam: whether a step's weight_decay is not 0 without decoupled_decay.
  bool coupled_decay = false;
  // kFusedCuda: the GPU's, 90 for an H100. Below 100 some of its sums depend on where an element
  // lies.
  unsigned compute_capability = 0;
  // kLoopCpu: null where the roots of fp32 tensors are IEEE's. Called by each thread that runs.
  SquareRoots square_roots = nullptr;
  std::int64_t square_roots_mode = 0;
};

// One step's numbers, as PyTorch's Python holds them. What a rule does not know is not read.
struct Step {
  double step = 1;  // the number of this step, from 1 on; SGD: at 1 there is no buffer to be read
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  double dampening = 0;
  double learning_rate_decay = 0;  // Adagrad
  double gradient_scale = 1;  // fused: gradients are divided by it, as torch.amp.GradScaler wants
};

// Where the tensors' first elements lie. Results may lie where their inputs do, or in memory that
// overlaps none of the inputs. What a rule does not have is null.
struct Operands {
  const void* parameter = nullptr;
  const void* gradient = nullptr;
  const void* first = nullptr;       // Adam: exp_avg; SGD: momentum_buffer; Adagrad: sum
  const void* second = nullptr;      // Adam: exp_avg_sq
  const void* max_second = nullptr;  // amsgrad: max_exp_avg_sq
  void* parameter_out = nullptr;
  void* first_out = nullptr;
  void* second_out = nullptr;
  void* max_second_out = nullptr;
  void* gradient_out = nullptr;  // fused with a scale: divided gradients, or null for nobody
};

class Update {
 public:
  // Ranges begin at multiples of it; they end at one, or at the tensor's end.
  static constexpr std::size_t kGrainElements = 64;

  // Why not: one line, for people, if the bits of this variant cannot be had (here, or at all).
  static tl::expected<Update, std::string> make(const Options& options);

  // Updates the elements [begin, end) of tensors of `elements` elements. Any number of threads may
  // update other ranges of the same tensors at the same time. Never fails.
  void run(const Step& step, const Operands& operands, std::size_t elements, std::size_t begin,
           std::size_t end) const noexcept;

  // Read and written for one element, without what a cache reads to write.
  [[nodiscard]] std::size_t bytes_per_element() const;

  [[nodiscard]] const Options& options() const { return options_; }

 private:
  explicit Update(const Options& options) : options_(options) {}
  Options options_;
};

}  // namespace spillway::optimizer
