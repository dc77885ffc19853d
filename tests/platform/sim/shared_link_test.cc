#include "platform/sim/shared_link.h"

#include <gtest/gtest.h>

namespace spillway::sim {
namespace {

Machine with_link() {
  Machine machine;
  machine.link.to_device_bytes_per_s = 1e9;
  machine.link.from_device_bytes_per_s = 1e9;
  machine.link.host_mapped_bytes_per_s = 0.5e9;
  machine.handles.clear_bytes_per_s = 1e9;
  return machine;
}

// When a copy of 1000 bytes to the device, which begins now, ends.
TimeNs ends_ns(SharedLink& link, const EventQueue& clock) {
  link.flows().start(1, bit(Resource::kToDevice), 1000, clock.now_ns());
  return link.flows().next_completion_ns().value_or(0);
}

TEST(SharedLink, WhatIsClearedTakesTurnsWithCopiesIn) {
  EventQueue clock;
  SharedLink link(with_link(), clock);
  link.clear(100'000);
  EXPECT_EQ(ends_ns(link, clock), 2000);
  const Event event = clock.take();
  EXPECT_EQ(event.kind, Event::Kind::kCleared);
  EXPECT_EQ(event.at_ns, 100'000);
}

TEST(SharedLink, LaunchesThatUseHostMemoryTakeTheirPart) {
  EventQueue clock;
  SharedLink link(with_link(), clock);
  link.launch_begins();
  link.launch_begins();
  link.launch_ends();
  EXPECT_EQ(ends_ns(link, clock), 2000);
  link.launch_ends();
  EXPECT_EQ(link.flows().next_completion_ns(), 1000);
}

}  // namespace
}  // namespace spillway::sim
