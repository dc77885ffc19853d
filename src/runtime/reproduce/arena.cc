// See arena.h.
#include "runtime/reproduce/arena.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "analysis/vitality.h"

namespace spillway::reproduce {
namespace {

constexpr Bytes kUnitBytes = 256;

struct Range {
  Bytes start = 0;
  Bytes end = 0;
};

// The range, which grows at its end where no hole is large enough.
class Holes {
 public:
  Bytes take(Bytes bytes) {
    auto best = holes_.end();
    for (auto it = holes_.begin(); it != holes_.end(); ++it) {
      if (it->second >= bytes && (best == holes_.end() || it->second < best->second)) {
        best = it;
      }
    }
    if (best == holes_.end()) {
      return grow(bytes);
    }
    const auto [start, size] = *best;
    holes_.erase(best);
    if (size > bytes) {
      holes_[start + bytes] = size - bytes;
    }
    return start;
  }

  void give_back(Bytes start, Bytes bytes) {
    auto next = holes_.lower_bound(start);
    if (next != holes_.end() && next->first == start + bytes) {
      bytes += next->second;
      next = holes_.erase(next);
    }
    if (next != holes_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == start) {
        before->second += bytes;
        return;
      }
    }
    holes_[start] = bytes;
  }

  [[nodiscard]] Bytes end() const { return end_; }

 private:
  // A hole at the end is the beginning of what is taken.
  Bytes grow(Bytes bytes) {
    Bytes start = end_;
    if (!holes_.empty()) {
      const auto last = std::prev(holes_.end());
      if (last->first + last->second == end_) {
        start = last->first;
        holes_.erase(last);
      }
    }
    end_ = start + bytes;
    return start;
  }

  std::map<Bytes, Bytes> holes_;
  Bytes end_ = 0;
};

std::vector<Range> ranges_of(const Trace& trace, const Vitality& vitality) {
  std::vector<Range> ranges(trace.tensors.size());
  Holes holes;
  const auto take = [&](TensorId id) {
    const Bytes bytes = round_up(trace.tensors[id].bytes, kUnitBytes);
    const Bytes start = holes.take(bytes);
    ranges[id] = {start, start + bytes};
  };
  std::vector<std::vector<TensorId>> born(trace.kernels.size());
  std::vector<std::vector<TensorId>> dead(trace.kernels.size());
  for (TensorId id = 0; id < trace.tensors.size(); ++id) {
    const std::optional<TensorLife>& life = vitality.lives[id];
    if (trace.tensors[id].persistent) {
      take(id);
    } else if (life) {
      born[life->first_use].push_back(id);
      dead[life->last_use].push_back(id);
    }
  }
  for (KernelIndex index = 0; index < trace.kernels.size(); ++index) {
    std::for_each(born[index].begin(), born[index].end(), take);
    for (const TensorId id : dead[index]) {
      holes.give_back(ranges[id].start, ranges[id].end - ranges[id].start);
    }
  }
  return ranges;
}

bool live_at_once(const Trace& trace, const Vitality& vitality, TensorId one, TensorId other) {
  if (trace.tensors[one].persistent || trace.tensors[other].persistent) {
    return true;
  }
  const std::optional<TensorLife>& a = vitality.lives[one];
  const std::optional<TensorLife>& b = vitality.lives[other];
  return a && b && a->first_use <= b->last_use && b->first_use <= a->last_use;
}

// The operands' pieces, each once.
std::vector<TensorId> pieces_of(const std::vector<TensorId>& operands, const Arena& arena) {
  std::set<TensorId> made;
  for (const TensorId id : operands) {
    for (TensorId piece = arena.pieces[id].first; piece < arena.pieces[id].second; ++piece) {
      made.insert(piece);
    }
  }
  return {made.begin(), made.end()};
}

}  // namespace

Arena lay_out(const Trace& trace, Bytes page_bytes) {
  const Vitality vitality = analyze_vitality(trace);
  const std::vector<Range> ranges = ranges_of(trace, vitality);
  std::set<Bytes> cuts;  // in pages
  for (const Range& range : ranges) {
    if (range.end > range.start) {
      cuts.insert(range.start / page_bytes);
      cuts.insert((range.end + page_bytes - 1) / page_bytes);
    }
  }
  Arena arena;
  arena.trace.model = trace.model;
  arena.trace.batch_size = trace.batch_size;
  const std::vector<Bytes> edges(cuts.begin(), cuts.end());
  for (std::size_t i = 0; i + 1 < edges.size(); ++i) {
    arena.trace.tensors.push_back(
        {.bytes = (edges[i + 1] - edges[i]) * page_bytes, .persistent = true});
  }
  const auto piece_at = [&](Bytes page) {
    return static_cast<TensorId>(std::lower_bound(edges.begin(), edges.end(), page) -
                                 edges.begin());
  };
  std::vector<std::vector<TensorId>> tenants(arena.trace.tensors.size());
  arena.shared.assign(tenants.size(), false);
  for (TensorId id = 0; id < ranges.size(); ++id) {
    const Range& range = ranges[id];
    if (range.end == range.start) {
      arena.pieces.emplace_back(0, 0);
      continue;
    }
    arena.pieces.emplace_back(piece_at(range.start / page_bytes),
                              piece_at((range.end + page_bytes - 1) / page_bytes));
    for (TensorId piece = arena.pieces[id].first; piece < arena.pieces[id].second; ++piece) {
      for (const TensorId other : tenants[piece]) {
        arena.shared[piece] = arena.shared[piece] || live_at_once(trace, vitality, id, other);
      }
      tenants[piece].push_back(id);
    }
  }
  for (const Kernel& kernel : trace.kernels) {
    Kernel over = kernel;
    over.reads = pieces_of(kernel.reads, arena);
    over.writes = pieces_of(kernel.writes, arena);
    arena.trace.kernels.push_back(std::move(over));
  }
  return arena;
}

Plan plan_of_arena(const Plan& plan, const Arena& arena) {
  Plan made = plan;
  for (std::vector<PlanAction>& steps : made.before) {
    const std::vector<PlanAction> of_tensors = std::exchange(steps, {});
    for (const PlanAction& action : of_tensors) {
      const auto [first, last] = arena.pieces[action.tensor];
      for (TensorId piece = first; piece < last && action.step != PlanStep::kFree; ++piece) {
        if (action.step != PlanStep::kPreEvict || !arena.shared[piece]) {
          steps.push_back({action.step, piece, action.to});
        }
      }
    }
  }
  return made;
}

}  // namespace spillway::reproduce
