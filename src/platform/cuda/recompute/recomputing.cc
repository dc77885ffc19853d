// See recomputing.h.
#include "platform/cuda/recompute/recomputing.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace spillway::cuda {
namespace {

bool is_made_of(const Recomputing::Maker& maker, const Access& access) {
  return std::any_of(maker.sources.begin(), maker.sources.end(),
                     [&](const Recomputing::Source& source) { return source.is_of(access); });
}

bool names(std::span<const Access> accesses, AllocationId id) {
  return std::any_of(accesses.begin(), accesses.end(),
                     [id](const Access& access) { return access.allocation == id; });
}

// What a stream is behind of when it asks, the kernel may read: what it reads was there before the
// program let that stream use what it makes. But a kernel is one of its context's, and behind one
// handle each thread has a stream of its own.
StreamId stream_for(const DeviceLaunches& launches, const Recomputing::Maker& maker,
                    StreamId asking) {
  const bool fits = !maker.kept.on_its_stream &&
                    launches.context_of(asking) == launches.context_of(maker.stream) &&
                    !is_per_thread(launches.stream(asking).handle);
  return fits ? asking : maker.stream;
}

}  // namespace

// --- Memory -------------------------------------------------------------------------------------

void Recomputing::born(AllocationId id) {
  new_.add(id);
  exposed_.remove(id);
}

// Whoever gets the memory next is ordered behind the program's launches, and behind ours only on
// the same stream.
std::optional<Recomputing::Step> Recomputing::before_death(AllocationId id,
                                                           const Death& death) const {
  const auto in_the_way = [&](const Entry& entry) {
    return entry.busy || (death.handed_on && entry.has_writer() && entry.is_under_way(launches_) &&
                          death.next_on != entry.stream);
  };
  if (const auto found = entries_.find(id); found != entries_.end() && in_the_way(found->second)) {
    return Step{.what = Step::What::kWait, .id = id};
  }
  return before_loss({.allocation = id}, std::nullopt, in_the_way);
}

// What is given up and made of this, is made again: on the stream that asks, or its own.
template <typename InTheWay>
std::optional<Recomputing::Step> Recomputing::before_loss(const Access& access,
                                                          std::optional<StreamId> asking,
                                                          const InTheWay& in_the_way) const {
  const auto found = makes_.find(access.allocation);
  if (found == makes_.end()) {
    return std::nullopt;
  }
  for (const AllocationId made : found->second) {
    const Entry& entry = entries_.at(made);
    if (!is_made_of(entry.maker, access)) {
      continue;
    }
    if (entry.state == State::kGivenUp && !entry.busy) {
      return Step{
          .what = Step::What::kRemake,
          .id = made,
          .stream = asking ? stream_for(launches_, entry.maker, *asking) : entry.maker.stream,
          .vain = true};
    }
    if (in_the_way(entry)) {
      return Step{.what = Step::What::kWait, .id = made};
    }
  }
  return std::nullopt;
}

void Recomputing::dies(AllocationId id) {
  new_.remove(id);
  lose(id);
  lose_made_of({.allocation = id});
  exposed_.remove(id);
}

std::optional<Recomputing::Step> Recomputing::before_divide(AllocationId id) const {
  const auto found = entries_.find(id);
  if (found == entries_.end()) {
    return std::nullopt;
  }
  const Entry& entry = found->second;
  if (entry.busy) {
    return Step{.what = Step::What::kWait, .id = id};
  }
  return entry.state == State::kGivenUp ? std::optional(Step{.what = Step::What::kRemake,
                                                             .id = id,
                                                             .stream = entry.maker.stream,
                                                             .vain = true})
                                        : std::nullopt;
}

// Who is about to issue the launch that makes it may have found it undivided.
void Recomputing::divided(AllocationId id) {
  new_.remove(id);
  lose(id);
}

// Nothing can be made of it any more. What is being made of it will be, and whoever uses that on
// another stream waits.
void Recomputing::lose_made_of(const Access& access) {
  const auto found = makes_.find(access.allocation);
  if (found == makes_.end()) {
    return;
  }
  const std::vector<AllocationId> made = found->second;
  for (const AllocationId it : made) {
    const Entry& entry = entries_.at(it);
    if (is_made_of(entry.maker, access)) {
      assert(entry.state != State::kGivenUp);
      if (!entry.has_writer()) {
        lose(it);
      }
    }
  }
}

