// What a made-up program knows of the order in which its launches will run: streams, and signals by
// which one waits for another. Layer: platform (sim). Knows no engine.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/rng.h"
#include "engine/types.h"

namespace spillway::sim {

// Vector clocks: for each stream, how far every stream has come before whatever is issued to it
// now. A signal may be waited for before it is recorded. That its recording never depends on the
// wait is seen to here: so every signal can be recorded in the end, on stream 0 if nowhere else.
class ProgramOrder {
 public:
  explicit ProgramOrder(std::uint32_t streams);

  // Where a launch stands.
  struct Point {
    StreamId stream = kNoStream;
    std::uint64_t at = 0;
  };
  Point issue(StreamId stream);
  // Whatever is issued to the stream from now on runs after the launch.
  [[nodiscard]] bool is_before(const Point& point, StreamId stream) const;

  // Signals by numbers of their own, from 1.
  struct Link {
    std::uint64_t signal = 0;
    StreamId stream = 0;
  };
  // A recording on `from`, of a new signal; nullopt where `to` may not wait for it.
  [[nodiscard]] std::optional<std::uint64_t> record_for(StreamId from, StreamId to);
  // A wait for a signal that has been recorded, or will be; nullopt where dice or rules forbid it.
  [[nodiscard]] std::optional<Link> random_wait(Rng& rng);
  // A recording of a signal that somebody waits for; nullopt if there is none.
  [[nodiscard]] std::optional<Link> record_one(Rng& rng);

  void wait(const Link& link);
  [[nodiscard]] bool signals_open() const { return open_ != 0; }

 private:
  using Clock = std::vector<std::uint64_t>;
  using Signals = std::uint32_t;  // of those that are not recorded, one bit for each
  struct Stream {
    Clock before;
    Signals behind = 0;  // what its next launch waits for, over any number of steps
  };
  struct Recorded {
    std::uint64_t signal = 0;
    Clock clock;
    Signals behind = 0;
  };
  struct Open {
    std::uint64_t signal = 0;
    std::vector<StreamId> waiting;
  };
  static constexpr std::size_t kOpenMost = 8;
  static constexpr std::size_t kRecordedMost = 16;

  void record(const Link& link);
  [[nodiscard]] bool may_wait(StreamId stream, Signals behind) const {
    return stream != 0 || behind == 0;
  }

  std::vector<Stream> streams_;
  std::array<Open, kOpenMost> slots_;  // signals that are waited for and not recorded
  Signals open_ = 0;
  std::vector<Recorded> recorded_;  // the last ones, in a ring
  std::uint64_t signals_ = 0;
};

}  // namespace spillway::sim
