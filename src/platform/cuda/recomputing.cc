// See recomputing.h.
#include "platform/cuda/recomputing.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace spillway::cuda {
namespace {

bool names(std::span<const Access> accesses, AllocationId id) {
  return std::any_of(accesses.begin(), accesses.end(),
                     [id](const Access& access) { return access.allocation == id; });
}

}  // namespace

// --- What is known ------------------------------------------------------------------------------

// Whether what was put on its stream last has not ended.
bool Recomputing::is_under_way(const Entry& entry) const {
  return launches_.stream(entry.maker.stream).ended < entry.number;
}

// A kernel whose results are compared again and again and seldom given up, or only in vain, is left
// alone, but for one in a while: what is worth it changes with the program.
bool Recomputing::worth_it(std::uint64_t kind) const {
  constexpr std::uint64_t kTries = 16;
  constexpr std::uint64_t kTriesForUse = 8;
  constexpr std::uint64_t kOnceIn = 64;
  const auto found = worth_.find(kind);
  return found == worth_.end() ||
         found->second.gone < kTries + kTriesForUse * found->second.useful ||
         found->second.left_alone % kOnceIn == kOnceIn - 1;
}

bool Recomputing::are_same(const Entry& entry) const {
  const std::uint64_t* const first = words_ + std::size_t{2} * kFingerprintWords * entry.place;
  return std::equal(first, first + kFingerprintWords, first + kFingerprintWords);
}

// --- Memory -------------------------------------------------------------------------------------

void Recomputing::born(AllocationId id) {
  new_.resize(std::max(new_.size(), id + std::size_t{1}));
  new_[id] = true;
}

std::optional<Recomputing::Step> Recomputing::before_death(AllocationId id) const {
  if (const auto found = entries_.find(id); found != entries_.end()) {
    const Entry& entry = found->second;
    // Whoever gets the memory next is ordered behind the program's launches, not behind ours.
    const bool unordered = entry.state == State::kRemade && !entry.named_since;
    if (entry.busy || (unordered && is_under_way(entry))) {
      return Step{.what = Step::What::kWait, .id = id};
    }
  }
  const auto found = sources_.find(id);
  if (found == sources_.end()) {
    return std::nullopt;
  }
  for (const AllocationId made : found->second.of) {
    const Entry& entry = entries_.at(made);
    if (entry.state == State::kGivenUp && !entry.busy) {
      return Step{.what = Step::What::kRemake, .id = made, .vain = true};
    }
    const Named& named = found->second.named;
    const bool ordered = named.stream == entry.maker.stream && named.number > entry.number;
    if (entry.busy || (entry.state == State::kRemade && !ordered && is_under_way(entry))) {
      return Step{.what = Step::What::kWait, .id = made};
    }
  }
  return std::nullopt;
}

void Recomputing::dies(AllocationId id, Lost& lost) {
  if (id < new_.size()) {
    new_[id] = false;
  }
  lose(id, lost);
  lose_made_of(id, lost);
}

// Nothing can be made of it any more.
void Recomputing::lose_made_of(AllocationId id, Lost& lost) {
  const auto found = sources_.find(id);
  if (found == sources_.end()) {
    return;
  }
  const std::vector<AllocationId> made = found->second.of;
  for (const AllocationId it : made) {
    lose(it, lost);
  }
}

// What it holds is memory like any other.
void Recomputing::lose(AllocationId id, Lost& lost) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) {
    return;
  }
  const Entry& entry = found->second;
  if (entry.state == State::kSure) {
    lost.push_back(id);
  }
  std::erase(doubted_, id);
  std::erase(comparing_, id);
  if (entry.place != kNoIndex) {
    free_places_.push_back(entry.place);
    ++worth_[entry.maker.kind].gone;
  }
  for (const AllocationId source : entry.maker.read_ids) {
    const auto of = sources_.find(source);
    std::erase(of->second.of, id);
    if (of->second.of.empty()) {
      sources_.erase(of);
    }
  }
  entries_.erase(found);
}

// --- Launches -----------------------------------------------------------------------------------