// What it holds is memory like any other.
void Recomputing::lose(AllocationId id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) {
    return;
  }
  Entry& entry = found->second;
  if (entry.state == State::kSure) {
    engine_.set_recomputable(id, false);
  }
  if (entry.state == State::kMarked || entry.state == State::kDoubted ||
      entry.state == State::kComparing || entry.state == State::kSure) {
    ++kinds_.learn(entry.maker.kept.kind).gone;
  }
  if (entry.state == State::kTrying && entry.busy) {
    kinds_.learn(entry.maker.kept.kind).writes = KernelKind::Writes::kUnknown;  // nobody will tell
  }
  if (entry.has_writer() && !entry.busy && entry.is_under_way(launches_)) {
    reads_.add(entry.maker.sources, entry.stream, entry.number);
  }
  std::erase(doubted_, id);
  std::erase(ending_, id);
  leave_place(entry);
  for (const Source& source : entry.maker.sources) {
    const auto of = makes_.find(source.id);
    if (of == makes_.end()) {
      continue;  // of two parts of one allocation the second
    }
    std::erase(of->second, id);
    if (of->second.empty()) {
      makes_.erase(of);
    }
  }
  entries_.erase(found);
}

// --- Launches -----------------------------------------------------------------------------------

// Before any launch names it.
std::optional<Recomputing::Step> Recomputing::before_use(AllocationId id, const Entry& entry,
                                                         StreamId stream) const {
  if (entry.busy) {
    return Step{.what = Step::What::kWait, .id = id};
  }
  switch (entry.state) {
    case State::kGivenUp:
      return Step{.what = Step::What::kRemake,
                  .id = id,
                  .stream = stream_for(launches_, entry.maker, stream)};
    case State::kTrying:
    case State::kRemaking:
      if (stream != entry.stream && entry.is_under_way(launches_)) {
        return Step{.what = Step::What::kWait, .id = id};
      }
      return std::nullopt;
    case State::kMade:
    case State::kMarked:
    case State::kDoubted:
    case State::kComparing:
    case State::kSure:
      return std::nullopt;
  }
  return std::nullopt;
}

// Before the program names it, on the stream where it was made, as nobody has who may have written
// it.
std::optional<Recomputing::Step> Recomputing::before_doubt(AllocationId id, const Entry& entry,
                                                           bool may_write) const {
  const KernelKind& kind = kinds_.of(entry.maker.kept.kind);
  if (entry.state == State::kMade && kind.writes == KernelKind::Writes::kUnknown &&
      kinds_.may_try()) {
    // To be tried it is written over.
    const std::optional<Step> first = before_change({.allocation = id}, entry.maker.stream);
    return first ? first : Step{.what = Step::What::kTry, .id = id, .stream = entry.maker.stream};
  }
  const bool undoubted =
      entry.state == State::kMade || (entry.state == State::kSure && !entry.compared);
  if (undoubted && may_write && kind.writes == KernelKind::Writes::kAll && kind.is_worth_it()) {
    return Step{.what = Step::What::kMark, .id = id, .stream = entry.maker.stream};
  }
  return std::nullopt;
}

// Before a launch that may write what others were made of.
std::optional<Recomputing::Step> Recomputing::before_change(const Access& access,
                                                            StreamId stream) const {
  if (reads_.are_elsewhere(access, stream)) {
    return Step{.what = Step::What::kWait, .id = access.allocation};
  }
  return before_loss(access, stream, [&](const Entry& entry) {
    return entry.busy ||
           (entry.has_writer() && stream != entry.stream && entry.is_under_way(launches_));
  });
}

std::vector<Access> Recomputing::with_reached(std::span<const Access> accesses) const {
  std::vector<Access> all(accesses.begin(), accesses.end());
  const auto add = [&](AllocationId id) {
    if (exposed_.has(id)) {
      all.push_back({.allocation = id, .mode = AccessMode::kReadWrite});
    }
  };
  for (const auto& [id, made] : makes_) {
    add(id);
  }
  for (const auto& [id, entry] : entries_) {
    add(id);
  }
  return all;
}

