// Repeated names, and cuts where little leads on. See forward_blocks.h.
#include "analysis/forward_blocks.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>

#include "analysis/sweep.h"

namespace spillway {

// `period` kernels again and again from `begin` on, until before `end`.
struct ForwardBlocks::Stretch {
  KernelIndex begin = 0;
  KernelIndex end = 0;
  std::size_t period = 0;
};

namespace {

constexpr std::size_t kLongestPeriod = 2000;  // kernels of a layer; more would take too long
constexpr std::size_t kPeriods = 4;           // that keep the most in one stretch
constexpr Bytes kMostOfIt = 2;                // at least one in so many bytes

// The last kernel of the forward pass that uses each tensor, and the last that writes it.
struct ForwardUses {
  std::vector<KernelIndex> last_use;
  std::vector<KernelIndex> last_write;
};

ForwardUses forward_uses(const Trace& trace, const Pass& pass) {
  ForwardUses uses{std::vector<KernelIndex>(trace.tensors.size(), 0),
                   std::vector<KernelIndex>(trace.tensors.size(), 0)};
  for (KernelIndex kernel = pass.begin; kernel < pass.turn; ++kernel) {
    for (const TensorId id : trace.kernels[kernel].reads) {
      uses.last_use[id] = kernel;
    }
    for (const TensorId id : trace.kernels[kernel].writes) {
      uses.last_use[id] = uses.last_write[id] = kernel;
    }
  }
  return uses;
}

}  // namespace

ForwardBlocks::ForwardBlocks(const Trace& trace, const Vitality& vitality, const Pass& pass)
    : begin_(pass.begin), end_(pass.turn), kept_(end_ - begin_ + 1, 0) {
  std::unordered_map<std::string_view, std::size_t> numbers;
  for (KernelIndex kernel = begin_; kernel < end_; ++kernel) {
    names_.push_back(numbers.try_emplace(trace.kernels[kernel].name, numbers.size()).first->second);
  }
  const ForwardUses uses = forward_uses(trace, pass);
  Sweep leads_on(kept_.size());
  for (TensorId id = 0; id < trace.tensors.size(); ++id) {
    const auto& life = vitality.lives[id];
    if (trace.tensors[id].persistent || !life || life->first_use < begin_ ||
        life->first_use >= end_) {
      continue;
    }
    const Bytes bytes = trace.tensors[id].bytes;
    const KernelIndex born = life->first_use - begin_;
    leads_on.add(born + 1, uses.last_use[id] - begin_ + 1, bytes);
    // What is changed in place behind a cut cannot be computed from again: it counts twice.
    leads_on.add(born + 1, std::max(uses.last_write[id], life->first_use) - begin_ + 1, bytes);
    if (life->last_use >= end_) {
      kept_[born + 1] += bytes;
    }
  }
  for (std::size_t i = 1; i < kept_.size(); ++i) {
    kept_[i] += kept_[i - 1];
  }
  leads_on_ = leads_on.totals();
}

Bytes ForwardBlocks::kept(KernelIndex from, KernelIndex to) const {
  return kept_[to - begin_] - kept_[from - begin_];
}

// The first of the places with the fewest bytes that lead on.
KernelIndex ForwardBlocks::narrowest(KernelIndex from, KernelIndex to) const {
  const auto first = leads_on_.begin() + (from - begin_);
  return from + static_cast<KernelIndex>(
                    std::min_element(first, leads_on_.begin() + (to - begin_ + 1)) - first);
}

// Whole periods, from where cuts hold the least.
std::vector<ForwardBlock> ForwardBlocks::cut(const Stretch& stretch) const {
  const auto period = static_cast<KernelIndex>(stretch.period);
  KernelIndex best = stretch.begin;
  Bytes least = 0;
  for (KernelIndex offset = 0; offset < period; ++offset) {
    Bytes held = 0;  // at the same number of places, whatever the offset
    for (KernelIndex at = stretch.begin + offset; at + period <= stretch.end; at += period) {
      held = std::max(held, leads_on_[at - begin_]);
    }
    if (offset == 0 || (held < least && stretch.begin + offset + 2 * period <= stretch.end)) {
      best = stretch.begin + offset;
      least = held;
    }
  }
  std::vector<ForwardBlock> blocks;
  for (KernelIndex at = best; at + period <= stretch.end; at += period) {
    blocks.push_back({at, at + period});
  }
  return blocks;
}

// All stretches of at least two periods, by period.
std::vector<ForwardBlocks::Stretch> ForwardBlocks::stretches() const {
  std::vector<Stretch> found;
  const std::size_t longest = std::min<std::size_t>(kLongestPeriod, names_.size() / 2);
  for (std::size_t period = 2; period <= longest; ++period) {
    const auto step = static_cast<KernelIndex>(period);
    KernelIndex alike = 0;  // so many kernels before this are as those a period later
    for (KernelIndex at = begin_; at + step <= end_; ++at) {
      if (at + step < end_ && names_[at - begin_] == names_[at + step - begin_]) {
        ++alike;
        continue;
      }
      if (alike >= step) {
        found.push_back({at - alike, at + step, period});
      }
      alike = 0;
    }
  }
  return found;
}

// What the repetitions keep, without the first period: of one stretch, twice as long periods keep
// less so.
Bytes ForwardBlocks::repeats(const Stretch& stretch) const {
  return kept(stretch.begin, stretch.end - static_cast<KernelIndex>(stretch.period));
}

// Those that lie apart from each other, the ones that keep most first, with periods up to twice as
// long; in order.
std::vector<ForwardBlocks::Stretch> ForwardBlocks::alike(const std::vector<Stretch>& by_kept,
                                                         std::size_t period) const {
  std::vector<Stretch> chosen;
  for (const Stretch& stretch : by_kept) {
    const bool apart = std::all_of(chosen.begin(), chosen.end(), [&](const Stretch& other) {
      return stretch.end <= other.begin || other.end <= stretch.begin;
    });
    if (apart && stretch.period >= period && stretch.period <= 2 * period) {
      chosen.push_back(stretch);
    }
  }
  std::sort(chosen.begin(), chosen.end(),
            [](const Stretch& a, const Stretch& b) { return a.begin < b.begin; });
  return chosen;
}

// Blocks of the stretches and, as one each, what lies between them.
std::vector<ForwardBlock> ForwardBlocks::cut_all(const std::vector<Stretch>& stretches) const {
  std::vector<ForwardBlock> blocks;
  for (const Stretch& stretch : stretches) {
    for (const ForwardBlock& block : cut(stretch)) {
      if (!blocks.empty() && blocks.back().end < block.begin) {
        blocks.push_back({blocks.back().end, block.begin});
      }
      blocks.push_back(block);
    }
  }
  return blocks;
}

// The first of a network's layers often has a kernel more, and so has the last. What lies before
// and behind the blocks becomes one, of half a period to one and a half, if there is so much.
void ForwardBlocks::add_ends(std::vector<ForwardBlock>& blocks, KernelIndex period) const {
  const KernelIndex half = std::max<KernelIndex>(period / 2, 1);
  const KernelIndex first = blocks.front().begin;
  const KernelIndex last = blocks.back().end;
  if (first - begin_ > half) {
    const KernelIndex most = std::min(first - begin_, 3 * half);
    blocks.insert(blocks.begin(), {narrowest(first - most, first - half), first});
  }
  if (end_ - last > half) {
    const KernelIndex most = std::min(end_ - last, 3 * half);
    blocks.push_back({last, narrowest(last + half, last + most)});
  }
}

std::vector<std::vector<ForwardBlock>> ForwardBlocks::repeated() const {
  std::vector<Stretch> by_kept = stretches();
  std::stable_sort(by_kept.begin(), by_kept.end(),
                   [&](const Stretch& a, const Stretch& b) { return repeats(a) > repeats(b); });
  std::set<std::size_t> periods;
  for (const Stretch& stretch : by_kept) {
    if (periods.size() < kPeriods) {
      periods.insert(stretch.period);
    }
  }
  std::vector<std::vector<ForwardBlock>> choices;
  for (const std::size_t period : periods) {
    std::vector<ForwardBlock> blocks = cut_all(alike(by_kept, period));
    add_ends(blocks, static_cast<KernelIndex>(period));
    if (kMostOfIt * kept(blocks.front().begin, blocks.back().end) >= kept(begin_, end_)) {
      choices.push_back(std::move(blocks));
    }
  }
  return choices;
}

std::vector<ForwardBlock> ForwardBlocks::even(std::size_t parts) const {
  std::vector<KernelIndex> cuts{begin_};
  const auto at_share = [&](std::size_t halves) {
    const Bytes share = kept_.back() / (2 * parts) * halves;
    return begin_ + static_cast<KernelIndex>(std::lower_bound(kept_.begin(), kept_.end(), share) -
                                             kept_.begin());
  };
  for (std::size_t part = 1; part < parts; ++part) {
    const KernelIndex from = std::max(at_share(2 * part - 1), cuts.back());
    const KernelIndex to = std::min(at_share(2 * part + 1), end_);
    if (const KernelIndex at = from < to ? narrowest(from, to) : from; at > cuts.back()) {
      cuts.push_back(at);
    }
  }
  std::vector<ForwardBlock> blocks;
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    blocks.push_back({cuts[i], i + 1 < cuts.size() ? cuts[i + 1] : end_});
  }
  std::erase_if(blocks, [](const ForwardBlock& block) { return block.begin == block.end; });
  return blocks;
}

}  // namespace spillway
