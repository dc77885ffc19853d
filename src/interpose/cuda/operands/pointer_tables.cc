// See pointer_tables.h.
#include "interpose/cuda/operands/pointer_tables.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "interpose/cuda/operands/encoded_addresses.h"
#include "interpose/cuda/operands/held_addresses.h"
#include "interpose/cuda/operands/living_tensors.h"
#include "interpose/cuda/operands/scan_words.h"
#include "interpose/cuda/operands/unlooked_memory.h"

namespace spillway::cuda {
namespace {

// Kept until the host has written over them, or the holder is freed: what a kernel has written over
// them nobody sees, and too many operands are not wrong.
struct Held {
  HeldAddresses addresses;
  std::size_t most = 64;      // before those that are nothing any more are dropped
  std::uint64_t changed = 0;  // by a count of all changes, so that no other's is the same
  // From where to where it was copied, as that was then.
  std::map<std::tuple<std::uint64_t, std::uint64_t, Bytes>, std::uint64_t> taken;
};
// By the start of the allocation that holds them.
struct Carried {
  SharedMutex mutex;
  std::unordered_map<std::uint64_t, Held> by_start SPILLWAY_GUARDED_BY(mutex);
  std::atomic<std::uint64_t> changes{0};  // one at a time
};
Carried& carried() {
  static auto* const all = new Carried;  // threads of the program may run until the very end
  return *all;
}
std::atomic<bool> any_carried{false};  // most programs have none
std::atomic<bool> waits_for_values{false};

void drop_gone(const Session& session, Held& held) SPILLWAY_REQUIRES(carried().mutex) {
  held.addresses.drop([&](const AddressRange& bytes) {
    return !session.platform->memory().may_be_again(bytes.start) &&
           !session.platform->memory().may_be_again(bytes.start + bytes.bytes - 1);
  });
}

void add(const Session& session, Held& held, const AddressRange& where, NamedMemory more,
         Beside beside) SPILLWAY_REQUIRES(carried().mutex) {
  if (held.addresses.size() > held.most) {
    drop_gone(session, held);
    held.most = std::max(held.most, 2 * held.addresses.size());
  }
  held.changed = ++carried().changes;
  if (beside == Beside::kWhatWasThere || !order_is_known()) {
    held.addresses.add_more(where, more, held.changed);
  } else {
    held.addresses.add(where, std::move(more), held.changed);
  }
  any_carried.store(true, std::memory_order_release);
}

// The bytes of this allocation that a word can mean which lies in it, or is its end. Where the
// program maps its memory itself: those of tensors, and of what is none that is known. Of other
// memory all, which who has the holder has of that as well.
void put_meant(const Session& session, std::uint64_t word, const AddressRange& allocation,
               std::uint64_t holder, NamedMemory& found) {
  const std::optional<Segments::Meant> meant =
      session.platform->placed().has_reserved() ? session.segments->meant_by(word) : std::nullopt;
  if (!meant) {
    if (allocation.start != holder) {
      found.put(allocation.start, allocation);
    }
    return;
  }
  for (const AddressRange& it : {meant->ends, meant->in.bytes > 0 ? meant->in : meant->between}) {
    const std::uint64_t start = std::max(it.start, allocation.start);
    const std::uint64_t end = std::min(it.start + it.bytes, allocation.start + allocation.bytes);
    if (start < end) {
      found.put(allocation.start, {.start = start, .bytes = end - start});
    }
  }
}

// What words that stand, or will, from one address on name.
class Scan {
 public:
  Scan(const Session& session, std::uint64_t to) : session_(session), to_(to) {
    if (const auto holder = session.platform->memory().allocation_of(to)) {
      holder_ = holder->start;
      in_space_ = true;
    }
  }
  // The allocation that has them.
  [[nodiscard]] std::uint64_t holder() const { return holder_; }
  [[nodiscard]] bool in_space() const { return in_space_; }

  void look_at(std::uint64_t word) {
    if (!session_.platform->memory().contains(word) || !looked_at_.insert(word).second) {
      return;
    }
    PointedAt named;
    session_.platform->memory().pointed_at({&word, 1}, &named);
    for (const AddressRange& range : {named.in, named.ends}) {
      if (range.bytes > 0) {
        put_meant(session_, word, range, holder_, found_);
      }
    }
    if (named.in.bytes == 0 && session_.platform->memory().may_be_again(word)) {
      dead_.push_back(word);
    }
  }
  // All of the words. Maps lie at multiples of their alignment on the device.
  void look_at_maps(std::span<const std::uint64_t> words) {
    const std::size_t skipped = round_up(to_, kTensorMapAlignment) - to_;
    if (addresses_are_encoded() && skipped % sizeof words[0] == 0 && skipped < words.size_bytes()) {
      const auto maps = words.subspan(skipped / sizeof words[0]);
      for_each_encoded(maps.data(), maps.size_bytes(),
                       [this](std::uint64_t word) { look_at(word); });
    }
  }
  [[nodiscard]] bool found_any() const { return !found_.all().empty() || !dead_.empty(); }
  // They may be copied on by any kernel that is given the holder, or computed with.
  void expose() const;
  // The program may use again what is dead there, and leave its table as it is.
  void add_dead() {
    for (const std::uint64_t word : dead_) {
      found_.put(word, {.start = word, .bytes = 1});
    }
  }
  [[nodiscard]] NamedMemory take() { return std::move(found_); }

