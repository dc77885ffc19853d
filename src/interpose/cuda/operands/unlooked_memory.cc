// See unlooked_memory.h.
#include "interpose/cuda/operands/unlooked_memory.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace spillway::cuda {
namespace {

bool overlap(const AddressRange& one, const AddressRange& other) {
  return one.start < other.start + other.bytes && other.start < one.start + one.bytes;
}

// With what lies between.
AddressRange both_of(const AddressRange& one, const AddressRange& other) {
  const std::uint64_t start = std::min(one.start, other.start);
  const std::uint64_t end = std::max(one.start + one.bytes, other.start + other.bytes);
  return {.start = start, .bytes = end - start};
}

}  // namespace

UnlookedMemory& UnlookedMemory::of_program() {
  static auto* const all = new UnlookedMemory;  // threads of the program may run until the very end
  return *all;
}

bool UnlookedMemory::may_write_here(AddressWriter writer) const {
  const auto found = learned_.find(writer.key());
  return found == learned_.end() || found->second.writes || found->second.looks < kLooks;
}

bool UnlookedMemory::may_write(AddressWriter writer) const {
  const MutexLock lock(mutex_);
  return may_write_here(writer);
}

void UnlookedMemory::changed() {
  count_.store(by_start_.size(), std::memory_order_relaxed);
  forgotten_.fetch_add(1, std::memory_order_acq_rel);
}

void UnlookedMemory::note_here(AddressWriter writer, std::uint64_t allocation,
                               const AddressRange& bytes, std::optional<CuStream> stream) {
  if (bytes.bytes < sizeof(std::uint64_t) || bytes.bytes > kMostBytes || !may_write_here(writer)) {
    return;
  }
  Unlooked& there = by_start_[allocation];
  if (there.writers.empty()) {
    there.bytes = bytes;
  } else {
    const AddressRange both = both_of(there.bytes, bytes);
    const bool too_much = both.bytes > kMostBytes;
    there.bytes = too_much ? bytes : both;
    there.is_all = there.is_all && !too_much;
  }
  if (stream) {
    there.several = there.several || (there.stream && *there.stream != *stream);
    there.stream = stream;
  }
  there.allocation = allocation;
  there.noted = ++notes_;
  if (std::find(there.writers.begin(), there.writers.end(), writer) == there.writers.end()) {
    there.writers.push_back(writer);
  }
  count_.store(by_start_.size(), std::memory_order_relaxed);
}

void UnlookedMemory::note(AddressWriter writer, std::uint64_t allocation, const AddressRange& bytes,
                          std::optional<CuStream> stream) {
  const MutexLock lock(mutex_);
  note_here(writer, allocation, bytes, stream);
}

void UnlookedMemory::note_copied(std::uint64_t to, const AddressRange& to_bytes, std::uint64_t from,
                                 const AddressRange& from_bytes) {
  const MutexLock lock(mutex_);
  const auto source = by_start_.find(from);
  if (source == by_start_.end() || !overlap(source->second.bytes, from_bytes)) {
    return;
  }
  const std::vector<AddressWriter> writers = source->second.writers;
  const std::optional<CuStream> stream = source->second.stream;
  const bool several = source->second.several;
  for (const AddressWriter writer : writers) {
    note_here(writer, to, to_bytes, stream);
  }
  if (const auto there = by_start_.find(to); there != by_start_.end()) {
    there->second.several = there->second.several || several;
  }
}

bool UnlookedMemory::has(std::uint64_t allocation) const {
  const SharedLock lock(mutex_);
  return by_start_.contains(allocation);
}

Unlooked UnlookedMemory::at(std::uint64_t allocation) {
  const SharedLock lock(mutex_);
  const auto found = by_start_.find(allocation);
  return found == by_start_.end() ? Unlooked() : found->second;
}

void UnlookedMemory::looked(const Unlooked& what, CuStream stream, bool found) {
  const MutexLock lock(mutex_);
  const bool is_explained = std::any_of(what.writers.begin(), what.writers.end(),
                                        [this](AddressWriter writer) SPILLWAY_REQUIRES(mutex_) {
                                          return learned_[writer.key()].writes;
                                        });
  bool some_are_harmless = false;
  for (const AddressWriter writer : what.writers) {
    Learned& learned = learned_[writer.key()];
    if (writer.is_copies()) {
      copies_known_.store(true, std::memory_order_relaxed);
    }
    if (!found) {
      constexpr int kPartialTogether = 8;
      learned.looks += what.is_all || ++learned.partial % kPartialTogether == 0 ? 1 : 0;
    } else if (what.writers.size() == 1) {
      learned.writes = true;
    } else if (!is_explained) {
      learned.looks = kLooks - kLooksOfSuspects;
    }
    some_are_harmless |= !may_write_here(writer);
  }
  if (const auto there = by_start_.find(what.allocation);
      there != by_start_.end() && there->second.noted == what.noted && !what.several &&
      what.stream.value_or(stream) == stream) {
    by_start_.erase(there);
  }
  if (some_are_harmless) {
    drop_harmless();
  }
  changed();
}

void UnlookedMemory::drop_harmless() {
  for (auto it = by_start_.begin(); it != by_start_.end();) {
    std::vector<AddressWriter> left;
    for (const AddressWriter writer : it->second.writers) {
      if (may_write_here(writer)) {
        left.push_back(writer);
      }
    }
    it->second.writers = std::move(left);
    it = it->second.writers.empty() ? by_start_.erase(it) : std::next(it);
  }
}

void UnlookedMemory::forget(std::uint64_t allocation) {
  const bool copies_are_known = copies_known_.load(std::memory_order_relaxed);
  if (!any() && !copies_are_known) {
    return;
  }
  const MutexLock lock(mutex_);
  if (copies_are_known) {
    learned_.erase(AddressWriter::copies_to(allocation).key());
  }
  if (by_start_.erase(allocation) > 0) {
    changed();
  }
}

void UnlookedMemory::replaced(std::uint64_t allocation, const AddressRange& bytes) {
  if (!any()) {
    return;
  }
  const MutexLock lock(mutex_);
  const auto found = by_start_.find(allocation);
  if (found != by_start_.end() && found->second.bytes.start >= bytes.start &&
      found->second.bytes.start + found->second.bytes.bytes <= bytes.start + bytes.bytes) {
    by_start_.erase(found);
    changed();
  }
}

}  // namespace spillway::cuda