// Before a launch names it that may write it or not.
std::optional<Recomputing::Step> Recomputing::before_use(AllocationId id, const Entry& entry,
                                                         bool may_write, StreamId stream) const {
  if (entry.busy) {
    return Step{.what = Step::What::kWait, .id = id};
  }
  switch (entry.state) {
    case State::kGivenUp:
      return Step{.what = Step::What::kRemake, .id = id};
    case State::kRemade:
      if (stream != entry.maker.stream && is_under_way(entry)) {
        return Step{.what = Step::What::kWait, .id = id};
      }
      return std::nullopt;
    case State::kMade:
      if (may_write && stream == entry.maker.stream && words_ != nullptr &&
          worth_it(entry.maker.kind)) {
        return Step{.what = Step::What::kMark, .id = id};
      }
      return std::nullopt;
    case State::kMarked:
    case State::kDoubted:
    case State::kComparing:
    case State::kSure:
      return std::nullopt;
  }
  return std::nullopt;
}

// Before a launch that may write what others were made of.
std::optional<Recomputing::Step> Recomputing::before_change(AllocationId id,
                                                            StreamId stream) const {
  const auto found = sources_.find(id);
  if (found == sources_.end()) {
    return std::nullopt;
  }
  for (const AllocationId made : found->second.of) {
    const Entry& entry = entries_.at(made);
    if (entry.state == State::kGivenUp && !entry.busy) {
      return Step{.what = Step::What::kRemake, .id = made, .vain = true};
    }
    if (entry.busy ||
        (entry.state == State::kRemade && stream != entry.maker.stream && is_under_way(entry))) {
      return Step{.what = Step::What::kWait, .id = made};
    }
  }
  return std::nullopt;
}

std::optional<Recomputing::Step> Recomputing::before_launch(std::span<const Access> accesses,
                                                            StreamId stream, bool ours) const {
  if (entries_.empty()) {
    return std::nullopt;
  }
  for (const Access& access : accesses) {
    // What ours overwrites it makes again; what it reads it does not change.
    if (ours && writes(access.mode)) {
      continue;
    }
    if (const auto found = entries_.find(access.allocation); found != entries_.end()) {
      const Entry& entry = found->second;
      const bool there = entry.state != State::kGivenUp && entry.state != State::kRemade;
      const std::optional<Step> step =
          ours && there ? std::nullopt
                        : before_use(access.allocation, entry, writes(access.mode), stream);
      if (step) {
        return step;
      }
    }
    if (!ours && writes(access.mode)) {
      if (const std::optional<Step> step = before_change(access.allocation, stream)) {
        return step;
      }
    }
  }
  for (const AllocationId id : doubted_) {
    const Entry& entry = entries_.at(id);
    if (!ours && !entry.busy && entry.maker.stream == stream && !names(accesses, id)) {
      return Step{.what = Step::What::kCompare, .id = id};
    }
  }
  return std::nullopt;
}

void Recomputing::issued(std::span<const Access> accesses, StreamId stream, std::uint64_t number,
                         Lost& lost) {
  for (const Access& access : accesses) {
    const AllocationId id = access.allocation;
    if (id < new_.size()) {
      new_[id] = false;
    }
    if (entries_.empty()) {
      continue;
    }
    if (const auto source = sources_.find(id); source != sources_.end()) {
      source->second.named = {.stream = stream, .number = number};
      if (writes(access.mode)) {
        lose_made_of(id, lost);
      }
    }
    const auto found = entries_.find(id);
    if (found == entries_.end()) {
      continue;
    }
    Entry& entry = found->second;
    assert(entry.state != State::kGivenUp && !entry.busy);
    if (entry.state == State::kRemade) {
      entry.named_since = true;
    } else if (stream != entry.maker.stream) {
      lose(id, lost);
    } else if (writes(access.mode)) {
      if (entry.state == State::kMarked) {
        entry.state = State::kDoubted;
        doubted_.push_back(id);
      } else if (entry.state != State::kDoubted) {
        worth_[entry.maker.kind].left_alone += entry.state == State::kMade ? 1 : 0;
        lose(id, lost);
      }
    }
  }
}

void Recomputing::made(AllocationId id, Maker maker) {
  assert(!entries_.contains(id));
  for (const AllocationId source : maker.read_ids) {
    sources_[source].of.push_back(id);
  }
  entries_[id].maker = std::move(maker);
}

// --- Steps --------------------------------------------------------------------------------------

