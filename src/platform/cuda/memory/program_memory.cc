// See program_memory.h.
#include "platform/cuda/memory/program_memory.h"

#include <algorithm>
#include <shared_mutex>
#include <utility>

namespace spillway::cuda {
namespace {

// What an allocation is counted as. Of what shares a frame, the frame counts, as long as anybody is
// in it.
Bytes footprint_bytes(Bytes bytes) {
  return bytes < kBlockBytes ? 0 : round_up(bytes, kBlockBytes);
}

// Addresses behind a run that are nobody's: where one ends no other begins, so that the end of an
// array does not name its neighbour.
constexpr Bytes kBehindRunBytes = kBlockBytes;
// So do small ones that share a frame, up to this size: a table of addresses that is named by
// mistake brings all that it holds. Larger ones would waste their frames.
constexpr Bytes kMostApartBytes = 128 * kKiB;

Bytes bytes_apart(Bytes bytes) { return bytes <= kMostApartBytes ? bytes + 1 : bytes; }

}  // namespace

Status ProgramMemory::promise(Bytes bytes) {
  if (!commitment_.promise_within(bytes, limit_bytes_ - std::min(limit_bytes_, kept_room_bytes_))) {
    return make_error(
        ErrorCode::kUnsupported,
        "out of memory: {} asked for, {} in use; the budget is {} of device memory, and with host "
        "memory and storage {}; {}",
        format_bytes(bytes), format_bytes(promised_bytes()),
        format_bytes(engine_.capacity_bytes(Tier::kDevice)), format_bytes(limit_bytes_), advice_);
  }
  return {};
}

Result<std::uint64_t> ProgramMemory::allocate(Bytes bytes) {
  no_undo();
  const Bytes asked_bytes = std::max<Bytes>(bytes, 1);
  const bool packed = asked_bytes < kBlockBytes;
  // Nothing larger can be held, and it could not be rounded up.
  const Bytes whole_bytes =
      asked_bytes > limit_bytes_ ? asked_bytes : round_up(asked_bytes, kBlockBytes);
  if (Status room = promise(packed ? 0 : whole_bytes); !room) {
    return tl::unexpected<Error>(room.error());
  }
  const Result<AllocationId> id =
      engine_.allocate(bytes_apart(asked_bytes), 0, std::min(whole_bytes, largest_block_bytes_));
  if (!id) {
    commitment_.take_back(packed ? 0 : whole_bytes);
    return tl::unexpected<Error>(id.error());
  }
  at_.resize(std::max(at_.size(), engine_.space().block_slots()));
  const BlockId first = engine_.space().allocation(*id).first_block;
  const bool new_frame = packed && at_[first] == 0;
  if (new_frame) {
    if (Status room = promise(kBlockBytes); !room) {
      engine_.free(*id);
      return tl::unexpected<Error>(room.error());
    }
  }
  const std::optional<std::uint64_t> address = place(*id);
  if (!address) {
    commitment_.take_back(packed ? (new_frame ? kBlockBytes : 0) : whole_bytes);
    engine_.free(*id);
    return make_error(ErrorCode::kUnsupported, "out of address space");
  }
  const MutexLock names(names_mutex_);
  addresses_.name(*address, asked_bytes, *id);
  newest_ = packed ? kNoAllocation : *id;
  return *address;
}

std::optional<std::uint64_t> ProgramMemory::place(AllocationId id) {
  const Allocation& allocation = engine_.space().allocation(id);
  const BlockId first = allocation.first_block;
  if (!allocation.packed || at_[first] == 0) {
    const std::optional<std::uint64_t> run = take_run(allocation);
    if (!run) {
      return std::nullopt;
    }
    place_blocks(allocation, *run);
  }
  return at_[first] + allocation.offset_bytes;
}

std::optional<std::uint64_t> ProgramMemory::take_run(const Allocation& allocation) {
  const Bytes alignment =
      allocation.block_bytes == largest_block_bytes_ ? largest_block_bytes_ : kBlockBytes;
  return addresses_.take(allocation.frame_bytes + kBehindRunBytes, alignment);
}

void ProgramMemory::place_blocks(const Allocation& allocation, std::uint64_t address) {
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    at_[allocation.first_block + i] = address + i * allocation.block_bytes;
  }
}

