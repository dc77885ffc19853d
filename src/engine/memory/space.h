// The space over all tiers: allocations, and the blocks that they are made of.
// Layer: engine. Knows nothing of capacities or migrations; it hands out block numbers and keeps
// each block's record. Where a block lies in the program's addresses is the platform's to say.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/free_ranges.h"
#include "engine/types.h"

namespace spillway {

enum class PageQueue : std::uint8_t { kNone, kUnused, kDiscarded, kUsed };
enum class FetchState : std::uint8_t { kNone, kPrefetch, kFault };

inline constexpr std::uint32_t kNoIndex = std::numeric_limits<std::uint32_t>::max();

// A piece of one allocation, the unit of residency; or a frame that allocations smaller than a
// frame share (G10 section 4.5). Written by the engine only. One line of a processor's cache.
struct alignas(64) Block {
  std::uint64_t epoch = 0;                  // of its allocation, in which it was pinned last
  AllocationId allocation = kNoAllocation;  // of the last tenant, where several share the block
  std::uint32_t bytes = 0;                  // a multiple of the frame; 0 while the number is unused
  // Neighbours in a page queue; in the used queue, in the list of those that wait for one launch
  // (pending_uses.h).
  std::uint32_t previous = kNoIndex;
  std::uint32_t next = kNoIndex;
  std::uint32_t position = 0;            // in the used queue
  std::uint32_t waiter = kNoIndex;       // first of the launches that wait for it
  std::uint32_t transfer = kNoIndex;     // slot of the transfer that it is part of
  std::uint32_t first_claim = kNoIndex;  // issued launches that name it, in order (pending_uses.h)
  std::uint32_t last_claim = kNoIndex;
  std::uint32_t pins = 0;     // admitted launches that use it, as often as they name it, and fixed
  std::uint32_t tenants = 0;  // live allocations in it; more than 1 only when packed
  PageQueue queue = PageQueue::kNone;
  FetchState fetch = FetchState::kNone;  // waiting in a fetch queue
  TierSet copies;                        // tiers whose frame holds its current bytes
  TierSet frames;                        // tiers in which it has a frame
  TierSet spare;                         // of those, copies that are kept while there is room
  Contents contents = Contents::kUndefined;
  bool prepared : 1 = false;     // every page of the device frame has been zeroed or migrated over
  bool overwritten : 1 = false;  // all of it, by the launch that waits for it: need not be prepared
  bool mapped : 1 = false;       // launches and threads may use the device frame
  bool writable : 1 = false;     // ... and write it; only while mapped
  bool wants_write : 1 = false;  // a launch or a thread that waits for it will write it
  bool awaited : 1 = false;      // a thread has stopped at it
  bool retired : 1 = false;      // discarded lazily: nobody touches it before Engine::reuse
  bool prefetched : 1 = false;   // came by prefetch and has not been used since
  bool evicting : 1 = false;     // its device frame is promised to somebody else
  bool wished_out : 1 = false;   // a policy wants it copied down; using or prefetching ends that
  bool stays : 1 = false;        // ... or it is being copied down, and is used as before afterwards
  bool held_for : 1 = false;     // the launch that is to be admitted next names it (pins.h)
  bool listed : 1 = false;       // with others that its next launch will find (pending_uses.h)
  // Its device frame is host memory, used over the link (docs/cuda.md).
  bool host_mapped : 1 = false;
  bool exposed : 1 = false;  // launches may write it that do not name it (Launch::reaches)
  bool at_host : 1 = false;  // what pins it are updates, which use it in host memory (updates.h)
  Tier wished_to = Tier::kHost;  // ... to this tier
  std::uint8_t gathered = 0;     // calls that the mechanism has not heard yet (mechanism_batch.h)
  std::uint16_t fixed = 0;       // allocations in it that stay on the device (Engine::fix)
};

static_assert(sizeof(Block) == 64, "a launch touches many blocks, each of them somewhere else");

// Whether a tier below the device has its current bytes.
[[nodiscard]] inline bool safe_below(const Block& block) {
  return block.copies.has(Tier::kHost) || block.copies.has(Tier::kStorage);
}

// Whether admitted launches use it on the device, or it is fixed there.
[[nodiscard]] inline bool pinned_on_device(const Block& block) {
  return block.pins > 0 && !block.at_host;
}

// What its device frame takes of the device.
[[nodiscard]] inline Bytes device_bytes(const Block& block) {
  return block.host_mapped ? 0 : block.bytes;
}

struct Allocation {
  BlockId first_block = 0;
  std::uint32_t block_count = 0;
  Bytes bytes = 0;
  Bytes block_bytes = 0;   // of every block but the last
  Bytes frame_bytes = 0;   // of all its blocks together
  Bytes offset_bytes = 0;  // in its one block, where packed
  std::uint64_t tag = 0;   // the program's name for it, e.g. a tensor's number
  bool live = false;
  bool packed = false;  // shares its one block with others
};

class Space {
 public:
  // frame_bytes: granularity of device frames; a block's size is rounded up to it, at least a page.
  explicit Space(Bytes frame_bytes = kPageBytes);

  // Gives the allocation consecutive blocks of block_bytes, the last one cut to what is left and
  // rounded up to frames. An allocation smaller than a frame shares one with others, at a multiple
  // of 256 bytes; what others have left there may still lie in it. Fails with kInvalidInput for 0
  // bytes or more than 2^50, for blocks that are not a multiple of the frame up to 1 GiB, and for
  // more than 2^31 blocks in all.
  Result<AllocationId> allocate(Bytes bytes, std::uint64_t tag, Bytes block_bytes = kBlockBytes);

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
  // Whether anybody's memory is in the block with this number, which may be any.
  [[nodiscard]] bool has_tenant(BlockId id) const {
    return id < blocks_.size() && blocks_[id].tenants > 0;
  }
  // Whether the block, which somebody's memory is in, is a frame that small allocations share.
  [[nodiscard]] bool is_shared(BlockId id) const {
    const Allocation& last =
        allocations_[blocks_[id].allocation];  // may be gone, or another by now
    return !last.live || last.packed || id - last.first_block >= last.block_count;
  }
  [[nodiscard]] std::size_t block_slots() const { return blocks_.size(); }
  [[nodiscard]] std::size_t allocation_slots() const { return allocations_.size(); }

  // Tenants against live allocations, and that no two share a place.
  [[nodiscard]] Status check() const;

 private:
  BlockId take_run(std::uint32_t block_count);
  void pack(Allocation& allocation, AllocationId id);
  // Where the room of a shared frame begins in free_room_.
  [[nodiscard]] Bytes room_of(BlockId frame) const { return Bytes{frame} * 2 * frame_bytes_; }

  Bytes frame_bytes_;
  std::vector<Allocation> allocations_;
  std::vector<AllocationId> free_allocations_;
  std::vector<Block> blocks_;
  FreeRanges free_blocks_;
  // Room in frames that small allocations share. Such a frame has the place block number times
  // twice its size, so that the room of two frames never touches.
  FreeRanges free_room_;
};

}  // namespace spillway
