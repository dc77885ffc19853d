// Sizes that had better be one: memory of a little less than what others have, which live at other
// times, lies where those have been. Layer: platform, common.
// A GPU's frames are handles of one size each, and a frame of another size has to be made, mapped
// and cleared (docs/cuda.md, "Sizes that are near"). Knows how many of a size were in use, and
// when.
#pragma once

#include <cstdint>
#include <map>

#include "base/units.h"

namespace spillway {

class NearSizes {
 public:
  // One more of this size is in use, or one less: what the program asks for, as heap_size_of has
  // it, not what it is given. In the program's order.
  void born(Bytes size);
  void died(Bytes size);

  // What the next one of this size had better be given: that size, or one of those that were asked
  // for that is larger by an eighth at most, and whose own are given what they ask for.
  [[nodiscard]] Bytes better(Bytes size) const;
  // The most that was in use, of all sizes.
  [[nodiscard]] Bytes peak_bytes() const { return peak_bytes_; }

 private:
  struct Size {
    std::uint64_t now = 0;
    std::uint64_t most = 0;
    std::uint64_t at_peak = 0;  // when most bytes of all sizes were in use
    // By larger size: how many of both were in use at once at most.
    std::map<Bytes, std::uint64_t> most_with;
  };
  using Sizes = std::map<Bytes, Size>;
  [[nodiscard]] Sizes::iterator of_several_frames();
  void note_most(Sizes::iterator born);
  [[nodiscard]] Bytes saved_bytes(Sizes::const_iterator size, Bytes larger,
                                  std::uint64_t most_at_once) const;
  [[nodiscard]] bool moves(Bytes size) const;

  Sizes sizes_;
  Bytes bytes_ = 0;
  Bytes peak_bytes_ = 0;
};

}  // namespace spillway