void ProgramMemory::give_back(std::uint64_t address, Bytes bytes) {
  const MutexLock names(names_mutex_);
  if (!reserved_.contains(address)) {
    addresses_.give_back(address, bytes);
  } else if (const std::optional<ReservedRuns::Run> run = reserved_.give_back(address)) {
    addresses_.give_back(run->start, run->bytes);
  }
}

// --- Addresses that the program reserves --------------------------------------------------------

// Never side by side with another's: what goes on from one piece to the next is in one reservation.
std::optional<std::uint64_t> ProgramMemory::reserve(Bytes bytes, Bytes alignment) {
  const std::optional<std::uint64_t> start =
      addresses_.take(bytes + kBlockBytes, std::max(alignment, kBlockBytes));
  if (start) {
    const MutexLock names(names_mutex_);
    reserved_.add({.start = *start, .bytes = bytes + kBlockBytes});
    has_reserved_.store(true, std::memory_order_release);
  }
  return start;
}

void ProgramMemory::give_back_reserved(std::uint64_t start) {
  const MutexLock names(names_mutex_);
  if (const std::optional<ReservedRuns::Run> run = reserved_.end(start)) {
    addresses_.give_back(run->start, run->bytes);
  }
}

Status ProgramMemory::promise_placed(Bytes bytes) {
  Status promised = promise(bytes);
  placed_bytes_ += promised ? bytes : 0;
  return promised;
}

void ProgramMemory::take_back_promise(Bytes bytes) {
  commitment_.take_back(bytes);
  placed_bytes_ -= bytes;
}

Result<AllocationId> ProgramMemory::allocate_at(std::uint64_t address, Bytes bytes) {
  no_undo();
  Result<AllocationId> id = engine_.allocate(bytes, 0, std::min(bytes, largest_block_bytes_));
  if (!id) {
    return id;
  }
  at_.resize(std::max(at_.size(), engine_.space().block_slots()));
  place_blocks(engine_.space().allocation(*id), address);
  const MutexLock names(names_mutex_);
  reserved_.take(address, bytes);
  addresses_.name(address, bytes, *id);
  addresses_.starting_at(address)->placed = true;
  return id;
}

void ProgramMemory::set_hidden(std::uint64_t address, bool hidden) {
  const MutexLock names(names_mutex_);
  if (AddressRanges::Named* const named = addresses_.starting_at(address)) {
    named->hidden = hidden;
  }
}

std::optional<ProgramMemory::Freed> ProgramMemory::move(std::uint64_t address,
                                                        std::optional<std::uint64_t> to) {
  const MutexLock names(names_mutex_);
  const AddressRanges::Named named = *addresses_.starting_at(address);
  const Allocation& allocation = engine_.space().allocation(named.number);
  const std::optional<std::uint64_t> run = to ? to : take_run(allocation);
  if (!run) {
    return std::nullopt;
  }
  if (to) {
    reserved_.take(*to, allocation.frame_bytes);
  }
  addresses_.forget(address);
  addresses_.name(*run, named.bytes, named.number);
  AddressRanges::Named& there = *addresses_.starting_at(*run);
  there.hidden = named.hidden;
  there.placed = true;
  there.set_dead(named.is_dead());
  there.keeps_room = named.keeps_room;
  place_blocks(allocation, *run);
  const Bytes behind_bytes = reserved_.contains(address) ? 0 : kBehindRunBytes;
  return Freed{.address = address,
               .bytes = allocation.frame_bytes + behind_bytes,
               .first_block = allocation.first_block,
               .block_count = allocation.block_count};
}

std::vector<AddressRange> ProgramMemory::allocations_in(std::uint64_t address, Bytes bytes) const {
  std::vector<AddressRange> found;
  const SharedLock names(names_mutex_);
  if (!reserved_.contains(address)) {
    if (const AddressRanges::Named* const named = alive_at(address)) {
      found.push_back({.start = named->start, .bytes = named->bytes});
    }
    return found;
  }
  for (const ReservedRuns::Run& run : reserved_.within(address, bytes)) {
    if (const AddressRanges::Named* const named = alive_at(run.start)) {
      found.push_back({.start = named->start, .bytes = named->bytes});
    }
  }
  return found;
}

