// Which tensor an operator of a Kineto trace reads: a guess by size. Layer: trace.
//
// Kineto has shapes of inputs, not which tensors they are. An input is taken for the block of its
// size that was allocated last and is alive: what was made last is used first, in the forward pass
// because layers follow each other, in the backward pass because autograd frees as it goes back.
// One of a size that no such block has was there before: a parameter, found again in the backward
// pass by the sequence number that pairs operators, and in the optimizer by its order among those
// of its size.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "trace/import/assembler.h"
#include "trace/import/held_blocks.h"
#include "trace/import/kineto/kineto_file.h"
#include "trace/import/kineto/kineto_nesting.h"

namespace spillway {

class SizedOperands {
 public:
  // All must outlive this; `blocks` in the order of birth, those of the device whose memory counts.
  SizedOperands(const KinetoFile& file, const std::vector<KinetoPlace>& places,
                const std::vector<HeldBlock>& blocks, TraceAssembler& assembler);

  // Tensors that the operator reads; the same for each call. Operators are asked for in the order
  // in which they begin, or nearly.
  [[nodiscard]] Result<std::vector<TensorId>> read_by(std::uint32_t op);
  // Bytes of all tensors that were there before and are no known block.
  [[nodiscard]] Bytes older_bytes() const { return older_bytes_; }

 private:
  using Taken = std::unordered_set<TensorId>;

  void come_alive(std::uint64_t until_ns);
  [[nodiscard]] TensorId alive_of(Bytes bytes, std::uint64_t at_ns, const Taken& taken);
  [[nodiscard]] Result<TensorId> older(std::uint32_t op, Bytes bytes, const Taken& taken,
                                       std::unordered_map<Bytes, std::size_t>& counts);
  [[nodiscard]] Bytes bytes_of(const KinetoInput& input) const;

  const KinetoFile& file_;
  const std::vector<KinetoPlace>& places_;
  const std::vector<HeldBlock>& blocks_;
  TraceAssembler& assembler_;
  std::uint32_t list_element_bytes_ = 4;  // the commonest floating type's
  std::size_t next_block_ = 0;
  std::unordered_map<Bytes, std::vector<const HeldBlock*>> alive_;
  std::unordered_map<std::uint32_t, std::vector<TensorId>> known_;  // by operator
  std::unordered_map<std::uint32_t, std::vector<TensorId>>
      of_unit_;                                              // older ones, by outermost operator
  std::unordered_map<std::int64_t, std::uint32_t> forward_;  // outermost, by sequence number
  std::unordered_map<Bytes, std::vector<TensorId>> older_by_size_;
  Bytes older_bytes_ = 0;
};

}  // namespace spillway
