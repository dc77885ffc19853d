// Which kernel computes an update, and how a range becomes kernels' ranges. Layer: optimizer.
#include "optimizer/update.h"

#include <cstddef>

#include "optimizer/pieces.h"
#include "optimizer/range.h"

namespace spillway::optimizer {
namespace {

Kernel kernel_of(Rule rule) {
  switch (rule) {
    case Rule::kAdam:
      return adam_kernel();
    case Rule::kSgd:
      return sgd_kernel();
    case Rule::kAdagrad:
      return adagrad_kernel();
  }
  return nullptr;
}

std::size_t bytes_of(NumberType type) { return type == NumberType::kFloat32 ? 4 : 2; }

const void* at(const void* tensor, std::size_t bytes) {
  return tensor == nullptr ? nullptr : static_cast<const std::byte*>(tensor) + bytes;
}
void* at(void* tensor, std::size_t bytes) {
  return tensor == nullptr ? nullptr : static_cast<std::byte*>(tensor) + bytes;
}

Range range_at(const Options& options, const Operands& operands, std::size_t begin,
               std::size_t end) {
  const std::size_t bytes = begin * bytes_of(options.parameter_type);
  const std::size_t gradient_bytes = begin * bytes_of(options.gradient_type);
  Range range;
  range.parameter = at(operands.parameter, bytes);
  range.gradient = at(operands.gradient, gradient_bytes);
  range.first = at(operands.first, bytes);
  range.second = at(operands.second, bytes);
  range.max_second = at(operands.max_second, bytes);
  range.parameter_out = at(operands.parameter_out, bytes);
  range.first_out = at(operands.first_out, bytes);
  range.second_out = at(operands.second_out, bytes);
  range.max_second_out = at(operands.max_second_out, bytes);
  range.gradient_out = at(operands.gradient_out, gradient_bytes);
  range.count = end - begin;
  return range;
}

std::string contradiction_of_fused_on_gpu(const Options& options) {
  if (options.rule == Rule::kAdagrad) {
    return "fused Adagrad on a GPU computes in double, which this library does not; use "
           "fused=False";
  }
  const bool by_place = options.rule == Rule::kSgd || (options.coupled_decay && !options.amsgrad);
  if (by_place && options.compute_capability < 100) {
    return "on GPUs before compute capability 10.0 the bits of fused SGD, and of fused Adam with "
           "weight "
           "decay, depend on where an element lies; use AdamW or fused=False";
  }
  return {};
}

// Why these options name no update; empty if they do.
std::string contradiction(const Options& options) {
  const bool bfloat16 = options.parameter_type == NumberType::kBfloat16;
  if (bfloat16 && options.gradient_type != NumberType::kBfloat16) {
    return "gradients of bfloat16 parameters are bfloat16";
  }
  if (options.rule != Rule::kAdam && (options.amsgrad || options.decoupled_decay)) {
    return "amsgrad and decoupled decay are Adam's";
  }
  if (options.rule != Rule::kSgd && options.nesterov) {
    return "Nesterov's momentum is SGD's";
  }
  if (options.variant == Variant::kFusedCpu && options.rule == Rule::kSgd && bfloat16) {
    return "PyTorch's fused SGD leaves bfloat16 parameters as they are on the CPU; use fused=False";
  }
  if (options.variant == Variant::kFusedCuda) {
    return contradiction_of_fused_on_gpu(options);
  }
  return {};
}

}  // namespace

tl::expected<Update, std::string> Update::make(const Options& options) {
  if (const std::string why = contradiction(options); !why.empty()) {
    return tl::unexpected("optimizer: " + why);
  }
  if (kernel_of(options.rule) == nullptr) {
    return tl::unexpected<std::string>(
        "optimizer: this processor has no AVX2 with FMA, which PyTorch's bits need");
  }
  return Update(options);
}

void Update::run(const Step& step, const Operands& operands, std::size_t elements,
                 std::size_t begin, std::size_t end) const noexcept {
  const Kernel kernel = kernel_of(options_.rule);
  visit_pieces(options_, elements, begin, end,
               [&](Form form, std::size_t piece_begin, std::size_t piece_end) {
                 kernel(options_, form, numbers_of(options_, form, step),
                        range_at(options_, operands, piece_begin, piece_end));
               });
}

std::size_t Update::bytes_per_element() const {
  const std::size_t parameter = bytes_of(options_.parameter_type);
  std::size_t states = options_.rule == Rule::kAdam ? 2 : 1;
  if (options_.amsgrad) {
    ++states;
  }
  return 2 * parameter * (1 + states) + bytes_of(options_.gradient_type);
}

}  // namespace spillway::optimizer
