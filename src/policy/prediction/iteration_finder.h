// Where a program that says nothing of iterations begins a new one: inference, generation,
// evaluation, a solver's loop. Layer: policy.
// DeepUM (section 3.1) knows a kernel by the hash of its arguments and of what was launched before;
// where arguments are not to be had, that hash cannot tell the layers of a network apart, but it
// tells how long ago the program was in the same place. Nearly all launches come again within one
// iteration, the layers' sooner; so the iteration is the shortest time within which all but a few
// in a thousand have come again, and it begins where something that comes once in it does.
// Memory is bounded whatever the program does. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

namespace spillway {

class IterationFinder {
 public:
  // An iteration that is longer ends there, and another begins.
  static constexpr std::uint64_t kLaunchesMax = std::uint64_t{1} << 17U;

  // The next launch; equal kinds are the same code, such as an operator's name. True if an
  // iteration begins with it.
  bool next(std::uint64_t kind);
  // The program itself says that one begins. As long as it goes on doing so, nothing else counts:
  // `next` is true again when it has not said so for twice the time that it took before, or for
  // eight times that before the first.
  void begins();

 private:
  static constexpr std::size_t kContext = 16;  // launches that make a place
  static constexpr std::size_t kBuckets = 64;  // of gaps: two for each doubling

  std::uint64_t place_after(std::uint64_t kind);
  static std::size_t bucket_of(std::uint64_t gap);
  void count(std::size_t bucket);
  [[nodiscard]] bool stands() const;
  [[nodiscard]] bool said_lately() const;

  std::array<std::uint64_t, kContext> kinds_{};  // the latest
  std::uint64_t launches_ = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> last_at_;  // by place: number of the launch
  // How many launches came again after so long; older ones count less.
  std::array<double, kBuckets> gaps_{};
  double all_gaps_ = 0;
  double new_part_ = 1;               // of the latest launches, those in places never seen
  std::size_t iteration_bucket_ = 0;  // of its length
  std::uint64_t anchor_ = 0;          // the place at which iterations begin; 0: none
  std::uint64_t anchor_at_ = 0;       // when it last came
  std::size_t anchor_bucket_ = 0;     // ... after how long
  std::uint64_t began_at_ = 0;
  std::uint64_t said_at_ = 0;
  std::uint64_t said_counts_for_ = 0;  // launches for which that counts; 0: not said yet
};

}  // namespace spillway
