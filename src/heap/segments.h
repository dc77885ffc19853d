// The tensors inside the segments that PyTorch's caching allocator divides. Layer: heap.
// Thread-safe. docs/interposer.md. PyTorch asks the driver for segments, and hands out parts of
// them without a driver call; it keeps a segment when its tensors are freed. This class knows the
// tensors of each segment, so that a segment is dead as soon as its last tensor is, and alive again
// with the next one. In bypass mode the platform need not hear of deaths: tensors that come and go
// are written to a list and looked at thousands at a time, because looking at each when it comes,
// with cold caches, costs more than all else here. Where the program maps memory itself each piece
// is a segment, and a tensor that lies across several pieces lives in all of them
// (segments_mapped.cc).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/units.h"
#include "heap/dead_pages.h"
#include "heap/tensor_table.h"
#include "platform/cuda/cuda_platform.h"

namespace spillway {

class Segments {
 public:
  explicit Segments(cuda::CudaPlatform& platform) : platform_(platform), log_(kMostWritten) {}

  // Memory that the program has of the platform from now on, and may divide; or has given back,
  // before the platform is told.
  void made(std::uint64_t address, Bytes bytes);
  void freed(std::uint64_t address);
  // The same of a piece of memory that the program maps at addresses that it has reserved. What
  // lives there, and what graphs use, is known by its addresses, until they are the program's no
  // more: it may map another piece there.
  void mapped(std::uint64_t address, Bytes bytes);
  void unmapped(std::uint64_t address);
  void addresses_ended(std::uint64_t address, Bytes bytes);

  // How much the allocator of those tensors has of the driver at this moment. A segment with which
  // it would have more is another's, who has given it a part: that one lives as a whole.
  void allocator_has(Bytes bytes) { allocator_bytes_.store(bytes, std::memory_order_relaxed); }

  // A tensor comes, with so many bytes of a segment, or goes (fewer than 0). True if it is enough
  // to have written that down; otherwise `born` or `died` follows.
  [[nodiscard]] bool write_down(std::uint64_t address, std::int64_t bytes) {
    if (!platform_.bypass().calls_are_open()) {
      return false;
    }
    const MutexLock lock(mutex_);
    if (!writes_down_ || written_ == kMostWritten ||
        dead_.may_have(address, bytes > 0 ? static_cast<Bytes>(bytes) : 0)) {
      return false;
    }
    log_[written_++] = {.address = address, .bytes = bytes};
    return true;
  }
  // A tensor has these bytes of a segment from now on. Memory that is in no segment is left alone.
  void born(std::uint64_t address, Bytes bytes);
  // Of one that lives: what the program has asked for, and the stream on which its segment is used,
  // from one tensor to the next.
  void asked(std::uint64_t address, Bytes bytes, std::optional<cuda::CuStream> stream);
  // What was launched before may use it still. False: none that is known begins there.
  bool died(std::uint64_t address);
  // A graph uses the segment in which this lies, each time that it runs, or another process does,
  // whatever becomes of the tensors: it lives as a whole until it is freed.
  void keep_whole(std::uint64_t address);

  // Who is told, by its start, of each segment in which nothing lives any more, when the platform
  // is. It must not come back here. Before the first tensor.
  void tell_of_dead(std::function<void(std::uint64_t)> told) { dead_told_ = std::move(told); }
  // The platform hears of each death that it has not heard of yet.
  void tell_deaths();
  // From now on it hears of each at once: launches are written down, with what lives.
  void always_tell();

  // What the program has asked for of the tensor that begins there, if it has its segment to
  // itself; 0 where no tensors are known to be. For who must not wait: nullopt also while another
  // thread is here.
  [[nodiscard]] std::optional<Bytes> asked_alone_at_once(std::uint64_t address) const;
  // The same whether it has or not. For who must not wait, likewise.
  [[nodiscard]] std::optional<Bytes> asked_at_once(std::uint64_t address) const;
  // The living tensor that begins there. For who must not wait, likewise.
  [[nodiscard]] std::optional<cuda::AddressRange> tensor_at_once(std::uint64_t address);
  // In which this address lies. Only where each death is told at once.
  [[nodiscard]] std::optional<cuda::AddressRange> tensor_at(std::uint64_t address) const;
  // What an address can mean in memory that the program maps itself, where `in` and `ends` are
  // living tensors: the one in which it lies, and the one of which it is the end (0 bytes: none).
  // What lies there and is no tensor that is known is `between` those that are, or in a part of
  // that. nullopt: neither the address nor the byte before it is in such memory.
  struct Meant {
    cuda::AddressRange in;
    cuda::AddressRange ends;
    cuda::AddressRange between;
  };
  [[nodiscard]] std::optional<Meant> meant_by(std::uint64_t address);
  // Of all segments that were not mapped, whether tensors live in them or not.
  [[nodiscard]] Bytes bytes() const;