 private:
  const Session& session_;
  std::uint64_t to_;
  std::uint64_t holder_ = kEverywhere;
  bool in_space_ = false;
  NamedMemory found_;
  std::vector<std::uint64_t> dead_;
  std::unordered_set<std::uint64_t> looked_at_;
};

void Scan::expose() const {
  std::vector<std::uint64_t> exposed;
  const auto note = [&exposed](const std::vector<AddressRange>& ranges) {
    for (const AddressRange& it : ranges) {
      exposed.push_back(it.start);
    }
  };
  for (const auto& [allocation, bytes] : found_.all()) {
    const bool is_mapped = for_each_meant_in(session_, bytes, [&](const auto& meant) {
      note(session_.platform->placed().allocations_in(meant.start, meant.bytes));
    });
    if (!is_mapped) {
      exposed.push_back(allocation);
      if (session_.platform->placed().has_reserved()) {
        note(session_.platform->placed().all_beside(allocation));
      }
    }
  }
  std::sort(exposed.begin(), exposed.end());
  exposed.erase(std::unique(exposed.begin(), exposed.end()), exposed.end());
  session_.platform->launches().expose(exposed);
}

// Each word of the host's memory, read by the kernel: what is not there, or is a device's, is
// refused and not a crash, and ends it. In pieces, so that nothing has to be allocated.
template <typename Visit>
void for_each_host_word(const void* from, std::size_t count, const Visit& visit) {
  std::array<std::uint64_t, 1024> words;
  const auto* at = static_cast<const char*>(from);
  for (std::size_t left = count / sizeof words[0]; left > 0;) {
    const std::size_t some = std::min(left, words.size());
    const std::size_t bytes = some * sizeof words[0];
    const iovec here{.iov_base = words.data(), .iov_len = bytes};
    const iovec there{.iov_base = const_cast<char*>(at), .iov_len = bytes};  // NOLINT(*-const-cast)
    const ssize_t read = ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0);
    std::size_t found = some;
    if (read >= 0 || errno == EFAULT) {
      found = static_cast<std::size_t>(std::max<ssize_t>(read, 0)) / sizeof words[0];
    } else {  // a sandbox without that call
      std::memcpy(words.data(), at, bytes);
    }
    std::for_each_n(words.begin(), found, visit);
    if (found < some) {
      return;
    }
    at += bytes;
    left -= some;
  }
}

}  // namespace

void note_copied_in(const Session& session, std::uint64_t to, const void* from, std::size_t count,
                    Beside beside) {
  if (count > kMostScannedBytes) {
    return;
  }
  Scan scan(session, to);
  const bool may_be_maps = addresses_are_encoded();
  std::vector<std::uint64_t> words;
  for_each_host_word(from, count, [&](std::uint64_t word) {
    scan.look_at(word);
    if (may_be_maps) {
      words.push_back(word);
    }
  });
  scan.look_at_maps(words);
  if (scan.found_any()) {
    if (!scan.in_space()) {
      static std::atomic<bool> told{false};
      say_once(told,
               "the program keeps addresses in memory that any kernel may read: what they name "
               "counts as used by every launch, which is slow");
    }
    scan.expose();
    scan.add_dead();
    const MutexLock lock(carried().mutex);
    add(session, carried().by_start[scan.holder()], {.start = to, .bytes = count}, scan.take(),
        beside);
  }
}

bool note_read(const Session& session, const AddressRange& bytes,
               std::span<const std::uint64_t> words) {
  Scan scan(session, bytes.start);
  const AddressRange space = session.platform->memory().addresses();
  visit_words_in(words, space.start, space.bytes, [&](std::uint64_t word) { scan.look_at(word); });
  scan.look_at_maps(words);
  scan.expose();
  NamedMemory found = scan.take();
  const MutexLock lock(carried().mutex);
  auto& by_start = carried().by_start;
  const auto there = by_start.find(scan.holder());
  if (found.all().empty() && there == by_start.end()) {
    return false;
  }
  Held& held = by_start[scan.holder()];
  const bool is_new = std::any_of(
      found.all().begin(), found.all().end(),
      [&](const NamedMemory::One& one) { return !held.addresses.names(one.allocation, bytes); });
  held.changed = ++carried().changes;
  held.addresses.read(bytes, std::move(found), held.changed);
  held.taken.clear();
  any_carried.store(true, std::memory_order_release);
  return is_new;
}

