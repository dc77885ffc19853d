// The streams of one thread of the random scenario, and what orders them: events, or values in
// pinned host memory. Test program.
#pragma once

#include <vector>

#include "device.h"
#include "random_model.h"

namespace spillway::cuda::test {

class Lanes {
 public:
  // `alone`: nobody else uses the null stream, so it is one of them, and one is ordered with it.
  Lanes(const Device& device, std::size_t count, bool alone);

  [[nodiscard]] std::size_t count() const { return lanes_.size(); }
  [[nodiscard]] CuStream stream(std::size_t lane) const { return lanes_[lane].stream; }
  [[nodiscard]] bool may_be_captured(std::size_t lane) const { return lanes_[lane].free; }
  [[nodiscard]] bool captured(std::size_t lane) const { return lanes_[lane].captured; }
  void set_captured(std::size_t lane, bool captured) { lanes_[lane].captured = captured; }

  // Before and after an operation is put on a stream that uses this.
  void before(std::size_t lane, const Use& use, bool writes);
  void after(std::size_t lane, Use& use, bool writes);
  // The host waits for whoever uses it.
  void before_host(const Use& use, bool writes);
  void synchronize(std::size_t lane);
  void synchronize_all();
  [[nodiscard]] bool has_ended(std::size_t lane, std::uint64_t number) const {
    return lanes_[lane].ended >= number;
  }
  [[nodiscard]] std::uint64_t issued(std::size_t lane) const { return lanes_[lane].issued; }
  void count_one(std::size_t lane) { ++lanes_[lane].issued; }

  // A stream that is captured waits for another, or comes into its capture.
  void order_captured(std::size_t lane, std::size_t other);

  // From now on streams wait for values instead of events.
  void set_by_values(bool yes) { by_values_ = yes; }
  // `lane` waits for a value that `other` writes afterwards.
  void wait_first(std::size_t lane, std::size_t other);
  void write_after(std::size_t other);

 private:
  struct Lane {
    CuStream stream = nullptr;
    CuEvent event = nullptr;
    bool free = true;  // of the null stream
    bool captured = false;
    std::uint64_t issued = 0;
    std::uint64_t ended = 0;  // as the host knows
    std::array<std::uint64_t, kMostStreams> seen{};
    std::uint64_t* word = nullptr;
    std::uint64_t value = 0;
  };
  void wait(std::size_t lane, std::size_t other);
  static std::uint64_t needed(const Use& use, std::size_t other, bool writes);

  const Device& device_;
  std::vector<Lane> lanes_;
  bool by_values_ = false;
};

}  // namespace spillway::cuda::test
