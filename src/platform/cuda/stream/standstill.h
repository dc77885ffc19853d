// Detects that no launch ends on the device while others wait for memory. Layer: platform, cuda.
// The running launches may wait for the host, or for something that waiting launches would bring (a
// value that another stream writes, a host function, another process). The cause cannot be known,
// but as long as there is host memory, waiting launches can be let go with it. With the platform's
// lock held.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "platform/cuda/stream/device_launches.h"

namespace spillway::cuda {

class Standstill {
 public:
  // The launches must outlive it.
  explicit Standstill(const DeviceLaunches& launches) : launches_(&launches) {}

  // After so long without an end it has to be said.
  static constexpr TimeNs kWithoutEndNs = 10 * kNsPerS;
  struct Found {
    bool let_go = false;  // the next launch of each stream
    bool say = false;     // for the first time: nothing has ended for kWithoutEndNs
  };
  // The driver thread looks. `helpless`: launches wait, and nothing of ours is under way that could
  // help them.
  [[nodiscard]] Found look(bool helpless, TimeNs now_ns);
  // For a program's thread that is held until some launches have ended: whether none has for long.
  [[nodiscard]] bool nothing_ends(TimeNs now_ns);
  // The next of each stream are about to be let go: notes what stands on the device now, unless
  // what was noted before still does.
  void note_standing();

 private:
  struct Standing {
    StreamId stream = 0;
    std::uint64_t number = 0;
  };
  [[nodiscard]] bool stands_still() const;

  const DeviceLaunches* launches_;
  TimeNs without_end_since_ns_ = 0;
  TimeNs held_back_since_ns_ = 0;
  std::vector<Standing> standing_;  // a launch of each stream
  bool has_said_ = false;
};

}  // namespace spillway::cuda