std::uint64_t tables_now() { return carried().changes.load(std::memory_order_acquire); }

bool may_forget() {
  return (addresses_in_tables() || UnlookedMemory::of_program().any()) && order_is_known();
}

void note_replaced(const Session& session, std::uint64_t to, Bytes bytes, std::uint64_t then) {
  if (!may_forget()) {
    return;
  }
  const auto holder = session.platform->memory().allocation_of(to);
  const std::uint64_t start = holder ? holder->start : kEverywhere;
  UnlookedMemory::of_program().replaced(start, {.start = to, .bytes = bytes});
  {
    const SharedLock lock(carried().mutex);
    if (!carried().by_start.contains(start)) {
      return;
    }
  }
  const MutexLock lock(carried().mutex);
  if (const auto found = carried().by_start.find(start); found != carried().by_start.end()) {
    Held& held = found->second;
    const std::size_t before = held.addresses.size();
    held.addresses.replaced({.start = to, .bytes = bytes}, then);
    if (held.addresses.size() != before) {
      held.taken.clear();
    }
  }
}

void note_waits_for_values() { waits_for_values.store(true, std::memory_order_relaxed); }

bool order_is_known() { return !waits_for_values.load(std::memory_order_relaxed); }

void note_written(const Session& session, std::uint64_t to, std::uint64_t word) {
  if (session.platform->memory().contains(word)) {
    note_copied_in(session, to, &word, sizeof word, Beside::kWhatWasThere);
  }
}

void note_copied_within(const Session& session, std::uint64_t to, std::uint64_t from, Bytes bytes) {
  const bool some_is_unlooked = UnlookedMemory::of_program().any();
  if (!addresses_in_tables() && !some_is_unlooked) {
    return;
  }
  const auto source = session.platform->memory().allocation_of(from);
  const auto holder = session.platform->memory().allocation_of(to);
  if (!source || !holder) {
    return;
  }
  if (some_is_unlooked) {
    UnlookedMemory::of_program().note_copied(holder->start, {.start = to, .bytes = bytes},
                                             source->start, {.start = from, .bytes = bytes});
  }
  auto& by_start = carried().by_start;
  {
    const SharedLock lock(carried().mutex);
    if (!by_start.contains(source->start)) {
      return;
    }
  }
  const MutexLock lock(carried().mutex);
  const auto found = by_start.find(source->start);
  if (found == by_start.end()) {
    return;
  }
  const Held& there = found->second;
  Held& held = by_start[holder->start];
  // Programs copy between the same two again and again.
  constexpr std::size_t kMostTaken = 64;
  if (held.taken.size() >= kMostTaken) {
    held.taken.clear();
  }
  if (std::exchange(held.taken[{from, to, bytes}], there.changed) != there.changed) {
    NamedMemory named;
    there.addresses.for_each(
        [&](const NamedMemory::One& one) { named.put(one.allocation, one.bytes); });
    add(session, held, {.start = to, .bytes = bytes}, std::move(named), Beside::kWhatWasThere);
  }
}

void forget_carried(std::uint64_t start) {
  UnlookedMemory::of_program().forget(start);
  if (addresses_in_tables()) {
    const MutexLock lock(carried().mutex);
    carried().by_start.erase(start);
  }
}

void forget_carried_everywhere(const Session& session) {
  const MutexLock lock(carried().mutex);
  if (const auto found = carried().by_start.find(kEverywhere); found != carried().by_start.end()) {
    drop_gone(session, found->second);
  }
}

bool addresses_in_tables() { return any_carried.load(std::memory_order_acquire); }

void for_each_carried(std::uint64_t start, const std::function<void(const AddressRange&)>& visit) {
  if (!addresses_in_tables()) {
    return;
  }
  std::vector<NamedMemory::One> found;
  {
    const SharedLock lock(carried().mutex);
    if (const auto it = carried().by_start.find(start); it != carried().by_start.end()) {
      found.reserve(it->second.addresses.size());
      it->second.addresses.for_each([&](const NamedMemory::One& one) { found.push_back(one); });
    }
  }
  for (const NamedMemory::One& one : found) {
    visit(one.bytes);
  }
}

std::vector<std::uint64_t> holders_among(
    const std::unordered_map<std::uint64_t, std::size_t>& starts) {
  std::vector<std::uint64_t> holders;
  if (!addresses_in_tables()) {
    return holders;
  }
  const auto add_common = [&holders](const auto& fewer, const auto& more) {
    for (const auto& [start, value] : fewer) {
      if (more.contains(start)) {
        holders.push_back(start);
      }
    }
  };
  const SharedLock lock(carried().mutex);
  if (carried().by_start.size() < starts.size()) {
    add_common(carried().by_start, starts);
  } else {
    add_common(starts, carried().by_start);
  }
  return holders;
}

}  // namespace spillway::cuda
