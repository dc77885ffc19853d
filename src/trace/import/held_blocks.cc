// Each kernel holds at most one block that it does not use. Layer: trace.
#include "trace/import/held_blocks.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_map>

namespace spillway {
namespace {

constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();

// The nearest position that nobody has taken yet, in one direction.
class FreePlaces {
 public:
  // `count` places; the one behind the last stands for none.
  explicit FreePlaces(std::size_t count) : next_(count + 1) {
    std::iota(next_.begin(), next_.end(), std::size_t{0});
  }

  // The first free place at or behind `from`; kNowhere where there is none.
  std::size_t take(std::size_t from, std::size_t before) {
    std::size_t at = from;
    while (next_[at] != at) {
      next_[at] = next_[next_[at]];
      at = next_[at];
    }
    if (at >= before) {
      return kNowhere;
    }
    next_[at] = at + 1;
    return at;
  }

 private:
  std::vector<std::size_t> next_;
};

// First and last kernel that use a tensor.
struct Uses {
  std::size_t first = kNowhere;
  std::size_t last = 0;

  void add(std::size_t at) {
    first = std::min(first, at);
    last = first == at ? at : std::max(last, at);
  }
};

bool is_lasting(const HeldBlock& block, const IterationRange& range) {
  return is_older(block, range) && block.died >= range.end;
}

// The kernel in which, or else before which, something happens.
std::size_t kernel_at(const std::vector<TimedKernel>& kernels, std::uint64_t at) {
  const auto behind =
      std::upper_bound(kernels.begin(), kernels.end(), at,
                       [](std::uint64_t t, const TimedKernel& kernel) { return t < kernel.begin; });
  const auto next = static_cast<std::size_t>(behind - kernels.begin());
  return next > 0 && kernels[next - 1].end >= at ? next - 1 : next;
}

// The last kernel that began before `at`.
std::size_t kernel_before(const std::vector<TimedKernel>& kernels, std::uint64_t at) {
  const auto behind =
      std::lower_bound(kernels.begin(), kernels.end(), at,
                       [](const TimedKernel& kernel, std::uint64_t t) { return kernel.begin < t; });
  const auto next = static_cast<std::size_t>(behind - kernels.begin());
  return next > 0 ? next - 1 : 0;
}

}  // namespace

std::vector<HeldBlock> blocks_of(const std::vector<BlockEvent>& events) {
  std::vector<HeldBlock> blocks;
  std::unordered_map<std::uint64_t, std::size_t> alive;
  for (const BlockEvent& event : events) {
    const auto at = alive.find(event.address);
    if (at != alive.end()) {
      blocks[at->second].died = event.at;
      alive.erase(at);
    } else if (event.freed) {
      blocks.push_back({.bytes = event.bytes, .address = event.address, .died = event.at});
    }
    if (!event.freed) {
      alive.emplace(event.address, blocks.size());
      blocks.push_back({.bytes = event.bytes, .address = event.address, .born = event.at});
    }
  }
  std::stable_sort(blocks.begin(), blocks.end(),
                   [](const HeldBlock& a, const HeldBlock& b) { return a.born < b.born; });
  return blocks;
}

Status make_tensors(std::vector<HeldBlock>& blocks, const IterationRange& range,
                    TraceAssembler& assembler) {
  for (HeldBlock& block : blocks) {
    if (block.died <= range.begin || block.born >= range.end || block.bytes == 0) {
      continue;
    }
    const Result<TensorId> tensor = assembler.tensor(block.bytes, is_lasting(block, range));
    if (!tensor) {
      return tl::unexpected(tensor.error());
    }
    block.tensor = *tensor;
  }
  return {};
}

void hold_blocks(const std::vector<HeldBlock>& blocks, const IterationRange& range,
                 std::vector<TimedKernel>& kernels) {
  std::unordered_map<TensorId, Uses> uses;
  std::vector<const HeldBlock*> held;
  for (const HeldBlock& block : blocks) {
    if (block.tensor == HeldBlock::kNoTensor || is_lasting(block, range)) {
      continue;
    }
    const std::size_t birth = kernel_at(kernels, block.born);
    if (!is_older(block, range) && birth < kernels.size()) {
      kernels[birth].kernel.writes.push_back(block.tensor);
    }
    held.push_back(&block);
    uses[block.tensor] = {};
  }
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    for (const auto* list : {&kernels[k].kernel.reads, &kernels[k].kernel.writes}) {
      for (const TensorId id : *list) {
        if (const auto use = uses.find(id); use != uses.end()) {
          use->second.add(k);
        }
      }
    }
  }
  // The largest first, so that it is they that live as long as they should.
  std::stable_sort(held.begin(), held.end(),
                   [](const HeldBlock* a, const HeldBlock* b) { return a->bytes > b->bytes; });
  FreePlaces begins(kernels.size());
  FreePlaces ends(kernels.size());  // counted from the last kernel
  for (const HeldBlock* block : held) {
    Uses& use = uses[block->tensor];
    const std::size_t death = kernel_before(kernels, block->died);
    if (is_older(*block, range) && !kernels.empty()) {
      const std::size_t begin = begins.take(0, std::min(use.first, death + 1));
      if (begin != kNowhere) {
        kernels[begin].kernel.reads.push_back(block->tensor);
        use.add(begin);
      }
    }
    if (use.first != kNowhere && use.last < death) {
      const std::size_t count = kernels.size();
      const std::size_t end = ends.take(count - 1 - death, count - 1 - use.last);
      if (end != kNowhere) {
        kernels[count - 1 - end].kernel.reads.push_back(block->tensor);
      }
    }
  }
}

}  // namespace spillway
