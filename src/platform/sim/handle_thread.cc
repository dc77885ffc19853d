#include "platform/sim/handle_thread.h"

#include <algorithm>
#include <utility>

#include "base/grown_at.h"

namespace spillway::sim {

HandleThread::HandleThread(const Handles& costs, Bytes device_bytes, const Engine& engine,
                           EventQueue& clock, SharedLink& link)
    : costs_(costs), engine_(engine), clock_(clock), link_(link), pool_(costs, device_bytes) {}

HandleThread::Backing& HandleThread::backing(BlockId id) { return grown_at(backings_, id); }

bool HandleThread::is_there(BlockId id) { return backing(id).there; }

// What is asked of the thread is done in the order in which it is asked for: a copy stands behind
// all calls that were ordered before it, unless it is one of what has its handle.
void HandleThread::order(const Order& order) {
  orders_.push_back(order);
  carry_out();
}

// Behind the call that is being made, and copies that stand there already.
void HandleThread::order_ahead(const Order& order) {
  const auto at = std::find_if(orders_.begin() + (carrying_out_ ? 1 : 0), orders_.end(),
                               [](const Order& it) { return it.kind != Order::Kind::kCopy; });
  orders_.insert(at, order);
  carry_out();
}

void HandleThread::back(BlockId id) {
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

void HandleThread::drop(BlockId id) {
  const bool host_mapped = std::exchange(backing(id), {}).host_mapped;
  order({.kind = Order::Kind::kDrop,
         .block = id,
         .bytes = engine_.space().block(id).bytes,
         .host_mapped = host_mapped});
}

void HandleThread::copy(const Transfer& transfer, std::uint32_t slot, TimeNs latency_ns) {
  for (std::size_t i = 0; transfer.to == Tier::kDevice && i < transfer.blocks.size(); ++i) {
    back(transfer.blocks[i]);
  }
  const bool all_there =
      transfer.from == Tier::kDevice && std::all_of(transfer.blocks.begin(), transfer.blocks.end(),
                                                    [this](BlockId id) { return is_there(id); });
  const Order copy{.kind = Order::Kind::kCopy, .slot = slot, .latency_ns = latency_ns};
  all_there ? order_ahead(copy) : order(copy);
}

void HandleThread::carry_out() {
  while (!carrying_out_ && !orders_.empty()) {
    const Order& next = orders_.front();
    if (next.kind == Order::Kind::kCopy) {
      clock_.push(clock_.now_ns() + next.latency_ns, Event::Kind::kTransferStarts, next.slot);
      orders_.pop_front();
    } else {
      carrying_out_ = true;
      clock_.push(clock_.now_ns() + calls_ns(next), Event::Kind::kOrderEnds, 0);
    }
  }
}

// Giving access waits for the copy out that is under way (docs/gpu.md section 5).
TimeNs HandleThread::calls_ns(const Order& order) {
  if (order.kind == Order::Kind::kDrop) {
    return costs_.unmap_ns;
  }
  const TimeNs now_ns = clock_.now_ns();
  const TimeNs out_until_ns =
      link_.flows().next_completion_ns(Resource::kFromDevice).value_or(now_ns);
  const TimeNs wait_ns = std::clamp<TimeNs>(out_until_ns - now_ns, 0, costs_.map_wait_ns);
  if (order.host_mapped) {
    return costs_.map_ns + wait_ns;
  }
  const Bytes released_before = pool_.released_bytes();
  const TimeNs calls_ns = pool_.take(order.bytes) + costs_.map_ns + wait_ns;
  link_.clear(pool_.released_bytes() - released_before);
  return calls_ns;
}

void HandleThread::order_ends(const Backed& backed) {
  const Order done = orders_.front();
  orders_.pop_front();
  carrying_out_ = false;
  if (done.kind == Order::Kind::kDrop) {
    if (!done.host_mapped) {
      pool_.give_back(done.bytes);
    }
  } else if (Backing& block = backing(done.block); block.serial == done.serial) {
    // Otherwise it has been dropped, and perhaps ordered again, since.
    block.there = true;
    backed(done.block, std::exchange(block.waiting, {}));
  }
  carry_out();
}

// The engine releases a launch whose memory may still be on order.
std::vector<BlockId> HandleThread::wait(const Launch& launch, std::uint32_t slot) {
  std::vector<BlockId> missing;
  for (const Access& access : launch.accesses) {
    for (std::uint32_t i = 0; i < access.block_count; ++i) {
      const BlockId id = access.first_block + i;
      if (Backing& block = backing(id); !block.there) {
        missing.push_back(id);
        block.waiting.push_back(slot);
      }
    }
  }
  return missing;
}

}  // namespace spillway::sim
