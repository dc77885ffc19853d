// Parts of a forward pass that a program could checkpoint one by one. Layer: analysis.
//
// A trace knows no modules. Layers of a network show as kernels whose names repeat in the same
// order: the stretches that keep most are its blocks, cut where least leads on from one to the
// next. Where little repeats, the forward pass is cut into parts that keep equally much.
#pragma once

#include <cstddef>
#include <vector>

#include "analysis/passes.h"
#include "analysis/vitality.h"
#include "trace/trace.h"

namespace spillway {

struct ForwardBlock {
  KernelIndex begin = 0;
  KernelIndex end = 0;  // behind its last kernel

  friend bool operator==(const ForwardBlock&, const ForwardBlock&) = default;
};

class ForwardBlocks {
 public:
  // Of the forward pass of `pass`. The trace must be valid and live as long as this, the vitality
  // be that trace's own.
  ForwardBlocks(const Trace& trace, const Vitality& vitality, const Pass& pass);

  // Several choices, those with the shortest blocks first, each in order. What lies between two
  // stretches is a block, too. None whose blocks keep less than half of what the forward pass
  // keeps. Time is at most the square of the number of kernels.
  [[nodiscard]] std::vector<std::vector<ForwardBlock>> repeated() const;
  // At most so many (at least one), of which each keeps about equally much.
  [[nodiscard]] std::vector<ForwardBlock> even(std::size_t parts) const;

 private:
  [[nodiscard]] Bytes kept(KernelIndex from, KernelIndex to) const;
  [[nodiscard]] KernelIndex narrowest(KernelIndex from, KernelIndex to) const;
  struct Stretch;
  [[nodiscard]] std::vector<ForwardBlock> cut(const Stretch& stretch) const;
  [[nodiscard]] std::vector<ForwardBlock> cut_all(const std::vector<Stretch>& stretches) const;
  void add_ends(std::vector<ForwardBlock>& blocks, KernelIndex period) const;
  [[nodiscard]] std::vector<Stretch> stretches() const;
  [[nodiscard]] Bytes repeats(const Stretch& stretch) const;
  [[nodiscard]] std::vector<Stretch> alike(const std::vector<Stretch>& by_kept,
                                           std::size_t period) const;

  KernelIndex begin_;
  KernelIndex end_;
  std::vector<std::size_t> names_;  // by kernel of the forward pass: equal where names are
  // By kernel of the forward pass, and one more: what those before it make and the backward pass
  // reads; what a cut in front of it would hold.
  std::vector<Bytes> kept_;
  std::vector<Bytes> leads_on_;
};

}  // namespace spillway
