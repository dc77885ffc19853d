#include "platform/sim/stopped_threads.h"

#include <utility>

namespace spillway::sim {

void StoppedThreads::touch(std::uint64_t thread, BlockId id, bool write) {
  const Touch made{.thread = thread, .block = id, .write = write};
  if (parts_.contents.touched(id, write)) {
    carry_out(made);
    return;
  }
  stopped_.push_back(made);
  if (parts_.contents.is_arriving(id) && parts_.rng.chance(0.5)) {
    stopped_.back().silent = true;
  } else {
    report(stopped_.back());
  }
}

// Faults arrive later, several at once; what a thread stopped at may have been mapped meanwhile.
void StoppedThreads::report(Touch& touch) {
  touch.reported = true;
  if (faults_.empty()) {
    parts_.clock.push(parts_.clock.now_ns() + static_cast<TimeNs>(parts_.rng.below(50 * kNsPerUs)),
                      Event::Kind::kFaultsArrive, 0);
  }
  faults_.push_back({.block = touch.block, .write = touch.write});
}

void StoppedThreads::faults_arrive() {
  const std::vector<ThreadFault> faults = std::exchange(faults_, {});
  for (Touch& touch : stopped_) {
    touch.reported = false;
  }
  for (const ThreadFault& fault : faults) {
    parts_.contents.faulted(fault.block);
  }
  parts_.engine.thread_faults({}, faults);
}

// The block has been mapped. A thread that still may not write it faults again, unless its fault is
// still on its way.
void StoppedThreads::go_on(BlockId id) {
  if (stopped_.empty()) {
    return;
  }
  const bool writable = parts_.contents.is_writable(id);
  std::erase_if(stopped_, [&](const Touch& touch) {
    if (touch.block != id || (touch.write && !writable)) {
      return false;
    }
    carry_out(touch);
    return true;
  });
  for (Touch& touch : stopped_) {
    if (touch.block == id && !touch.reported) {
      report(touch);
    }
  }
}

// The bytes are there, and some threads use them before the engine hears of it; of some of those it
// has never heard.
void StoppedThreads::arrive(const Transfer& transfer, bool failed) {
  if (stopped_.empty() || transfer.to != Tier::kDevice) {
    return;
  }
  for (const BlockId id : transfer.blocks) {
    for (Touch& touch : stopped_) {
      if (failed && touch.block == id && std::exchange(touch.silent, false)) {
        report(touch);
      }
    }
    std::erase_if(stopped_, [&](const Touch& touch) {
      if (failed || touch.block != id || (!touch.silent && parts_.rng.chance(0.5))) {
        return false;
      }
      carry_out(touch);
      if (touch.write) {
        parts_.contents.written_on_arrival(id);
        parts_.engine.written_on_arrival(id);
      }
      return true;
    });
  }
}

void StoppedThreads::carry_out(const Touch& touch) {
  parts_.contents.used_by_thread(touch.block, touch.write);
  touched_(touch.thread);
}

}  // namespace spillway::sim
