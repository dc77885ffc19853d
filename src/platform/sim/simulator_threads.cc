// Threads that use memory outside launches, on a platform that tracks writes: they stop where they
// may not go, and go on when the engine has mapped what they stopped at. See simulator.h.
#include <algorithm>
#include <utility>

#include "platform/sim/simulator.h"

namespace spillway::sim {

void Simulator::touch(std::uint64_t thread, BlockId id, bool write) {
  Tokens& block = tokens(id);
  block.retired = false;
  const Touch made{.thread = thread, .block = id, .write = write};
  if (block.mapped && (block.writable || !write)) {
    carry_out(made);
    return;
  }
  stopped_.push_back(made);
  if (block.arriving && rng_.chance(0.5)) {
    stopped_.back().silent = true;
  } else {
    report(stopped_.back());
  }
}

// Faults arrive later, several at once; what a thread stopped at may have been mapped meanwhile.
void Simulator::report(Touch& touch) {
  touch.reported = true;
  if (faults_.empty()) {
    push(now_ns_ + static_cast<TimeNs>(rng_.below(50 * kNsPerUs)), EventKind::kFaultsArrive, 0);
  }
  faults_.push_back({.block = touch.block, .write = touch.write});
}

void Simulator::faults_arrive() {
  const std::vector<ThreadFault> faults = std::exchange(faults_, {});
  for (Touch& touch : stopped_) {
    touch.reported = false;
  }
  for (const ThreadFault& fault : faults) {
    tokens(fault.block).retired = false;  // it may come late, when the block is somebody else's
  }
  engine_.thread_faults({}, faults);
}

// The block has been mapped. A thread that still may not write it faults again, unless its fault is
// still on its way.
void Simulator::go_on(BlockId id) {
  if (stopped_.empty()) {
    return;
  }
  const bool writable = tokens(id).writable;
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
void Simulator::arrive_under_threads(const Transfer& transfer, bool failed) {
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
      if (failed || touch.block != id || (!touch.silent && rng_.chance(0.5))) {
        return false;
      }
      carry_out(touch);
      if (touch.write) {
        tokens(id).maybe_live = true;
        engine_.written_on_arrival(id);
      }
      return true;
    });
  }
}

void Simulator::carry_out(const Touch& touch) {
  check_bytes(touch.block, Tier::kDevice);
  if (touch.write) {
    write_bytes(touch.block, Tier::kDevice);
  }
  if (on_touched) {
    on_touched(touch.thread);
  }
}

void Simulator::prefetch(AllocationId id) {
  revive(id);
  const Allocation& allocation = engine_.space().allocation(id);
  engine_.prefetch_blocks(allocation.first_block, allocation.block_count);
}

void Simulator::reuse(AllocationId id) {
  revive(id);
  const Allocation& allocation = engine_.space().allocation(id);
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    Tokens& block = tokens(allocation.first_block + i);
    block.anything = options_.engine.tracks_writes && !block.defined;
  }
  engine_.reuse(id);
}

void Simulator::revive(AllocationId id) {
  const Allocation& allocation = engine_.space().allocation(id);
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    tokens(allocation.first_block + i).retired = false;
  }
}

}  // namespace spillway::sim
