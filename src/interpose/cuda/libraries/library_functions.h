// Functions of CUDA's libraries that stand in front of the libraries' own: which that would have
// been. Programs may have several of one library, each in the scope of those that were linked with
// it. Layer: interpose, cuda.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace spillway::cuda {

// The function of this name that who calls from there would have without `ours`; nullptr: none.
// Where the place does not tell (a call in place of a return looks like one of its caller's),
// whichever is loaded.
[[nodiscard]] void* without_us(const char* name, const void* ours, const void* caller);
template <typename Function>
[[nodiscard]] Function without_us_as(const char* name, Function ours, const void* caller) {
  return reinterpret_cast<Function>(without_us(name, reinterpret_cast<const void*>(ours), caller));
}

// Whether a library is loaded whose file is called so, in part.
[[nodiscard]] bool is_loaded(std::string_view part_of_name);

// The library that has it is not closed any more: it is remembered, and programs close what they
// have opened.
void keep_loaded(const void* function);

// What is known of a function by who calls it, as the last callers had it: the same few call it all
// the time, and to find out costs as much as a launch. `Known` has `caller` and `function`. Of one
// thread.
template <typename Known, std::size_t kPlaces = 8>
class OfCallers {
 public:
  template <typename Find>
  [[nodiscard]] const Known& of(const void* caller, const Find& find) {
    for (const Known& known : known_) {
      if (known.caller == caller) {
        return known;
      }
    }
    const Known found = find();
    keep_loaded(reinterpret_cast<const void*>(found.function));
    // One that finds nothing asks again: its library may be loaded later.
    return (found.function == nullptr ? missed_ : known_[next_++ % known_.size()]) = found;
  }

 private:
  std::array<Known, kPlaces> known_{};
  Known missed_;
  std::size_t next_ = 0;
};

}  // namespace spillway::cuda
