// See operands.h.
#include "interpose/cuda/operands/operands.h"

#include <algorithm>
#include <cstring>

#include "interpose/cuda/memory/mapped_memory.h"
#include "interpose/cuda/operands/encoded_addresses.h"
#include "interpose/cuda/operands/host_lists.h"
#include "interpose/cuda/operands/living_tensors.h"
#include "interpose/cuda/operands/scan_words.h"
#include "interpose/cuda/recording.h"

namespace spillway::cuda {
namespace {

constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15ULL;

std::uint64_t mixed(std::uint64_t value) {
  value ^= value >> 32U;
  value *= 0xd6e8feb86659fd93ULL;
  return value ^ (value >> 32U);
}

// Sizes are rounded up: whether what the program has asked for ends there as well. Otherwise its
// end is one of its own addresses, and the next allocation's start names that one alone.
bool ends_there(const Session& session, const AddressRange& range) {
  return session.heap->may_end_at(range.start, range.bytes);
}

}  // namespace

void Operands::put(const CudaOperand& operand) {
  if (count_ < kInPlace) {
    first_[count_] = operand;
  } else {
    if (more_.empty()) {
      more_.assign(first_.begin(), first_.end());
    }
    more_at_.emplace(operand.address, more_.size());
    more_.push_back(operand);
  }
  ++count_;
}

// True if it was there before.
bool Operands::has(std::uint64_t start) {
  if (count_ >= kInPlace) {
    if (more_starts_.empty()) {
      for (const CudaOperand& it : all().first(kInPlace)) {
        more_starts_.insert(it.address);
      }
    }
    return !more_starts_.insert(start).second;
  }
  const std::uint64_t bit = mixed(start * kOdd) % (64 * seen_.size());
  std::uint64_t& word = seen_[bit / 64];
  const std::uint64_t mask = std::uint64_t{1} << (bit % 64);
  if ((word & mask) == 0) {
    word |= mask;
    return false;
  }
  const std::span<const CudaOperand> there = all();
  return std::any_of(there.begin(), there.end(),
                     [start](const CudaOperand& it) { return it.address == start; });
}

void Operands::add(std::uint64_t address, Bytes bytes, AccessMode mode) {
  if (bytes > 0 && session_.platform->memory().contains(address)) {
    put({.address = address, .bytes = bytes, .mode = mode});
  }
}

// Also where a table has thousands, in each of which one is looked for.
template <typename Visit>
void Operands::for_each_at(std::uint64_t start, const Visit& visit) {
  const std::span<CudaOperand> there = more_.empty() ? std::span(first_.data(), count_) : more_;
  for (CudaOperand& operand : there.first(std::min(count_, kInPlace))) {
    if (operand.address == start) {
      visit(operand);
    }
  }
  const auto [from, to] = more_at_.equal_range(start);
  std::for_each(from, to, [&](const auto& at) { visit(more_[at.second]); });
}

// Of a graph one node may read what another writes, and a third store its address.
bool Operands::may_change(AccessMode mode) const {
  return mode == AccessMode::kExpose ? some_not_exposed_ : writes(mode) && some_only_read_;
}

void Operands::put_again(std::uint64_t start, AccessMode mode) {
  if (!may_change(mode)) {
    return;
  }
  for_each_at(start, [mode](CudaOperand& operand) { operand.mode = either(operand.mode, mode); });
}

// True if it was not there before.
bool Operands::put_once(std::uint64_t start, Bytes bytes, AccessMode mode) {
  if (has(start)) {
    put_again(start, mode);
    if (by_living_tensor_ || by_tensor_) {  // a tensor may begin where what holds it does
      for_each_at(start, [bytes](CudaOperand& it) { it.bytes = std::max(it.bytes, bytes); });
    }
    return false;
  }
  some_only_read_ |= !writes(mode);
  some_not_exposed_ |= mode != AccessMode::kExpose;
  put({.address = start, .bytes = bytes, .mode = mode});
  return true;
}

void Operands::add_whole(std::uint64_t start, Bytes bytes) {
  const std::size_t next = count_;
  if (put_with_neighbours({.start = start, .bytes = bytes}, found_)) {
    add_carried_since(next);
  }
}

void Operands::add_pointer(std::uint64_t word, AccessMode mode) {
  if (!session_.platform->memory().contains(word)) {
    if (may_be_in_host_list(word)) {
      add_host_list(word);
    }
    return;
  }
  PointedAt named;
  session_.platform->memory().pointed_at({&word, 1}, &named);
  (void)add_pointed(named, mode, word);
}

// False if it names nothing.
bool Operands::add_pointed(const PointedAt& named, AccessMode mode, std::uint64_t word) {
  if (const std::size_t next = count_;
      (named.in.bytes > 0 || named.ends.bytes > 0) && put_living(word, mode, pointers_begin_)) {
    add_carried_since(next);
    return true;
  }
  if (named.in.bytes > 0) {
    add_range(named.in, mode, word);
  }
  if (named.ends.bytes > 0 && ends_there(session_, named.ends)) {
    add_range(named.ends, mode, 0);  // as a whole
    return true;
  }
  return named.in.bytes > 0;
}

// What stands there now: a list is written before the kernel that reads it is launched.
void Operands::add_host_list(std::uint64_t word) {
  // Where everything fits, all that a large piece may name is there.
  const bool large = follows_ && !session_.platform->bypass().calls_are_open();
  const std::uint64_t start = host_list_at(word, large);
  if (start == 0 || std::find(host_lists_.begin(), host_lists_.end(), start) != host_lists_.end()) {
    return;
  }
  host_lists_.push_back(start);
  // A list may be long and looked at by every launch, and nearly all of its words are none, or in
  // the same as the one before.
  const AddressRange space = session_.platform->memory().addresses();
  AddressRange last;
  visit_host_list(start, same_launch_, [&](std::span<const std::uint64_t> words) {
    bool found = false;
    visit_words_in(words, space.start, space.bytes, [&](std::uint64_t listed) {
      found = true;
      // Where it begins another may end.
      if (listed - last.start - 1 < last.bytes - 1 && last.bytes > 0 && !by_tensor_ &&
          !(by_living_tensor_ && session_.platform->placed().has_reserved())) {
        return;
      }
      add_pointer(listed, found_);
      last = session_.platform->memory().allocation_of(listed).value_or(AddressRange());
    });
    return found;
  });
}

// With what it holds addresses of, and what that does: not by calling itself, since a list may be
// long.
void Operands::add_range(const AddressRange& range, AccessMode mode, std::uint64_t word) {
  const std::size_t next = count_;
  const auto tensor = tensor_of(word);
  if (tensor && !has_neighbours(range.start)) {
    if (put_once(tensor->start, tensor->bytes, mode)) {
      add_carried_by(range.start);
      add_carried_since(next + 1);
    }
  } else if (put_with_neighbours(range, mode)) {
    add_carried_since(next);
  }
}

std::optional<AddressRange> Operands::tensor_of(std::uint64_t word) const {
  if (!by_tensor_) {
    return std::nullopt;
  }
  return recording() == nullptr ? session_.segments->tensor_at_once(word)
                                : session_.segments->tensor_at(word);
}

void Operands::add_carried_since(std::size_t next) {
  for (; next < count_ && addresses_in_tables(); ++next) {
    for_each_holder(all()[next], [this](std::uint64_t holder) {
      for_each_carried(holder, [this](const auto& carried) { put_carried(carried); });
    });
  }
}

// The allocations that have it. Tensors lie somewhere in them.
template <typename Visit>
void Operands::for_each_holder(const CudaOperand operand, const Visit& visit) const {
  if (!by_living_tensor_ || !session_.platform->placed().has_reserved()) {
    visit(operand.address);
    return;
  }
  for (const AddressRange& range :
       session_.platform->placed().allocations_in(operand.address, operand.bytes)) {
    visit(range.start);
  }
}

void Operands::put_carried(const AddressRange& carried) {
  if (by_living_tensor_ && for_each_meant_in(session_, carried, [&](const auto& range) {
        (void)put_once(range.start, range.bytes, found_);
      })) {
    return;
  }
  for (const AddressRange& there :
       session_.platform->placed().allocations_in(carried.start, carried.bytes)) {
    (void)put_with_neighbours(there, found_);
  }
}

// In what the program maps itself. False: it is to be put in another way.
bool Operands::put_living(std::uint64_t word, AccessMode mode, bool begins) {
  return by_living_tensor_ &&
         for_each_meant(session_, word, begins, [&](const AddressRange& range) {
           (void)put_once(range.start, range.bytes, mode);
         });
}

// Nothing else of the program's has bytes of it.
bool Operands::is_living_tensor(const CudaOperand& operand) const {
  if (!by_living_tensor_) {
    return false;
  }
  const std::optional<Segments::Meant> meant = session_.segments->meant_by(operand.address);
  return meant && meant->in.start == operand.address && meant->in.bytes == operand.bytes;
}

// What a program has mapped side by side may be one thing to it, of which an address tells only
// where it begins. True if the allocation itself was not there before.
bool Operands::put_with_neighbours(const AddressRange& range, AccessMode mode) {
  const bool is_new = put_once(range.start, range.bytes, mode);
  if (session_.platform->placed().has_reserved() && (is_new || may_change(mode))) {
    for (const AddressRange& other : session_.platform->placed().all_beside(range.start)) {
      if (other.start != range.start) {
        (void)put_once(other.start, other.bytes, mode);
      }
    }
  }
  return is_new;
}

void Operands::add_all_in(std::uint64_t address, Bytes bytes, AccessMode mode) {
  const std::size_t next = count_;
  for (const AddressRange& range : session_.platform->placed().allocations_in(address, bytes)) {
    (void)put_once(range.start, range.bytes, mode);
  }
  add_carried_since(next);
}

void Operands::add_pointers_in(const void* bytes, std::size_t count, AccessMode mode) {
  constexpr std::size_t kTogether = 16;  // words
  std::array<std::uint64_t, kTogether> words;
  std::array<PointedAt, kTogether> found;
  const auto* at = static_cast<const char*>(bytes);
  if (count >= sizeof(CuTensorMap) && addresses_are_encoded()) {
    for_each_encoded(bytes, count, [&](std::uint64_t address) { add_pointer(address, mode); });
  }
  if (count / sizeof(std::uint64_t) == 1) {  // as most parameters are
    std::memcpy(words.data(), at, sizeof(std::uint64_t));
    add_pointer(words[0], mode);
    return;
  }
  for (std::size_t left = count / sizeof(std::uint64_t); left > 0;) {
    const std::size_t some = std::min(left, kTogether);
    std::memcpy(words.data(), at, some * sizeof(std::uint64_t));
    session_.platform->memory().pointed_at(std::span(words).first(some), found.data());
    for (std::size_t i = 0; i < some; ++i) {
      if (!add_pointed(found[i], mode, words[i]) && may_be_in_host_list(words[i])) {
        add_host_list(words[i]);
      }
    }
    at += some * sizeof(std::uint64_t);
    left -= some;
  }
}

void Operands::add_carried_by(std::uint64_t start) {
  const std::size_t next = count_;
  for_each_carried(start, [this](const auto& carried) { put_carried(carried); });
  add_carried_since(next);
}

void Operands::add_everything() {
  const auto add_one = [this](std::uint64_t start, Bytes bytes) { add_whole(start, bytes); };
  session_.heap->for_each(add_one);
  MappedMemory::of_program().for_each(add_one);
}

AccessMode either(AccessMode one, AccessMode other) {
  if (one == other || !writes(other)) {
    return one;
  }
  const bool exposes = one == AccessMode::kExpose || other == AccessMode::kExpose;
  return exposes ? AccessMode::kExpose : writes(one) ? AccessMode::kReadWrite : other;
}

LaunchHash hash_of(LaunchHash kernel, std::span<const CudaOperand> operands) {
  for (const CudaOperand& operand : operands) {
    kernel.first = mixed(kernel.first ^ operand.address) * kOdd + operand.bytes;
    kernel.second = mixed(kernel.second + operand.bytes) * kOdd ^ operand.address;
  }
  return kernel;
}

}  // namespace spillway::cuda
