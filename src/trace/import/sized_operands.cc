// Blocks of a size as a stack, and operands that are older than the iteration. Layer: trace.
#include "trace/import/sized_operands.h"

#include <algorithm>
#include <array>

namespace spillway {
namespace {

// How far down the stack of one size a search goes: what is deeper is not what was made last.
constexpr std::size_t kDeepest = 256;

}  // namespace

SizedOperands::SizedOperands(const KinetoFile& file, const std::vector<KinetoPlace>& places,
                             const std::vector<HeldBlock>& blocks, TraceAssembler& assembler)
    : file_(file), places_(places), blocks_(blocks), assembler_(assembler) {
  std::array<std::uint64_t, 3> counts{};  // of 2, 4 and 8 bytes
  for (const KinetoInput& input : file.inputs) {
    if (input.element_bytes == 2 || input.element_bytes == 4) {
      counts.at(input.element_bytes / 4) += input.elements;
    }
  }
  list_element_bytes_ = counts[0] > counts[1] ? 2 : 4;
  for (std::uint32_t i = 0; i < file.operators.size(); ++i) {
    const KinetoOperator& op = file.operators[i];
    const KinetoPlace& place = places[i];
    if (op.sequence >= 0 && place.backward < 0 && place.outermost != KinetoPlace::kNone) {
      forward_[op.sequence] = place.outermost;
    }
  }
}

Bytes SizedOperands::bytes_of(const KinetoInput& input) const {
  return input.elements * (input.element_bytes > 0 ? input.element_bytes : list_element_bytes_);
}

void SizedOperands::come_alive(std::uint64_t until_ns) {
  for (; next_block_ < blocks_.size() && blocks_[next_block_].born <= until_ns; ++next_block_) {
    if (blocks_[next_block_].tensor != HeldBlock::kNoTensor) {
      alive_[blocks_[next_block_].bytes].push_back(&blocks_[next_block_]);
    }
  }
}

TensorId SizedOperands::alive_of(Bytes bytes, std::uint64_t at_ns, const Taken& taken) {
  constexpr Bytes kRounding = 512;  // of the allocator for CUDA
  const Bytes rounded = (bytes + kRounding - 1) / kRounding * kRounding;
  for (const Bytes size : {bytes, rounded}) {
    std::vector<const HeldBlock*>& stack = alive_[size];
    std::size_t searched = 0;
    for (std::size_t i = stack.size(); i-- > 0 && searched < kDeepest; ++searched) {
      if (stack[i]->died <= at_ns) {
        stack.erase(stack.begin() + static_cast<std::ptrdiff_t>(i));
      } else if (stack[i]->born <= at_ns && !taken.contains(stack[i]->tensor)) {
        return stack[i]->tensor;
      }
    }
  }
  return HeldBlock::kNoTensor;
}

Result<TensorId> SizedOperands::older(std::uint32_t op, Bytes bytes, const Taken& taken,
                                      std::unordered_map<Bytes, std::size_t>& counts) {
  const KinetoPlace& place = places_[op];
  std::uint32_t unit = place.outermost;
  if (place.backward >= 0) {
    const auto forward = forward_.find(place.backward);
    unit = forward != forward_.end() ? forward->second : unit;
  }
  if (place.in_optimizer) {
    const std::vector<TensorId>& same = older_by_size_[bytes];
    std::size_t& next = counts[bytes];
    if (next < same.size()) {
      return same[next++];
    }
    ++next;
  } else if (unit != KinetoPlace::kNone) {
    const std::vector<TensorId>& of_unit = of_unit_[unit];
    const auto same = std::find_if(of_unit.begin(), of_unit.end(), [&](const TensorId id) {
      return assembler_.bytes_of(id) == bytes && !taken.contains(id);
    });
    if (same != of_unit.end()) {
      return *same;
    }
  }
  Result<TensorId> made = assembler_.tensor(bytes, true);
  if (made) {
    older_bytes_ += bytes;
    older_by_size_[bytes].push_back(*made);
    // A unit with more is searched no further: it is none that people write.
    if (of_unit_[unit].size() < kDeepest) {
      of_unit_[unit].push_back(*made);
    }
  }
  return made;
}

Result<std::vector<TensorId>> SizedOperands::read_by(std::uint32_t op) {
  if (const auto at = known_.find(op); at != known_.end()) {
    return at->second;
  }
  const KinetoOperator& what = file_.operators[op];
  come_alive(what.begin_ns);
  std::vector<TensorId> reads;
  Taken taken;
  std::unordered_map<Bytes, std::size_t> counts;
  for (std::uint32_t i = 0; i < what.inputs; ++i) {
    const Bytes bytes = bytes_of(file_.inputs[what.first_input + i]);
    TensorId id = alive_of(bytes, what.begin_ns, taken);
    if (id == HeldBlock::kNoTensor) {
      const Result<TensorId> made = older(op, bytes, taken, counts);
      if (!made) {
        return tl::unexpected(made.error());
      }
      id = *made;
    }
    if (taken.insert(id).second) {
      reads.push_back(id);
    }
  }
  known_.emplace(op, reads);
  return reads;
}

}  // namespace spillway
