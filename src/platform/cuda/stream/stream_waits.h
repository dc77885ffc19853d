// For each stream of the program two words in pinned memory: its stream waits look at one, its
// completion markers write the other. Layer: platform, cuda. Both count the launches of the
// stream and only ever grow: the stream wait is satisfied up to a launch, and the stream has run up
// to one. Opening is a plain store, so that it needs no context and waits for nothing. Which
// launches those are it does not know. Thread-safe; the calls that put something on a stream must
// come in order, with the stream's context current.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "platform/cuda/driver/driver.h"

namespace spillway::cuda {

class StreamWaits {
 public:
  static constexpr std::uint32_t kStreams = 4096;  // at once

  // The driver must outlive it.
  explicit StreamWaits(const Driver& driver) : driver_(&driver) {}
  // The engine's context is current; no stream wait is pending in give_back.
  [[nodiscard]] CuResult make();
  void give_back();

  // `stream`: a number below kStreams; `launch`: a launch's number on it, from 1.
  void open(std::uint32_t stream, std::uint64_t launch) {
    wait_word(stream).store(launch, std::memory_order_release);
  }
  [[nodiscard]] std::uint64_t opened(std::uint32_t stream) const {
    return wait_word(stream).load(std::memory_order_relaxed);
  }
  // Everything up to this launch has run.
  [[nodiscard]] std::uint64_t run_up_to(std::uint32_t stream) const {
    return marker_word(stream).load(std::memory_order_acquire);
  }
  // What comes behind waits until the stream wait is satisfied up to the launch.
  [[nodiscard]] CuResult put_wait(std::uint32_t stream, std::uint64_t launch, CuStream on) const;
  // Says so when everything before has run.
  [[nodiscard]] CuResult put_marker(std::uint32_t stream, std::uint64_t launch, CuStream on) const;

 private:
  using Word = std::atomic<std::uint64_t>;
  static_assert(sizeof(Word) == sizeof(std::uint64_t) && Word::is_always_lock_free);
  // A line of a processor's cache for each word: the host writes one, the device the other.
  static constexpr std::size_t kWordsApart = 8;
  [[nodiscard]] Word& wait_word(std::uint32_t stream) const {
    return words_[2 * kWordsApart * stream];
  }
  [[nodiscard]] Word& marker_word(std::uint32_t stream) const {
    return words_[2 * kWordsApart * stream + kWordsApart];
  }

  const Driver* driver_;
  Word* words_ = nullptr;
};

}  // namespace spillway::cuda