std::vector<AddressRange> ProgramMemory::allocations_beside(std::uint64_t address,
                                                            const AddressRange& among) const {
  std::vector<AddressRange> found;
  const SharedLock names(names_mutex_);
  for (const ReservedRuns::Run& run :
       reserved_.beside(address, {.start = among.start, .bytes = among.bytes})) {
    const AddressRanges::Named* const named = alive_at(run.start);
    const bool goes_on = named != nullptr &&
                         (found.empty() || found.back().start + found.back().bytes == named->start);
    if (!goes_on && run.start > address) {
      break;
    }
    if (!goes_on) {
      found.clear();
    }
    if (named != nullptr) {
      found.push_back({.start = named->start, .bytes = named->bytes});
    }
  }
  const bool has_it =
      !found.empty() &&
      address - found.front().start < found.back().start + found.back().bytes - found.front().start;
  return has_it ? found : std::vector<AddressRange>();
}

std::optional<AllocationId> ProgramMemory::free(std::uint64_t address) {
  const AddressRanges::Named* const named = addresses_.starting_at(address);
  if (named == nullptr) {
    return std::nullopt;
  }
  const AllocationId id = named->number;
  if (!named->is_dead()) {
    commitment_.take_back(footprint_bytes(named->bytes));
  } else if (named->keeps_room) {
    kept_room_bytes_ -= footprint_bytes(named->bytes);
  }
  if (named->placed) {
    dead_placed_bytes_ -= named->is_dead() ? named->bytes : 0;
    placed_bytes_ -= named->bytes;
  }
  const MutexLock names(names_mutex_);
  addresses_.forget(address);
  return id;
}

std::optional<AllocationId> ProgramMemory::undo_allocate(std::uint64_t address) {
  const AddressRanges::Named* const named = addresses_.starting_at(address);
  if (named == nullptr || named->number != newest_ || named->is_dead()) {
    return std::nullopt;
  }
  commitment_.undo(footprint_bytes(named->bytes));
  const MutexLock names(names_mutex_);
  addresses_.forget(address);
  return std::exchange(newest_, kNoAllocation);
}

// Programs leave old addresses where nobody looks (docs/gpu.md section 6): a launch that names dead
// memory does not use it.
std::optional<AllocationId> ProgramMemory::retire(std::uint64_t address, bool keeps_room) {
  AddressRanges::Named* const named = addresses_.starting_at(address);
  if (named == nullptr || named->is_dead()) {
    return std::nullopt;
  }
  named->set_dead(true);
  dead_placed_bytes_ += named->placed ? named->bytes : 0;
  commitment_.take_back(footprint_bytes(named->bytes));
  named->keeps_room = keeps_room;
  kept_room_bytes_ += keeps_room ? footprint_bytes(named->bytes) : 0;
  return named->number;
}

Result<std::optional<AllocationId>> ProgramMemory::reuse(std::uint64_t address) {
  AddressRanges::Named* const named = addresses_.starting_at(address);
  if (named == nullptr) {
    return make_error(ErrorCode::kInvalidInput, "no allocation starts at {:#x}", address);
  }
  if (!named->is_dead()) {
    return std::nullopt;
  }
  const Bytes footprint = footprint_bytes(named->bytes);
  if (std::exchange(named->keeps_room, false)) {
    kept_room_bytes_ -= footprint;
    (void)commitment_.promise_within(footprint, ~Bytes{0});  // it has been promised before
  } else if (Status room = promise(footprint); !room) {
    return tl::unexpected<Error>(room.error());
  }
  // The engine hears of it from the launch that names it. Programs ask for memory long before the
  // device comes to its first use, and until then its frames may serve others.
  named->set_dead(false);
  dead_placed_bytes_ -= named->placed ? named->bytes : 0;
  no_undo();
  return named->number;
}

Bytes ProgramMemory::dead_bytes_at(std::uint64_t address) const {
  const AddressRanges::Named* const named = addresses_.at(address);
  return named != nullptr && named->is_dead() && !named->keeps_room ? footprint_bytes(named->bytes)
                                                                    : 0;
}

const AddressRanges::Named* ProgramMemory::alive_at(std::uint64_t address) const {
  const AddressRanges::Named* const named = addresses_.at(address);
  return named != nullptr && !named->is_dead() && !named->hidden ? named : nullptr;
}

std::optional<AddressRange> ProgramMemory::allocation_of(std::uint64_t address) const {
  if (!addresses_.contains(address)) {
    return std::nullopt;
  }
  const SharedLock names(names_mutex_);
  const AddressRanges::Named* const named = alive_at(address);
  return named != nullptr
             ? std::optional(AddressRange{.start = named->start, .bytes = named->bytes})
             : std::nullopt;
}