std::optional<Recomputing::Step> Recomputing::before_launch(std::span<const Access> accesses,
                                                            StreamId stream,
                                                            AllocationId of) const {
  if (entries_.empty() && reads_.empty()) {
    return std::nullopt;
  }
  const bool ours = of != kNoAllocation;
  for (const Access& access : accesses) {
    if (access.allocation == of) {
      continue;
    }
    const bool may_write = writes(access.mode) && !ours;
    if (may_write) {
      if (std::optional<Step> step = before_change(access, stream)) {
        return step;
      }
    }
    if (const auto found = entries_.find(access.allocation); found != entries_.end()) {
      const Entry& entry = found->second;
      std::optional<Step> step = before_use(access.allocation, entry, stream);
      if (!step && !ours && stream == entry.maker.stream) {
        step =
            before_doubt(access.allocation, entry, may_write && access.mode != AccessMode::kExpose);
      }
      if (step) {
        return step;
      }
    }
  }
  for (const AllocationId id : doubted_) {
    const Entry& entry = entries_.at(id);
    // It may be named once more soon: by two kernels of a norm, one of which takes statistics.
    // Another thread may not have made the launch yet behind which this must stand.
    const bool behind = launches_.stream(entry.maker.stream).made >= entry.doubt &&
                        issued_on_[entry.maker.stream] >= entry.doubt_count + kLaunchesBetween;
    if (!ours && !entry.busy && behind && entry.maker.stream == stream && !names(accesses, id)) {
      return Step{.what = Step::What::kCompare, .id = id, .stream = stream};
    }
  }
  return std::nullopt;
}

bool Recomputing::is_sure(AllocationId id) const {
  const auto found = entries_.find(id);
  return found != entries_.end() && found->second.state == State::kSure;
}

std::vector<AllocationId> Recomputing::withhold(std::span<const Access> accesses) {
  std::vector<AllocationId> withheld;
  if (entries_.empty()) {
    return withheld;
  }
  const auto take = [&](AllocationId id) {
    if (is_sure(id)) {
      engine_.set_recomputable(id, false);
      withheld.push_back(id);
    }
  };
  for (const Access& access : accesses) {
    take(access.allocation);
    if (const auto made = makes_.find(access.allocation);
        made != makes_.end() && writes(access.mode)) {
      for (const AllocationId it : made->second) {
        if (is_made_of(entries_.at(it).maker, access)) {
          take(it);
        }
      }
    }
  }
  return withheld;
}

void Recomputing::offer(std::span<const AllocationId> withheld) {
  for (const AllocationId id : withheld) {
    engine_.set_recomputable(id, is_sure(id));
  }
  for (const AllocationId id : newly_sure_) {
    engine_.set_recomputable(id, is_sure(id));
  }
  newly_sure_.clear();
}

std::uint64_t Recomputing::last_remake(std::span<const Access> accesses, StreamId stream) const {
  std::uint64_t last = 0;
  for (const Access& access : accesses) {
    const auto found = entries_.find(access.allocation);
    if (found != entries_.end() && found->second.has_writer() && found->second.stream == stream &&
        found->second.is_under_way(launches_)) {
      last = std::max(last, found->second.number);
    }
  }
  return last;
}

void Recomputing::issued(std::span<const Access> accesses, StreamId stream, std::uint64_t number) {
  issued_on_.resize(std::max(issued_on_.size(), stream + std::size_t{1}));
  ++issued_on_[stream];
  for (const Access& access : accesses) {
    const AllocationId id = access.allocation;
    new_.remove(id);
    if (access.mode == AccessMode::kExpose) {
      exposed_.add(id);
    }
    if (entries_.empty()) {
      continue;
    }
    if (writes(access.mode)) {
      lose_made_of(access);
    }
    const auto found = entries_.find(id);
    if (found == entries_.end() || found->second.has_writer()) {
      continue;
    }
    Entry& entry = found->second;
    assert(entry.state != State::kGivenUp && !entry.busy);
    if (stream != entry.maker.stream) {
      lose(id);
    } else if (writes(access.mode)) {
      const bool in_doubt = entry.state == State::kMarked || entry.state == State::kDoubted;
      if (in_doubt && access.mode != AccessMode::kExpose) {  // others may write it later
        if (std::exchange(entry.state, State::kDoubted) == State::kMarked) {
          doubted_.push_back(id);
        }
        entry.doubt = number;
        entry.doubt_count = issued_on_[stream];
      } else {
        kinds_.learn(entry.maker.kept.kind).left_alone += entry.state == State::kMade ? 1 : 0;
        lose(id);
      }
    } else if (entry.state == State::kMade) {
      only_read(id, entry);
    }
  }
}

