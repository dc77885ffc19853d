// Machines where each block's device memory is a handle (machine.h): the thread that makes, maps
// and unmaps them, one call after the other, and what waits for it. See simulator.h.
#include <algorithm>
#include <utility>

#include "base/grown_at.h"
#include "platform/sim/simulator.h"

namespace spillway::sim {

Simulator::Backing& Simulator::backing(BlockId id) { return grown_at(backings_, id); }

// What is asked of the thread is done in the order in which it is asked for: a copy stands behind
// all calls that were ordered before it, unless it is one of what has its handle.
void Simulator::order(const Order& order) {
  orders_.push_back(order);
  carry_out();
}

// Behind the call that is being made, and copies that stand there already.
void Simulator::order_ahead(const Order& order) {
  const auto at = std::find_if(orders_.begin() + (carrying_out_ ? 1 : 0), orders_.end(),
                               [](const Order& it) { return it.kind != Order::Kind::kCopy; });
  orders_.insert(at, order);
  carry_out();
}

void Simulator::order_back(BlockId id) {
  Backing& block = backing(id);
  if (block.serial != 0) {
    return;
  }
  block.serial = ++last_serial_;
  block.host_mapped = engine_.space().block(id).host_mapped;
  order({.kind = Order::Kind::kBack,
         .block = id,
         .bytes = engine_.space().block(id).bytes,
         .serial = block.serial,
         .host_mapped = block.host_mapped});
}

void Simulator::order_drop(BlockId id) {
  const bool host_mapped = std::exchange(backing(id), {}).host_mapped;
  order({.kind = Order::Kind::kDrop,
         .block = id,
         .bytes = engine_.space().block(id).bytes,
         .host_mapped = host_mapped});
}

void Simulator::carry_out() {
  while (!carrying_out_ && !orders_.empty()) {
    const Order& next = orders_.front();
    if (next.kind == Order::Kind::kCopy) {
      push(now_ns_ + moving_[next.slot].latency_ns, EventKind::kTransferStarts, next.slot);
      orders_.pop_front();
    } else {
      carrying_out_ = true;
      push(now_ns_ + calls_ns(next), EventKind::kOrderEnds, 0);
    }
  }
}

// Giving access waits for the copy out that is under way (docs/gpu.md section 5).
TimeNs Simulator::calls_ns(const Order& order) {
  const Handles& costs = machine_.handles;
  if (order.kind == Order::Kind::kDrop) {
    return costs.unmap_ns;
  }
  const TimeNs out_until_ns = links_.next_completion_ns(Resource::kFromDevice).value_or(now_ns_);
  const TimeNs wait_ns = std::clamp<TimeNs>(out_until_ns - now_ns_, 0, costs.map_wait_ns);
  if (order.host_mapped) {
    return costs.map_ns + wait_ns;
  }
  const Bytes released_before = handles_.released_bytes();
  const TimeNs calls_ns = handles_.take(order.bytes) + costs.map_ns + wait_ns;
  clear(handles_.released_bytes() - released_before);
  return calls_ns;
}

// The device clears what is released with the engine that copies in, which takes turns with it
// (docs/gpu.md section 5).
void Simulator::clear(Bytes bytes) {
  const double rate = machine_.handles.clear_bytes_per_s;
  if (bytes == 0 || rate <= 0) {
    return;
  }
  cleared_ns_ =
      std::max(cleared_ns_, now_ns_) + static_cast<TimeNs>(static_cast<double>(bytes) / rate * 1e9);
  share_link();
  push(cleared_ns_, EventKind::kCleared, 0);
}

void Simulator::cleared() {
  share_link();  // unless more has been released since
}

// What copies have of the link beside what is cleared and what launches use over it.
void Simulator::share_link() {
  const Link& link = machine_.link;
  const double host_mapped_bytes_per_s =
      host_mapped_launches_ > 0 ? link.host_mapped_bytes_per_s : 0;
  // Something is left even where launches could take all of it.
  const auto left = [&](double bytes_per_s) {
    constexpr double kLeastPart = 16;
    return std::max(bytes_per_s - host_mapped_bytes_per_s, bytes_per_s / kLeastPart);
  };
  const double clearing = now_ns_ < cleared_ns_ ? 2 : 1;
  links_.set_bandwidth(Resource::kToDevice, left(link.to_device_bytes_per_s) / clearing, now_ns_);
  links_.set_bandwidth(Resource::kFromDevice, left(link.from_device_bytes_per_s), now_ns_);
}

void Simulator::order_ends() {
  const Order done = orders_.front();
  orders_.pop_front();
  carrying_out_ = false;
  if (done.kind == Order::Kind::kDrop) {
    if (!done.host_mapped) {
      handles_.give_back(done.bytes);
    }
  } else if (Backing& block = backing(done.block); block.serial == done.serial) {
    // Otherwise it has been dropped, and perhaps ordered again, since.
    block.there = true;
    for (const std::uint32_t slot : std::exchange(block.waiting, {})) {
      std::erase(running_[slot].unbacked, done.block);
      try_start(slot);
    }
  }
  carry_out();
}

// The engine releases a launch whose memory may still be on order.
void Simulator::wait_for_handles(std::uint32_t slot) {
  Running& run = running_[slot];
  run.unbacked.clear();
  for (const Access& access : run.launch.accesses) {
    for (std::uint32_t i = 0; i < access.block_count; ++i) {
      const BlockId id = access.first_block + i;
      if (Backing& block = backing(id); !block.there) {
        run.unbacked.push_back(id);
        block.waiting.push_back(slot);
      }
    }
  }
}

}  // namespace spillway::sim
