// A program's allocator over a GPU's space: what is freed in the order of a stream is kept, dead
// but in place, for the next allocation of its size on that stream. Half of the bytes of a training
// step live for four launches (docs/gpu.md section 6) and must cost no map and no unmap. So that a
// program takes little more than it has in use, a larger one is handed on as well, or what nobody
// has taken for longest is given up (trim_policy.h): after a few steps each allocation finds what
// it needs. Where something has to leave, sizes that are near become one (near_sizes.h). Where
// nobody is told of launches because all fits, nobody is told of what is freed and handed on either
// (stream_cache.h). Layer: heap. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/error.h"
#include "base/mutex.h"
#include "base/units.h"
#include "heap/free_block_index.h"
#include "heap/heap_pieces.h"
#include "heap/platform_keep.h"
#include "heap/pool_accounts.h"
#include "heap/released_sizes.h"
#include "heap/stream_cache.h"
#include "heap/stream_sizes.h"
#include "heap/trim_policy.h"
#include "platform/common/near_sizes.h"
#include "platform/cuda/cuda_platform.h"

namespace spillway {

class DeviceHeap {
 public:
  explicit DeviceHeap(cuda::CudaPlatform& platform)
      : platform_(platform),
        pools_(platform.capacity_bytes(Tier::kDevice)),
        keep_([this](Bytes bytes) { platform_.memory().keep_at_most(bytes); }) {}

  // Whose order an allocation and a free stand in: a stream. What was freed in one order may still
  // be in use in another. nullopt: on no stream, such memory is never handed on.
  using Stream = cuda::CuStream;
  // Whose memory it is: a pool of the program's. kNoPool: none's. All of them lie together, and
  // what is kept of one another may be given.
  using Pool = PoolAccounts::Pool;
  static constexpr Pool kNoPool = PoolAccounts::kNone;
  // An address at a multiple of 512. Fails with kUnsupported, naming the budgets, and with
  // kInvalidInput where the pool would have more in use than it may.
  Result<std::uint64_t> allocate(Bytes bytes, std::optional<Stream> stream, Pool pool = kNoPool);
  // False if no allocation starts there. Takes effect when what was launched on it before has
  // ended.
  bool free(std::uint64_t address, std::optional<Stream> stream);
  // The platform is told of each death at once, also where it need not be: launches are written
  // down, with what lives. Before the first allocation.
  void always_tell();
  // The program has given this stream up: nobody will ask in its order again.
  void forget(Stream stream);
  // Bytes that a program asked for; nullopt if none starts there.
  [[nodiscard]] std::optional<Bytes> bytes_of(std::uint64_t address) const;
  // The same for who must not wait: also nullopt while another thread is in the heap.
  [[nodiscard]] std::optional<Bytes> bytes_of_at_once(std::uint64_t address) const;
  // Whether what starts there is in use, and given back to the platform as soon as it is freed.
  [[nodiscard]] bool is_on_no_stream(std::uint64_t address) const;
  // Of an allocation in use: what the program has asked for, and a number that no other has had.
  struct Description {
    Bytes bytes = 0;
    std::uint64_t serial = 0;
    Pool pool = kNoPool;
  };
  [[nodiscard]] std::optional<Description> describe(std::uint64_t address) const;
  // Whether the program has asked for just so many bytes there; true as well while another thread
  // is in the heap.
  [[nodiscard]] bool may_end_at(std::uint64_t address, Bytes bytes) const;
  // Each allocation in use: its address and bytes.
  void for_each(const std::function<void(std::uint64_t, Bytes)>& visit) const;

  // Gives kept memory up, oldest first, until at most so much is used and kept; the device has it
  // back when the launches before have ended.
  void trim_to(Bytes bytes);
  // The same of one pool's.
  void trim_to(Pool pool, Bytes bytes);