// Where that is known of a launch, what it leaves behind needs no fingerprints.
void Recomputing::only_read(AllocationId id, Entry& entry) {
  KernelKind& kind = kinds_.learn(entry.maker.kept.kind);
  if (kind.writes != KernelKind::Writes::kAll) {
    return;
  }
  if (!kind.is_worth_it()) {
    ++kind.left_alone;
    lose(id);
    return;
  }
  kind.left_alone += kind.left_alone > 0 ? 1 : 0;
  entry.state = State::kSure;
  newly_sure_.push_back(id);
}

void Recomputing::spoiled(AllocationId id) {
  const auto found = entries_.find(id);
  if (found != entries_.end() && found->second.state == State::kMade && !found->second.busy) {
    lose(id);
  }
}

void Recomputing::made(AllocationId id, Maker maker) {
  assert(!entries_.contains(id));
  for (const Source& source : maker.sources) {
    std::vector<AllocationId>& made_of = makes_[source.id];
    if (std::find(made_of.begin(), made_of.end(), id) == made_of.end()) {
      made_of.push_back(id);
    }
  }
  entries_[id].maker = std::move(maker);
}

void Recomputing::not_made(StreamId stream, std::uint64_t number) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const auto& it) {
    return it.second.maker.stream == stream && it.second.maker.number == number;
  });
  if (found != entries_.end()) {
    lose(found->first);
  }
}

// --- Steps --------------------------------------------------------------------------------------

std::optional<Recomputing::Step> Recomputing::before_end(std::optional<StreamId> stream) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const auto& it) {
    const Entry& entry = it.second;
    return stream.value_or(entry.maker.stream) == entry.maker.stream &&
           (entry.busy || entry.state == State::kGivenUp);
  });
  if (found == entries_.end()) {
    return std::nullopt;
  }
  return Step{.what = found->second.busy ? Step::What::kWait : Step::What::kRemake,
              .id = found->first,
              .stream = found->second.maker.stream};
}

void Recomputing::end(std::optional<StreamId> stream) {
  std::vector<AllocationId> ended;
  for (const auto& it : entries_) {
    // What is on its way may yet be waited for.
    const StreamId its_stream = it.second.maker.stream;
    if (stream.value_or(its_stream) == its_stream && !it.second.has_writer()) {
      ended.push_back(it.first);
    }
  }
  for (const AllocationId id : ended) {
    lose(id);
  }
}

// One that a thread is about to use is nobody's any more.
void Recomputing::leave_place(Entry& entry) {
  if (entry.place != kNoIndex && !entry.busy) {
    places_.give_back(entry.place, entry.stream, entry.number);
  }
  entry.place = kNoIndex;
}

bool Recomputing::begin(const Step& step) {
  Entry& entry = entries_.at(step.id);
  if (step.what == Step::What::kMark || step.what == Step::What::kTry) {
    entry.place = places_.take(entry.maker.stream);
    if (entry.place == kNoIndex) {
      lose(step.id);
      return false;
    }
  }
  if (step.what == Step::What::kMark) {
    if (entry.state == State::kSure) {
      engine_.set_recomputable(step.id, false);
      entry.state = State::kMade;
    }
    // One that was not worth it counts as left alone, or those behind it would be marked as well.
    KernelKind& kind = kinds_.learn(entry.maker.kept.kind);
    kind.left_alone += kind.left_alone > 0 ? 1 : 0;
  }
  if (step.what == Step::What::kTry) {
    kinds_.tried();
    entry.state = State::kTrying;
    kinds_.learn(entry.maker.kept.kind).writes = KernelKind::Writes::kBeingTried;
  }
  if (step.vain) {
    KernelKind& kind = kinds_.learn(entry.maker.kept.kind);
    kind.useful -= std::min<std::uint64_t>(kind.useful, 1);
  }
  entry.busy = true;
  return true;
}

std::size_t Recomputing::words_of(AllocationId id, FingerprintPlaces::Fingerprint which) const {
  return FingerprintPlaces::words_of(entries_.at(id).place, which);
}

void Recomputing::done(const Step& step, std::uint64_t number) {
  const auto found = entries_.find(step.id);
  if (found == entries_.end()) {
    return;  // its context has ended meanwhile
  }
  Entry& entry = found->second;
  entry.busy = false;
  entry.stream = step.stream;
  entry.number = number;
  switch (step.what) {
    case Step::What::kTry:
      ending_.push_back(step.id);
      trials_.push_back({.kind = entry.maker.kept.kind,
                         .whole = entry.maker.kept.whole,
                         .name = entry.maker.name,
                         .place = std::exchange(entry.place, kNoIndex),
                         .stream = step.stream,
                         .number = number});
      return;
    case Step::What::kMark:
      entry.state = State::kMarked;
      return;
    case Step::What::kCompare:
      entry.state = State::kComparing;
      std::erase(doubted_, step.id);
      ending_.push_back(step.id);
      return;
    case Step::What::kRemake:
      entry.state = State::kRemaking;
      ending_.push_back(step.id);
      return;
    case Step::What::kWait:
      return;
  }
}

