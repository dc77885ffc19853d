// What a heap has at hand: memory that was freed where all fits, and of which nobody has been told,
// by stream and size, what was freed last on top. Layer: heap. Not thread-safe.
// By the time that a program allocates again, PyTorch and the driver have had the processor's
// caches, and each line of ours costs more than what is done with it: so a stack is found by one
// look at one array (docs/cuda.md).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"
#include "platform/cuda/driver/driver_types.h"

namespace spillway {

class StreamCache {
 public:
  using Stream = cuda::CuStream;
  using Slot = std::uint32_t;  // the heap's number for an address

  // False where no place is left for one more stream and size: nothing has changed.
  [[nodiscard]] bool put(Stream stream, Bytes size, Slot slot);
  [[nodiscard]] std::optional<Slot> take(Stream stream, Bytes size);
  // All of it, what was freed first of each stream and size before the rest; nothing is cached
  // then.
  struct Taken {
    Slot slot = 0;
    Stream stream = nullptr;
  };
  [[nodiscard]] std::vector<Taken> take_all();

  [[nodiscard]] bool empty() const { return bytes_ == 0; }
  [[nodiscard]] Bytes bytes() const { return bytes_; }

 private:
  struct Stack {
    Stream stream = nullptr;
    Bytes size = 0;  // 0: never had since all was taken, so nobody has had to go past it
    Slot top = 0;
    std::uint32_t count = 0;
  };
  // nullptr: there is none.
  [[nodiscard]] Stack* find(Stream stream, Bytes size);
  // An empty one, which is its own from now on; nullptr: others have all places that it may have.
  [[nodiscard]] Stack* make(Stream stream, Bytes size);
  [[nodiscard]] Stack* first_place(Stream stream, Bytes size);

  static constexpr int kBits = 10;
  static constexpr std::size_t kPlaces = 4;  // that one may have, in a row
  Bytes bytes_ = 0;
  std::vector<Slot> below_;           // by slot
  std::vector<std::uint32_t> known_;  // stacks that are somebody's
  std::array<Stack, (std::size_t{1} << kBits) + kPlaces> stacks_{};
};

}  // namespace spillway
