// See operand_spans.h.
#include "platform/near/operand_spans.h"

#include <array>

#include "platform/near/memory/location.h"

namespace spillway::near {
namespace {

using optimizer::NumberType;
using optimizer::Operands;
using optimizer::Options;
using optimizer::Rule;

struct Operand {
  const char* name;
  const void* in;
  void* out;
  bool written;
  bool needed;
  NumberType type;
};

std::array<Operand, 5> operands_of(const Options& options, const optimizer::Step& step,
                                   const Operands& given) {
  const bool adam = options.rule == Rule::kAdam;
  const bool first = options.rule != Rule::kSgd || step.momentum != 0;
  const NumberType type = options.parameter_type;
  return {{{"the parameter", given.parameter, given.parameter_out, true, true, type},
           {"the gradient", given.gradient, nullptr, false, true, options.gradient_type},
           {"the first state", given.first, given.first_out, true, first, type},
           {"the second state", given.second, given.second_out, true, adam, type},
           {"the largest second state", given.max_second, given.max_second_out, true,
            adam && options.amsgrad, type}}};
}

bool overlap(const Span& a, const Span& b) {
  return a.start < b.start + b.bytes && b.start < a.start + a.bytes;
}

}  // namespace

Operands needed_operands(const Options& options, const optimizer::Step& step,
                         const Operands& operands) {
  Operands needed = operands;
  needed.gradient_out = nullptr;
  const std::array<Operand, 5> all = operands_of(options, step, operands);
  if (!all[2].needed) {
    needed.first = needed.first_out = nullptr;
  }
  if (!all[3].needed) {
    needed.second = needed.second_out = nullptr;
  }
  if (!all[4].needed) {
    needed.max_second = needed.max_second_out = nullptr;
  }
  return needed;
}

Result<std::vector<OperandSpan>> operand_spans(const Options& options, const optimizer::Step& step,
                                               const Operands& operands, std::size_t elements) {
  constexpr std::size_t kAbsurdElements = 1024 * kTiB;
  if (elements == 0 || elements > kAbsurdElements) {
    return make_error(ErrorCode::kInvalidInput, "an update of {} elements; name from 1 to 2^50",
                      elements);
  }
  std::vector<OperandSpan> spans;
  std::vector<OperandSpan> results;
  std::vector<OperandSpan> inputs;
  for (const Operand& operand : operands_of(options, step, operands)) {
    if (!operand.needed) {
      continue;
    }
    if (operand.in == nullptr || (operand.written && operand.out == nullptr)) {
      return make_error(ErrorCode::kInvalidInput, "{} of the update is NULL", operand.name);
    }
    const std::size_t element_bytes = operand.type == NumberType::kFloat32 ? 4 : 2;
    const OperandSpan in{operand.name, {address_of(operand.in), elements * element_bytes}};
    const OperandSpan out{operand.name, {address_of(operand.out), elements * element_bytes}};
    if (in.span.start % element_bytes != 0 || out.span.start % element_bytes != 0) {
      return make_error(ErrorCode::kInvalidInput,
                        "{} of the update is at {:#x}, which is no "
                        "multiple of the {} bytes of its numbers",
                        operand.name, in.span.start, element_bytes);
    }
    inputs.push_back(in);
    if (operand.written) {
      results.push_back(out);
    }
    spans.push_back(in);
    if (operand.written && out.span.start != in.span.start) {
      spans.push_back(out);
    }
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto clash = [&](const OperandSpan& other) {
      return make_error(ErrorCode::kInvalidInput,
                        "the result for {} overlaps {} of the update; give each memory of its own",
                        results[i].name, other.name);
    };
    for (const OperandSpan& input : inputs) {
      const bool own = input.name == results[i].name && input.span.start == results[i].span.start;
      if (!own && overlap(results[i].span, input.span)) {
        return clash(input);
      }
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (overlap(results[i].span, results[j].span)) {
        return clash(results[j]);
      }
    }
  }
  return spans;
}

}  // namespace spillway::near