void Recomputing::refused(const Step& step) {
  const auto found = entries_.find(step.id);
  if (found == entries_.end()) {
    return;
  }
  found->second.busy = false;
  if (step.what == Step::What::kTry) {
    kinds_.learn(found->second.maker.kept.kind).writes = KernelKind::Writes::kLess;
  }
  lose(step.id);
}

Status Recomputing::look() {
  const std::vector<AllocationId> ending = ending_;
  for (const AllocationId id : ending) {
    Entry& entry = entries_.at(id);
    if (entry.is_under_way(launches_)) {
      continue;
    }
    if (entry.state != State::kComparing ||
        !places_.are_same(entry.place, FingerprintPlaces::kFirst, FingerprintPlaces::kSecond)) {
      lose(id);
      continue;
    }
    std::erase(ending_, id);
    leave_place(entry);
    entry.state = State::kSure;
    entry.compared = true;
    engine_.set_recomputable(id, true);
  }
  reads_.forget_ended();
  const auto ended = std::partition(trials_.begin(), trials_.end(), [this](const Trial& trial) {
    return launches_.stream(trial.stream).ended < trial.number;
  });
  Status fine;
  for (auto trial = ended; fine && trial != trials_.end(); ++trial) {
    fine = judge(*trial);
  }
  trials_.erase(ended, trials_.end());
  return fine;
}

// Where its context is lost, nobody knows, and what comes behind it is tried instead.
Status Recomputing::judge(const Trial& trial) {
  places_.give_back(trial.place, trial.stream, trial.number);
  KernelKind& kind = kinds_.learn(trial.kind);
  if (launches_.is_lost(launches_.context_of(trial.stream))) {
    kind.writes = KernelKind::Writes::kUnknown;
    return {};
  }
  const bool same =
      places_.are_same(trial.place, FingerprintPlaces::kFirst, FingerprintPlaces::kSecond);
  kind.writes = same ? KernelKind::Writes::kAll : KernelKind::Writes::kLess;
  if (trial.whole && !(same && places_.are_same(trial.place, FingerprintPlaces::kFirst,
                                                FingerprintPlaces::kBeforeTrial))) {
    return make_error(ErrorCode::kDefect,
                      "'{}' gave other bytes than before: run with --policy g10, which makes "
                      "nothing again, and report this",
                      trial.name);
  }
  return {};
}

void Recomputing::gave_up(AllocationId id) {
  Entry& entry = entries_.at(id);
  assert(entry.state == State::kSure && !entry.busy);
  entry.state = State::kGivenUp;
  ++kinds_.learn(entry.maker.kept.kind).useful;
  ++kinds_.learn(entry.maker.kept.kind).gone;
  kinds_.gave_up();
}

bool Recomputing::at_rest() const {
  return trials_.empty() && reads_.empty() &&
         std::none_of(entries_.begin(), entries_.end(), [this](const auto& it) {
           const Entry& entry = it.second;
           return entry.busy || entry.state == State::kGivenUp || entry.is_under_way(launches_);
         });
}

void Recomputing::forget_all() {
  while (!entries_.empty()) {
    lose(entries_.begin()->first);
  }
  new_.clear();
}

Status Recomputing::check() const {
  for (const auto& [id, entry] : entries_) {
    for (const Source& source : entry.maker.sources) {
      const auto of = makes_.find(source.id);
      if (of == makes_.end() || std::count(of->second.begin(), of->second.end(), id) != 1) {
        return make_error(ErrorCode::kDefect,
                          "invariant broken: allocation {} is made of {}, which does not know", id,
                          source.id);
      }
    }
    const bool doubted = std::count(doubted_.begin(), doubted_.end(), id) == 1;
    const bool ending = std::count(ending_.begin(), ending_.end(), id) == 1;
    const bool has_to_end = entry.state == State::kComparing || (entry.has_writer() && !entry.busy);
    if (doubted != (entry.state == State::kDoubted) || ending != has_to_end) {
      return make_error(ErrorCode::kDefect,
                        "invariant broken: the steps of allocation {} are not counted", id);
    }
  }
  return {};
}

}  // namespace spillway::cuda