 private:
  using Index = std::uint32_t;
  static constexpr Index kNone = TensorPlace::kNoSegment;
  struct Segment {
    std::uint64_t address = 0;
    Bytes bytes = 0;
    std::optional<cuda::CuStream> stream = std::nullopt;
    std::uint32_t tensors = 0;  // that live
    bool dead = false;          // and the platform knows
    bool listed = false;        // in empty_
    bool whole = false;
    bool divided = false;  // by the allocator of the tensors
    bool mapped = false;   // by the program: tensors may go on into the next

    [[nodiscard]] bool has(std::uint64_t at) const { return at >= address && at - address < bytes; }
  };
  struct Written {
    std::uint64_t address = 0;
    std::int64_t bytes = 0;
  };
  static constexpr std::size_t kMostWritten = 4096;

  [[nodiscard]] Index segment_of(std::uint64_t address) const SPILLWAY_REQUIRES(mutex_);
  Index add_segment(const Segment& segment) SPILLWAY_REQUIRES(mutex_);
  Segment remove_segment(Index index) SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] Index first_segment(const TensorPlace& place) const SPILLWAY_REQUIRES(mutex_);
  // Each in which it lies.
  template <typename Visit>
  void for_each_segment(const TensorPlace& place, const Visit& visit) SPILLWAY_REQUIRES(mutex_) {
    for (Index index = first_segment(place); index != kNone;) {
      visit(index);
      const Segment& segment = segments_[index];
      const std::uint64_t behind = segment.address + segment.bytes;
      const std::uint64_t end = place.address + place.bytes;
      index = behind < end ? first_segment({.address = behind, .bytes = end - behind}) : kNone;
    }
  }
  // Living tensors that have some of these bytes, where they are in in_order_.
  template <typename Visit>
  void for_each_living_in(std::uint64_t address, Bytes bytes, const Visit& visit) const
      SPILLWAY_REQUIRES(mutex_) {
    auto at = in_order_.upper_bound(address);
    if (at != in_order_.begin() && address - std::prev(at)->first < std::prev(at)->second) {
      --at;
    }
    for (; at != in_order_.end() && (at->first < address || at->first - address < bytes);) {
      const auto& living = *at++;
      visit(living.first, living.second);
    }
  }
  Index begin(std::uint64_t address, Bytes bytes) SPILLWAY_REQUIRES(mutex_);
  void note_divided(Segment& segment) SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] bool end(std::uint64_t address) SPILLWAY_REQUIRES(mutex_);
  void end(TensorPlace& place) SPILLWAY_REQUIRES(mutex_);
  // As far as they are in in_order_.
  void end_all_in(std::uint64_t address, Bytes bytes) SPILLWAY_REQUIRES(mutex_);
  void look_at_written() SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] bool is_unannounced() const SPILLWAY_REQUIRES(mutex_);
  void retire(Segment& segment) SPILLWAY_REQUIRES(mutex_);
  bool revive(Segment& segment) SPILLWAY_REQUIRES(mutex_);
  void tell_all() SPILLWAY_REQUIRES(mutex_);
  void tell_unless_unannounced() SPILLWAY_REQUIRES(mutex_);

  cuda::CudaPlatform& platform_;
  // What follows at once is what a tensor needs where it is only written down.
  mutable Mutex mutex_;
  bool writes_down_ SPILLWAY_GUARDED_BY(mutex_) = false;
  std::size_t written_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  std::vector<Written> log_ SPILLWAY_GUARDED_BY(mutex_);
  // Of segments that the platform takes for dead.
  DeadPages dead_ SPILLWAY_GUARDED_BY(mutex_);
  bool dead_have_changed_ SPILLWAY_GUARDED_BY(mutex_) = false;  // since that was filled
  std::atomic<Bytes> allocator_bytes_{~Bytes{0}};
  Bytes divided_bytes_ SPILLWAY_GUARDED_BY(mutex_) = 0;  // of the segments that it has divided
  std::vector<Segment> segments_ SPILLWAY_GUARDED_BY(mutex_);
  std::vector<Index> free_indices_ SPILLWAY_GUARDED_BY(mutex_);
  // By each page of kBlockBytes.
  std::unordered_map<std::uint64_t, Index> pages_ SPILLWAY_GUARDED_BY(mutex_);
  TensorTable tensors_ SPILLWAY_GUARDED_BY(mutex_);
  // That live, in what the program has mapped; of all segments where each death is told at once.
  std::map<std::uint64_t, Bytes> in_order_ SPILLWAY_GUARDED_BY(mutex_);
  // Of mapped ones that were whole.
  std::map<std::uint64_t, Bytes> whole_addresses_ SPILLWAY_GUARDED_BY(mutex_);
  // Without tensors, and the platform takes them for alive.
  std::vector<Index> empty_ SPILLWAY_GUARDED_BY(mutex_);
  Bytes bytes_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  bool always_tells_ SPILLWAY_GUARDED_BY(mutex_) = false;
  std::function<void(std::uint64_t)> dead_told_ = [](std::uint64_t /*start*/) {};
};

}  // namespace spillway
