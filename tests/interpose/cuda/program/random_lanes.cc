// See random_lanes.h.
#include "random_lanes.h"

#include <algorithm>

namespace spillway::cuda::test {
namespace {

CuAddress address_of(const std::uint64_t* word) { return reinterpret_cast<CuAddress>(word); }

}  // namespace

Lanes::Lanes(const Device& device, std::size_t count, bool alone) : device_(device) {
  for (std::size_t i = 0; i < count; ++i) {
    Lane lane;
    if (alone && i + 1 == count) {
      lane.free = false;  // the null stream itself
    } else if (alone && i + 2 == count) {
      lane.free = false;
      lane.stream = device.stream(kCuStreamDefault);
    } else {
      lane.stream = device.stream();
    }
    device.expect(device.calls.cuEventCreate(&lane.event, kCuEventDisableTiming), "cuEventCreate");
    void* word = nullptr;
    device.expect(device.calls.cuMemHostAlloc(&word, sizeof(std::uint64_t), 0), "cuMemHostAlloc");
    lane.word = static_cast<std::uint64_t*>(word);
    *lane.word = 0;
    lanes_.push_back(lane);
  }
}

std::uint64_t Lanes::needed(const Use& use, std::size_t other, bool writes) {
  return writes ? std::max(use.writes[other], use.reads[other]) : use.writes[other];
}

void Lanes::wait(std::size_t lane, std::size_t other) {
  Lane& waits = lanes_[lane];
  Lane& before = lanes_[other];
  const Calls& calls = device_.calls;
  if (by_values_) {
    write_after(other);
    device_.expect(calls.cuStreamWaitValue64_v2(waits.stream, address_of(before.word), before.value,
                                                kCuWaitAtLeast),
                   "cuStreamWaitValue64");
  } else {
    device_.expect(calls.cuEventRecord(before.event, before.stream), "cuEventRecord");
    device_.expect(calls.cuStreamWaitEvent(waits.stream, before.event, 0), "cuStreamWaitEvent");
  }
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    waits.seen[i] = std::max(waits.seen[i], before.seen[i]);
  }
  waits.seen[other] = before.issued;
}

void Lanes::order_captured(std::size_t lane, std::size_t other) {
  device_.expect(device_.calls.cuEventRecord(lanes_[other].event, lanes_[other].stream),
                 "cuEventRecord");
  device_.expect(device_.calls.cuStreamWaitEvent(lanes_[lane].stream, lanes_[other].event, 0),
                 "cuStreamWaitEvent");
}

void Lanes::before(std::size_t lane, const Use& use, bool writes) {
  for (std::size_t other = 0; other < lanes_.size(); ++other) {
    if (other != lane && needed(use, other, writes) > lanes_[lane].seen[other]) {
      wait(lane, other);
    }
  }
}

void Lanes::after(std::size_t lane, Use& use, bool writes) {
  (writes ? use.writes : use.reads)[lane] = lanes_[lane].issued;
}

void Lanes::before_host(const Use& use, bool writes) {
  for (std::size_t other = 0; other < lanes_.size(); ++other) {
    if (needed(use, other, writes) > lanes_[other].ended) {
      synchronize(other);
    }
  }
}

void Lanes::synchronize(std::size_t lane) {
  Lane& it = lanes_[lane];
  device_.expect(device_.calls.cuStreamSynchronize(it.stream), "cuStreamSynchronize");
  it.seen[lane] = it.issued;
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    lanes_[i].ended = std::max(lanes_[i].ended, it.seen[i]);
    for (Lane& other : lanes_) {
      other.seen[i] = std::max(other.seen[i], it.seen[i]);
    }
  }
}

void Lanes::synchronize_all() {
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    if (!lanes_[i].captured) {
      synchronize(i);
    }
  }
}

void Lanes::wait_first(std::size_t lane, std::size_t other) {
  device_.expect(
      device_.calls.cuStreamWaitValue64_v2(lanes_[lane].stream, address_of(lanes_[other].word),
                                           lanes_[other].value + 1, kCuWaitAtLeast),
      "cuStreamWaitValue64");
}

void Lanes::write_after(std::size_t other) {
  Lane& it = lanes_[other];
  device_.expect(
      device_.calls.cuStreamWriteValue64_v2(it.stream, address_of(it.word), ++it.value, 0),
      "cuStreamWriteValue64");
}

}  // namespace spillway::cuda::test
