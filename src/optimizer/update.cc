// Which kernel computes an update, and how a range becomes kernels' ranges. Layer: optimizer.
#include "optimizer/update.h"

#include <algorithm>
#include <cstddef>

#include "optimizer/range.h"

namespace spillway::optimizer {
namespace {

Kernel kernel_of(Rule rule) {
  switch (rule) {
    case Rule::kAdam:
      return adam_kernel();
    case Rule::kSgd:
      return nullptr;
    case Rule::kAdagrad:
      return nullptr;
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

// How many elements the vectors of PyTorch's fused kernels leave at a tensor's end.
std::size_t tail_elements(const Options& options, std::size_t elements) {
  if (options.variant != Variant::kFusedCpu) {
    return 0;
  }
  return elements % (options.parameter_type == NumberType::kFloat32 ? 8 : 16);
}

}  // namespace

tl::expected<Update, std::string> Update::make(const Options& options) {
  const Kernel kernel = kernel_of(options.rule);
  if (kernel == nullptr) {
    return tl::unexpected<std::string>(
        "optimizer: this processor has no AVX2 with FMA, which PyTorch's bits need");
  }
  return Update(options);
}

void Update::run(const Step& step, const Operands& operands, std::size_t elements,
                 std::size_t begin, std::size_t end) const noexcept {
  const Kernel kernel = kernel_of(options_.rule);
  const Numbers numbers = numbers_of(options_, step);
  const std::size_t tail = elements - tail_elements(options_, elements);
  const Form body = options_.variant == Variant::kFusedCpu ? Form::kFusedVector : Form::kLoop;
  if (begin < std::min(end, tail)) {
    kernel(options_, body, numbers, range_at(options_, operands, begin, std::min(end, tail)));
  }
  if (std::max(begin, tail) < end) {
    kernel(options_, Form::kFusedTail, numbers,
           range_at(options_, operands, std::max(begin, tail), end));
  }
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