bool ProgramMemory::may_be_again(std::uint64_t address) const {
  const SharedLock names(names_mutex_);
  return addresses_.at(address) != nullptr;
}

void ProgramMemory::pointed_at(std::span<const std::uint64_t> words, PointedAt* found) const {
  const auto range_of = [](const AddressRanges::Named* named) {
    return named != nullptr && !named->is_dead() && !named->hidden
               ? AddressRange{.start = named->start, .bytes = named->bytes}
               : AddressRange{};
  };
  std::shared_lock names(names_mutex_, std::defer_lock);
  for (std::size_t i = 0; i < words.size(); ++i) {
    found[i] = {};
    if (!addresses_.contains(words[i])) {
      continue;
    }
    if (!names.owns_lock()) {
      names.lock();
    }
    const AddressRanges::Pointed named = addresses_.pointed_at(words[i]);
    found[i] = {.in = range_of(named.in), .ends = range_of(named.ends)};
  }
}

// Blocks at the ends of what a launch overwrites may have bytes that it does not.
void ProgramMemory::add_accesses(std::vector<Access>& accesses, const AddressRanges::Named& named,
                                 const CudaOperand& operand) const {
  const Allocation& allocation = engine_.space().allocation(named.number);
  const Bytes from = operand.address - named.start;
  const Bytes to = std::min(from + operand.bytes, named.bytes);
  const Bytes block_bytes = allocation.block_bytes;
  const auto add = [&](Bytes first, Bytes end, AccessMode mode) {
    if (first < end) {
      accesses.push_back({.allocation = named.number,
                          .first_block = allocation.first_block + static_cast<BlockId>(first),
                          .block_count = static_cast<std::uint32_t>(end - first),
                          .mode = mode,
                          .from_bytes = from,
                          .to_bytes = to});
    }
  };
  const Bytes first = allocation.packed ? 0 : from / block_bytes;
  const Bytes end = allocation.packed ? 1 : (to + block_bytes - 1) / block_bytes;
  if (operand.mode != AccessMode::kOverwrite || allocation.packed) {
    add(first, end, operand.mode == AccessMode::kOverwrite ? AccessMode::kWrite : operand.mode);
    return;
  }
  const Bytes whole_first = (from + block_bytes - 1) / block_bytes;
  const Bytes whole_end = to == named.bytes ? end : to / block_bytes;
  if (whole_first >= whole_end) {
    add(first, end, AccessMode::kWrite);
    return;
  }
  add(first, whole_first, AccessMode::kWrite);
  add(whole_first, whole_end, AccessMode::kOverwrite);
  add(whole_end, end, AccessMode::kWrite);
}

// In addresses that the program has reserved bytes may go on from one allocation to the next.
std::vector<Access> ProgramMemory::accesses_of(std::span<const CudaOperand> operands) const {
  std::vector<Access> accesses;
  accesses.reserve(operands.size());
  for (const CudaOperand& operand : operands) {
    if (operand.bytes == 0) {
      continue;
    }
    if (has_reserved() && reserved_.contains(operand.address)) {
      for (const ReservedRuns::Run& run : reserved_.within(operand.address, operand.bytes)) {
        const std::uint64_t at = std::max(run.start, operand.address);
        if (const AddressRanges::Named* const named = alive_at(at)) {
          add_accesses(accesses, *named,
                       {.address = at,
                        .bytes = operand.bytes - (at - operand.address),
                        .mode = operand.mode});
        }
      }
    } else if (const AddressRanges::Named* const named = alive_at(operand.address)) {
      add_accesses(accesses, *named, operand);
    }
  }
  return accesses;
}

// Numbers of blocks are given out again: none of these has an address any more. One that never had
// one was refused while it was being allocated.
ProgramMemory::Freed ProgramMemory::freed(AllocationId id) {
  const Allocation& allocation = engine_.space().allocation(id);
  const BlockId first = allocation.first_block;
  if ((allocation.packed && engine_.space().block(first).tenants > 1) || at_[first] == 0) {
    return {};
  }
  const Freed freed{.address = at_[first],
                    .bytes = allocation.frame_bytes + kBehindRunBytes,
                    .first_block = first,
                    .block_count = allocation.block_count};
  commitment_.take_back(allocation.packed ? kBlockBytes : 0);
  std::fill_n(at_.begin() + first, allocation.block_count, std::uint64_t{0});
  return freed;
}

}  // namespace spillway::cuda
