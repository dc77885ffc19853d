// The program's memory on the device, as it knows it: allocations and their addresses. Layer:
// platform, cuda. Which block lies where; what is in them it does not know. With the platform's
// lock held, but for what it says of an address.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "engine/engine.h"
#include "platform/common/process/commitment.h"
#include "platform/cuda/cuda_launch.h"
#include "platform/cuda/memory/address_range.h"
#include "platform/cuda/memory/address_ranges.h"
#include "platform/cuda/memory/reserved_runs.h"

namespace spillway::cuda {

class ProgramMemory {
 public:
  // Addresses from `start` on, a multiple of the largest block.
  ProgramMemory(Engine& engine, std::uint64_t start, Bytes bytes, Bytes largest_block_bytes)
      : engine_(engine), addresses_(start, bytes), largest_block_bytes_(largest_block_bytes) {}

  // Mechanism::freed. The run of addresses that is nobody's any more, once nothing of it is mapped;
  // 0 bytes for a part of a frame that others share.
  struct Freed {
    std::uint64_t address = 0;
    Bytes bytes = 0;
    BlockId first_block = 0;
    std::uint32_t block_count = 0;
  };

  // What the tiers can hold, less what must stay free for blocks to change places; and what a
  // person can do where that is too little.
  void set_limit(Bytes bytes, std::string advice) {
    limit_bytes_ = bytes;
    advice_ = std::move(advice);
  }
  // What has been promised so far.
  [[nodiscard]] Bytes promised_bytes() const { return commitment_.bytes() + kept_room_bytes_; }
  [[nodiscard]] Bytes limit_bytes() const { return limit_bytes_; }
  // What `reuse` will promise.
  [[nodiscard]] Bytes dead_bytes_at(std::uint64_t address) const;

  Result<std::uint64_t> allocate(Bytes bytes);
  // The engine has still to hear of these: of the allocation that is given back, if one begins
  // there (and lives, for `retire`).
  std::optional<AllocationId> free(std::uint64_t address);
  // `keeps_room`: `reuse` will not fail.
  std::optional<AllocationId> retire(std::uint64_t address, bool keeps_room);
  // The one that was allocated last, if it begins there and nothing has been allocated, reused
  // since, and no launch has used it, as if it never had been.
  std::optional<AllocationId> undo_allocate(std::uint64_t address);
  // Whether there is one that could be undone.
  [[nodiscard]] bool may_undo() const { return newest_ != kNoAllocation; }
  [[nodiscard]] bool is_newest(AllocationId id) const { return id == newest_; }
  void no_undo() { newest_ = kNoAllocation; }
  // The allocation that lives again; nullopt: it did.
  Result<std::optional<AllocationId>> reuse(std::uint64_t address);
  // The one that begins there.
  [[nodiscard]] AllocationId number_of(std::uint64_t address) const {
    const AddressRanges::Named* const named = addresses_.at(address);
    return named != nullptr ? named->number : AllocationId{0};
  }

  // Addresses that the program reserves: see PlacedMemory. The memory of an allocation that it
  // places there is promised before.
  std::optional<std::uint64_t> reserve(Bytes bytes, Bytes alignment);
  void give_back_reserved(std::uint64_t start);
  Status promise_placed(Bytes bytes);
  void take_back_promise(Bytes bytes);
  // What is promised of such memory, allocated or not.
  [[nodiscard]] Bytes placed_bytes() const { return placed_bytes_.load(std::memory_order_relaxed); }
  [[nodiscard]] Bytes living_placed_bytes() const {
    return placed_bytes() - dead_placed_bytes_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_free(std::uint64_t address, Bytes bytes) const {
    return reserved_.is_free(address, bytes);
  }
  Result<AllocationId> allocate_at(std::uint64_t address, Bytes bytes);
  void set_hidden(std::uint64_t address, bool hidden);
  // Somewhere else: in reserved addresses that are free, or at those that a heap would have. What
  // was its run, which may still be mapped; nullopt: there are no addresses left.
  std::optional<Freed> move(std::uint64_t address, std::optional<std::uint64_t> to);

  // In the allocation in which it lies.
  [[nodiscard]] Bytes offset_of(std::uint64_t address) const {
    const AddressRanges::Named* const named = addresses_.at(address);
    return named != nullptr ? address - named->start : Bytes{0};
  }

  // Any thread's, without the lock. What is retired, or hidden, is none.
  [[nodiscard]] std::optional<AddressRange> allocation_of(std::uint64_t address) const;
  [[nodiscard]] bool may_be_again(std::uint64_t address) const;
  void pointed_at(std::span<const std::uint64_t> words, PointedAt* found) const;
  [[nodiscard]] bool contains(std::uint64_t address) const { return addresses_.contains(address); }
  [[nodiscard]] bool has_reserved() const { return has_reserved_.load(std::memory_order_acquire); }
  [[nodiscard]] std::vector<AddressRange> allocations_in(std::uint64_t address, Bytes bytes) const;
  [[nodiscard]] std::vector<AddressRange> allocations_beside(std::uint64_t address,
                                                             const AddressRange& among) const;
  [[nodiscard]] AddressRange addresses() const {
    return {.start = addresses_.start(), .bytes = addresses_.bytes()};
  }

  // What the launch uses, in blocks. Operands that are nobody's are left out.
  [[nodiscard]] std::vector<Access> accesses_of(std::span<const CudaOperand> operands) const;
  [[nodiscard]] std::uint64_t address_of(BlockId block) const { return at_[block]; }

  Freed freed(AllocationId id);
  void give_back(std::uint64_t address, Bytes bytes);

  [[nodiscard]] const Commitment& commitment() const { return commitment_; }

 private:
  Status promise(Bytes bytes);
  [[nodiscard]] std::optional<std::uint64_t> place(AllocationId id);
  [[nodiscard]] std::optional<std::uint64_t> take_run(const Allocation& allocation);
  void place_blocks(const Allocation& allocation, std::uint64_t address);
  // With names_mutex_ held, or the lock.
  [[nodiscard]] const AddressRanges::Named* alive_at(std::uint64_t address) const;
  void add_accesses(std::vector<Access>& accesses, const AddressRanges::Named& named,
                    const CudaOperand& operand) const;

  Engine& engine_;
  // Of which names there are in addresses_, and of reserved_; changed with the lock held as well.
  mutable SharedMutex names_mutex_;
  AddressRanges addresses_;
  ReservedRuns reserved_;
  std::atomic<bool> has_reserved_{false};  // or had
  Bytes largest_block_bytes_;
  Bytes limit_bytes_ = 0;
  std::string advice_;
  Commitment commitment_;
  Bytes kept_room_bytes_ = 0;  // that what is dead has been promised beside that
  std::atomic<Bytes> placed_bytes_{0};
  std::atomic<Bytes> dead_placed_bytes_{0};  // of those
  AllocationId newest_ = kNoAllocation;
  std::vector<std::uint64_t> at_;  // by block; 0 for one that is nobody's
};

}  // namespace spillway::cuda
