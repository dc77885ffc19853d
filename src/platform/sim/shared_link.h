// The link and the storage of a machine, and what copies have of the link: the device clears
// released memory with the engine that copies in (docs/gpu.md section 5), and launches use host
// memory over it. Layer: platform, simulator.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "machine/machine.h"
#include "platform/sim/event_queue.h"
#include "platform/sim/link.h"

namespace spillway::sim {

class SharedLink {
 public:
  // The clock must outlive this.
  SharedLink(const Machine& machine, EventQueue& clock);

  [[nodiscard]] FairShare& flows() { return flows_; }
  [[nodiscard]] const FairShare& flows() const { return flows_; }

  // So many bytes of device memory have been released. Event::Kind::kCleared follows, at which
  // `cleared` is called.
  void clear(Bytes bytes);
  void cleared();
  // Launches that use host memory over the link.
  void launch_begins();
  void launch_ends();

 private:
  void share();

  Link link_;
  double clear_bytes_per_s_;
  EventQueue& clock_;
  FairShare flows_;
  std::uint32_t launches_ = 0;  // that run and use host memory over the link
  TimeNs cleared_ns_ = 0;       // when what was released will have been cleared
};

}  // namespace spillway::sim
