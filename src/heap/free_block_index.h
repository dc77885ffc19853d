// What a heap keeps of what was freed: by stream and size, lowest address first, so that the same
// requests meet the same answers; and which is oldest of all. Layer: heap. Not thread-safe.
// A program frees and allocates with every launch, and what it does in between leaves nothing of
// ours in the processor's caches. So all is in a few arrays: what has been taken, or given up,
// stays in them as a stale entry until somebody comes by.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "platform/cuda/cuda_platform.h"

namespace spillway {

class FreeBlockIndex {
 public:
  using Stream = cuda::CuStream;
  // The heap's number for an address that it has; another's when that one is gone.
  using Slot = std::uint32_t;
  struct Found {
    Bytes size = 0;
    Slot slot = 0;
  };

  void keep(Stream stream, Bytes size, std::uint64_t address, Slot slot);
  // What is kept for this stream: the lowest address of the smallest size of at least `size` and at
  // most `most`. nullopt: there is none.
  [[nodiscard]] std::optional<Found> find(Stream stream, Bytes size, Bytes most);
  // Of all streams. Something is kept.
  [[nodiscard]] Slot oldest();
  // All that is kept.
  [[nodiscard]] std::vector<Slot> oldest_first() const;
  // All that is kept for a stream, which is forgotten.
  [[nodiscard]] std::vector<Slot> forget(Stream stream);
  // It is not kept any more.
  void remove(Slot slot);

  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] Bytes bytes() const { return bytes_; }

 private:
  // Since when a slot is kept, by a count of all that ever were; an entry of another time is stale.
  using Since = std::uint64_t;
  static constexpr Since kNotKept = 0;
  struct State {
    Since since = kNotKept;
    Bytes size = 0;
  };
  struct Entry {
    std::uint64_t address = 0;
    Since since = 0;
    Slot slot = 0;
  };
  struct Aged {
    Since since = 0;
    Slot slot = 0;
  };
  struct OfSize {
    Bytes size = 0;
    std::vector<Entry> lowest_first = {};  // a heap
    std::size_t clean_at = 0;              // entries, at which stale ones are looked for
  };
  using Sizes = std::vector<OfSize>;  // smallest first

  [[nodiscard]] bool is_stale(Slot slot, Since since) const { return states_[slot].since != since; }
  static Sizes::iterator at_least(Sizes& sizes, Bytes size);
  OfSize& of_size(Sizes& sizes, Bytes size);
  void drop_stale(OfSize& of) const;

  std::vector<State> states_;  // by slot
  std::unordered_map<Stream, Sizes> streams_;
  std::deque<Aged> oldest_first_;
  Since last_ = 0;
  std::size_t count_ = 0;
  Bytes bytes_ = 0;
};

}  // namespace spillway
