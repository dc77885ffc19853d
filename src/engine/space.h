// The address space over all tiers: allocations, and the blocks that they are made of.
// Layer: engine. Knows nothing of capacities or migrations; it hands out block numbers and keeps
// each block's record.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "base/error.h"
#include "engine/types.h"

namespace spillway {

enum class PageQueue : std::uint8_t { kNone, kUnused, kDiscarded, kUsed };
enum class FetchState : std::uint8_t { kNone, kPrefetch, kFault };

inline constexpr std::uint32_t kNoIndex = std::numeric_limits<std::uint32_t>::max();

// Up to 2 MiB of one allocation, the unit of residency; or one page shared by allocations that are
// smaller than a page (G10 section 4.5). Written by the engine only.
struct Block {
  AllocationId allocation = kNoAllocation;  // of the last tenant, where several share the block
  std::uint32_t bytes = 0;                  // a multiple of the page; 0 while the number is unused
  std::uint32_t previous = kNoIndex;        // neighbours in its page queue
  std::uint32_t next = kNoIndex;
  std::uint32_t waiter = kNoIndex;    // first of the launches that wait for it
  std::uint32_t transfer = kNoIndex;  // slot of the transfer that it is part of
  std::uint16_t pins = 0;             // running launches that use it
  std::uint16_t tenants = 0;          // live allocations in it; more than 1 only when packed
  PageQueue queue = PageQueue::kNone;
  FetchState fetch = FetchState::kNone;  // waiting in a fetch queue
  TierSet copies;                        // tiers whose frame holds its current bytes
  TierSet frames;                        // tiers in which it has a frame
  TierSet spare;                         // of those, copies that are kept while there is room
  Contents contents = Contents::kUndefined;
  bool prepared = false;         // every page of the device frame has been zeroed or migrated over
  bool overwritten = false;      // all of it, by the launch that waits for it: need not be prepared
  bool mapped = false;           // launches and threads may use the device frame
  bool writable = false;         // ... and write it; only while mapped
  bool wants_write = false;      // a launch or a thread that waits for it will write it
  bool awaited = false;          // a thread has stopped at it
  bool retired = false;          // discarded lazily: nobody touches it before Engine::reuse
  bool prefetched = false;       // came by prefetch and has not been used since
  bool evicting = false;         // its device frame is promised to somebody else
  bool wished_out = false;       // a policy wants it copied down; using or prefetching ends that
  Tier wished_to = Tier::kHost;  // ... to this tier
  std::uint32_t counted = 0;     // the last count that it was part of
};

struct Allocation {
  BlockId first_block = 0;
  std::uint32_t block_count = 0;
  Bytes bytes = 0;
  std::uint64_t tag = 0;  // the program's name for it, e.g. a tensor's number
  bool live = false;
  bool packed = false;  // shares its one block with others
};

class Space {
 public:
  // frame_bytes: granularity of device frames; a block's size is rounded up to it, at least a page.
  explicit Space(Bytes frame_bytes = kPageBytes);

  // Gives the allocation consecutive blocks, the last one cut to size. An allocation smaller than a
  // page shares a page with others. Fails with kInvalidInput for 0 bytes or more than 2^50.
  Result<AllocationId> allocate(Bytes bytes, std::uint64_t tag);

  // Ends the allocation. Its block numbers are not given out again before `release`.
  void end(AllocationId id);
  // The numbers of a run of blocks whose frames are all gone may be reused.
  void release(BlockId first_block, std::uint32_t block_count);

  [[nodiscard]] const Allocation& allocation(AllocationId id) const { return allocations_[id]; }
  [[nodiscard]] bool is_live(AllocationId id) const {
    return id < allocations_.size() && allocations_[id].live;
  }
  [[nodiscard]] const Block& block(BlockId id) const { return blocks_[id]; }
  [[nodiscard]] Block& block(BlockId id) { return blocks_[id]; }
  [[nodiscard]] std::size_t block_slots() const { return blocks_.size(); }
  [[nodiscard]] std::size_t allocation_slots() const { return allocations_.size(); }

  // Where the block lies in the one address range: fixed for its allocation's life.
  [[nodiscard]] static std::uint64_t address_of(BlockId id) { return id * kBlockBytes; }

 private:
  BlockId take_run(std::uint32_t block_count);

  Bytes frame_bytes_;
  std::vector<Allocation> allocations_;
  std::vector<AllocationId> free_allocations_;
  std::vector<Block> blocks_;
  std::map<BlockId, std::uint32_t> free_runs_;  // first block and count; no two of them touch
  // The page that small allocations are packed into now, and how much of it is taken.
  BlockId open_page_ = kNoBlock;
  Bytes open_page_used_bytes_ = 0;
};

}  // namespace spillway