std::optional<Recomputing::Step> Recomputing::before_end(std::optional<StreamId> stream) const {
  for (const auto& [id, entry] : entries_) {
    if (stream && entry.maker.stream != *stream) {
      continue;
    }
    if (entry.busy || entry.state == State::kGivenUp) {
      return Step{.what = entry.busy ? Step::What::kWait : Step::What::kRemake, .id = id};
    }
  }
  return std::nullopt;
}

void Recomputing::end(std::optional<StreamId> stream, Lost& lost) {
  std::vector<AllocationId> ended;
  for (const auto& [id, entry] : entries_) {
    // What has been made again may yet be waited for.
    if ((!stream || entry.maker.stream == *stream) && entry.state != State::kRemade) {
      ended.push_back(id);
    }
  }
  for (const AllocationId id : ended) {
    lose(id, lost);
  }
}

bool Recomputing::begin(const Step& step, Lost& lost) {
  Entry& entry = entries_.at(step.id);
  if (step.what == Step::What::kMark) {
    if (free_places_.empty() && places_ < kPlaces) {
      free_places_.push_back(places_++);
    }
    if (free_places_.empty()) {
      lose(step.id, lost);
      return false;
    }
    entry.place = free_places_.back();
    free_places_.pop_back();
  }
  if (step.vain) {
    --worth_[entry.maker.kind].useful;
  }
  entry.busy = true;
  return true;
}

std::size_t Recomputing::words_of(const Step& step) const {
  return kFingerprintWords * (std::size_t{2} * entries_.at(step.id).place +
                              (step.what == Step::What::kCompare ? 1 : 0));
}

void Recomputing::done(const Step& step, std::uint64_t number) {
  const auto found = entries_.find(step.id);
  if (found == entries_.end()) {
    return;  // its context has ended meanwhile
  }
  Entry& entry = found->second;
  entry.busy = false;
  entry.number = number;
  switch (step.what) {
    case Step::What::kMark:
      entry.state = State::kMarked;
      return;
    case Step::What::kCompare:
      entry.state = State::kComparing;
      std::erase(doubted_, step.id);
      comparing_.push_back(step.id);
      return;
    case Step::What::kRemake:
      entry.state = State::kRemade;
      entry.named_since = false;
      ++remade_;
      return;
    case Step::What::kWait:
      return;
  }
}

void Recomputing::refused(const Step& step, Lost& lost) { lose(step.id, lost); }

void Recomputing::compare(std::vector<AllocationId>& sure) {
  Lost lost;
  const std::vector<AllocationId> under_way = comparing_;
  for (const AllocationId id : under_way) {
    Entry& entry = entries_.at(id);
    if (is_under_way(entry)) {
      continue;
    }
    if (!are_same(entry)) {
      lose(id, lost);
      continue;
    }
    std::erase(comparing_, id);
    entry.state = State::kSure;
    sure.push_back(id);
  }
}

void Recomputing::gave_up(AllocationId id) {
  Entry& entry = entries_.at(id);
  assert(entry.state == State::kSure && !entry.busy);
  entry.state = State::kGivenUp;
  ++worth_[entry.maker.kind].useful;
}

bool Recomputing::at_rest() const {
  return std::none_of(entries_.begin(), entries_.end(), [this](const auto& it) {
    const Entry& entry = it.second;
    return entry.busy || entry.state == State::kGivenUp || is_under_way(entry);
  });
}

void Recomputing::forget_all(Lost& lost) {
  while (!entries_.empty()) {
    lose(entries_.begin()->first, lost);
  }
  new_.clear();
}

Status Recomputing::check() const {
  for (const auto& [id, entry] : entries_) {
    for (const AllocationId source : entry.maker.read_ids) {
      const auto of = sources_.find(source);
      if (of == sources_.end() || std::count(of->second.of.begin(), of->second.of.end(), id) != 1) {
        return make_error(ErrorCode::kDefect,
                          "invariant broken: allocation {} is made of {}, which does not know", id,
                          source);
      }
    }
    const bool doubted = std::count(doubted_.begin(), doubted_.end(), id) == 1;
    const bool comparing = std::count(comparing_.begin(), comparing_.end(), id) == 1;
    if (doubted != (entry.state == State::kDoubted) ||
        comparing != (entry.state == State::kComparing)) {
      return make_error(ErrorCode::kDefect,
                        "invariant broken: the fingerprints of allocation {} are not counted", id);
    }
  }
  return {};
}

}  // namespace spillway::cuda
