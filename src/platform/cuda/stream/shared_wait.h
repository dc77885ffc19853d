// Consecutive launches of one stream that share one stream wait, which is satisfied when all of
// them may run. Layer: platform, cuda. Says which launches may share; it puts no wait on a stream.
// With the platform's lock held. Beside copies, a stream wait and a completion marker for each
// launch cost the device 15 us (docs/gpu.md section 4), and launches that wait for memory in any
// case need only one of each for several of them.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace spillway::cuda {

class SharedWait {
 public:
  static constexpr std::uint64_t kMostLaunches = 4;

  // A launch, and how much had happened when it was issued: launches that the engine had been told
  // of, it included, and what had been put on its stream but for completion markers.
  struct Launch {
    std::uint64_t number = 0;  // on its stream
    Bytes bytes = 0;           // at most, of what it uses
    std::uint64_t issues = 0;
    std::uint64_t operations = 0;
  };
  // What those that go through one stream wait may be together.
  struct Limits {
    std::uint64_t launches = kMostLaunches;
    Bytes bytes = 0;
  };

  // Stands before this launch from now on; there is no other one any more.
  void put_before(const Launch& first) {
    wait_ = first.number;
    launches_ = 1;
    bytes_ = first.bytes;
    last_ = first;
  }
  void forget() { launches_ = 0; }

  // Whether the next launch may go through it as well: it is not open, and nothing has come between
  // the last one and this.
  [[nodiscard]] bool takes(const Launch& next, std::uint64_t opened, const Limits& limits) const {
    return launches_ > 0 && wait_ > opened && launches_ < limits.launches &&
           bytes_ + next.bytes <= limits.bytes && next.number == last_.number + 1 &&
           next.issues == last_.issues + 1 && next.operations == last_.operations + 1;
  }
  void take(const Launch& next) {
    ++launches_;
    bytes_ += next.bytes;
    last_ = next;
  }
  // The number of the launch before which it stands.
  [[nodiscard]] std::uint64_t number() const { return wait_; }

 private:
  std::uint64_t wait_ = 0;
  std::uint64_t launches_ = 0;  // that go through it; 0: there is none
  Bytes bytes_ = 0;             // of these
  Launch last_;
};

}  // namespace spillway::cuda