  // At most so many bytes, in multiples of 512, are in use of it at once.
  [[nodiscard]] Pool open_pool(Bytes most_bytes);
  // What it keeps is given up, and what is in use of it is no pool's from then on.
  void close_pool(Pool pool);
  // Of each pool; what is reserved as far as the device's budget could hold it.
  using Usage = PoolAccounts::Usage;
  [[nodiscard]] Usage usage(Pool pool = kNoPool) const;
  void reset_used_high(Pool pool = kNoPool);
  void reset_reserved_high(Pool pool = kNoPool);
  // Of all of them.
  [[nodiscard]] Bytes used_bytes() const;

  // What an allocation of so many bytes takes; equal sizes share what they leave behind.
  [[nodiscard]] static Bytes size_of(Bytes bytes);

 private:
  using Slot = FreeBlockIndex::Slot;
  // The block that an allocation gets: one that is kept, or a new one.
  struct Choice {
    Bytes size = 0;  // of a new one
    std::optional<FreeBlockIndex::Found> kept = std::nullopt;
  };
  [[nodiscard]] Choice choose(Bytes asked, Stream stream) SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] Result<Slot> use_again(const FreeBlockIndex::Found& kept, Bytes asked,
                                       Stream stream) SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] Result<Slot> make_new(Bytes asked, Bytes size, std::optional<Stream> stream,
                                      Pool pool) SPILLWAY_REQUIRES(mutex_);
  Result<std::uint64_t> make(Bytes size) SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] bool undo(Slot slot) SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] std::uint64_t hand_out(Slot slot, Bytes bytes, Bytes asked, Pool pool)
      SPILLWAY_REQUIRES(mutex_);
  void is_of_pool(HeapPiece& memory, Pool pool) SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] bool unannounced() const SPILLWAY_REQUIRES(mutex_);
  void tell_what_is_cached() SPILLWAY_REQUIRES(mutex_);
  void keep(Slot slot, Stream stream) SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] Status reuse(Slot slot, Stream stream) SPILLWAY_REQUIRES(mutex_);
  void no_longer_counts(HeapPiece& memory) SPILLWAY_REQUIRES(mutex_);
  void no_longer_has_more(const HeapPiece& memory) SPILLWAY_REQUIRES(mutex_);
  void give_up_what_is_too_much() SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] TrimPolicy::Has has() const SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] Bytes budget_bytes() const { return platform_.capacity_bytes(Tier::kDevice); }
  void before_making(Bytes size) SPILLWAY_REQUIRES(mutex_);
  void free_slot(Slot slot) SPILLWAY_REQUIRES(mutex_);
  void forget_slot(Slot slot) SPILLWAY_REQUIRES(mutex_);
  void give_up(Slot slot) SPILLWAY_REQUIRES(mutex_);

  cuda::CudaPlatform& platform_;
  mutable Mutex mutex_;
  // What follows at once is what an allocation needs where nobody is told of it.
  std::uint64_t last_serial_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  // Sizes of those in use, as they were asked for.
  Bytes used_bytes_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  Bytes more_bytes_ SPILLWAY_GUARDED_BY(mutex_) = 0;  // that they have
  PoolAccounts pools_ SPILLWAY_GUARDED_BY(mutex_);
  TrimPolicy room_ SPILLWAY_GUARDED_BY(mutex_);
  ReleasedSizes missing_ SPILLWAY_GUARDED_BY(mutex_);
  FreeBlockIndex kept_ SPILLWAY_GUARDED_BY(mutex_);
  // Alive for the platform, and for `sizes_` what it was when it was freed.
  StreamCache stream_cache_ SPILLWAY_GUARDED_BY(mutex_);
  HeapPieces pieces_ SPILLWAY_GUARDED_BY(mutex_);
  StreamSizes sizes_ SPILLWAY_GUARDED_BY(mutex_);
  PlatformKeep keep_ SPILLWAY_GUARDED_BY(mutex_);
  bool always_tells_ SPILLWAY_GUARDED_BY(mutex_) = false;
  // What was made last, if it is so large that it may only have been to see how much there is, and
  // what was known before.
  struct Newest {
    Slot slot = 0;
    std::optional<Stream> stream;
    Usage usage;  // of its pool
    TrimPolicy room;
    NearSizes near;
    Bytes missing_bytes = 0;  // the size that was missing until then, if it was
  };
  std::optional<Newest> newest_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace spillway
