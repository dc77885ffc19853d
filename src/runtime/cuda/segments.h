// The tensors in the pieces of memory that PyTorch's caching allocator divides (docs/torch.md). It
// asks the driver for segments, and hands out parts of them without a call; who frees a tensor
// keeps the segment. Here is known which tensors live in which segment, so that a segment is dead
// as soon as the last of them is, and alive again with the next. Layer: runtime. Thread-safe.
// Where nobody is told of launches because all fits, nobody is told of deaths either: a tensor that
// comes or goes is a look at two lines of memory.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "platform/cuda/cuda_platform.h"

namespace spillway {

class Segments {
 public:
  explicit Segments(cuda::CudaPlatform& platform)
      : platform_(platform), tensors_(std::size_t{1} << place_bits_) {}

  // Memory that the program has of the platform from now on, and may divide; or has given back,
  // before the platform is told.
  void made(std::uint64_t address, Bytes bytes);
  void freed(std::uint64_t address);

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

  // The platform hears of each death that it has not heard of yet.
  void tell_deaths();
  // From now on it hears of each at once: launches are written down, with what lives.
  void always_tell();

  // What the program has asked for of the tensor that begins there, if it has its segment to
  // itself; 0 where no tensors are known to be. For who must not wait: nullopt also while another
  // thread is here.
  [[nodiscard]] std::optional<Bytes> asked_alone_at_once(std::uint64_t address) const;
  // The living tensor that begins there. For who must not wait, likewise.
  [[nodiscard]] std::optional<cuda::CudaPlatform::Range> tensor_at_once(
      std::uint64_t address) const;
  // In which this address lies. Only where each death is told at once.
  [[nodiscard]] std::optional<cuda::CudaPlatform::Range> tensor_at(std::uint64_t address) const;
  // Of all segments, whether tensors live in them or not.
  [[nodiscard]] Bytes bytes() const;

 private:
  using Index = std::uint32_t;
  static constexpr Index kNone = ~Index{0};
  struct Segment {
    std::uint64_t address = 0;
    Bytes bytes = 0;
    std::optional<cuda::CuStream> stream = std::nullopt;
    std::uint32_t tensors = 0;  // that live
    bool dead = false;          // and the platform knows
    bool listed = false;        // in empty_
    bool whole = false;

    [[nodiscard]] bool has(std::uint64_t at) const { return at >= address && at - address < bytes; }
  };
  // An address at which a tensor lives, or has lived.
  struct Place {
    std::uint64_t address = 0;  // 0: nobody's
    Bytes bytes = 0;            // 0: dead
    Bytes asked_bytes = 0;      // 0: not known
    Index segment = kNone;
  };

  [[nodiscard]] Index segment_of(std::uint64_t address) const;
  [[nodiscard]] std::size_t place_of(std::uint64_t address) const;
  [[nodiscard]] const Place* living_at(std::uint64_t address) const;
  Place& place_for(std::uint64_t address);
  void end(Place& place);
  void make_more_places();
  [[nodiscard]] bool is_untold() const;
  void retire(Segment& segment);
  void tell_all();

  cuda::CudaPlatform& platform_;
  mutable std::mutex mutex_;
  std::vector<Segment> segments_;
  std::vector<Index> free_indices_;
  std::unordered_map<std::uint64_t, Index> pages_;  // by each page of kBlockBytes
  int place_bits_ = 10;
  std::vector<Place> tensors_;  // 2^place_bits_, by a spread of the address
  std::size_t used_places_ = 0;
  std::map<std::uint64_t, Bytes> in_order_;  // that live, where each death is told at once
  std::vector<Index> empty_;  // without tensors, and the platform takes them for alive
  Bytes bytes_ = 0;
  bool always_tells_ = false;
};

}  // namespace spillway
