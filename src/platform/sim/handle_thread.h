// Machines where each block's device memory is a handle (machine.h): the thread that makes, maps
// and unmaps them, one call after the other, and what waits for it. Layer: platform, simulator.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "machine/machine.h"
#include "platform/sim/event_queue.h"
#include "platform/sim/handle_pool.h"
#include "platform/sim/shared_link.h"

namespace spillway::sim {

class HandleThread {
 public:
  // Engine, clock and link must outlive this.
  HandleThread(const Handles& costs, Bytes device_bytes, const Engine& engine, EventQueue& clock,
               SharedLink& link);

  // Whether handles take time on this machine; otherwise nothing below is called, but `pool`.
  [[nodiscard]] bool is_used() const { return costs_.cost_time(); }

  // The block gets a handle, mapped at its address, if it has none. Or gives its own back.
  void back(BlockId id);
  void drop(BlockId id);
  // The transfer that lies in this slot is given to the link: when that is done,
  // Event::Kind::kTransferStarts follows after this latency.
  void copy(const Transfer& transfer, std::uint32_t slot, TimeNs latency_ns);
  [[nodiscard]] bool is_there(BlockId id);
  // The launch in this slot waits for handles of its blocks: these.
  [[nodiscard]] std::vector<BlockId> wait(const Launch& launch, std::uint32_t slot);
  // At Event::Kind::kOrderEnds. `backed` is called with a block that has got its handle, and who
  // waited for it.
  using Backed = std::function<void(BlockId, std::span<const std::uint32_t> slots)>;
  void order_ends(const Backed& backed);

  [[nodiscard]] const HandlePool& pool() const { return pool_; }

 private:
  struct Order {
    enum class Kind : std::uint8_t {
      kBack,  // the block gets a handle, mapped at its address
      kDrop,  // the opposite
      kCopy,  // the transfer is given to the link
    };
    Kind kind = Kind::kBack;
    BlockId block = kNoBlock;
    Bytes bytes = 0;
    std::uint64_t serial = 0;
    std::uint32_t slot = 0;    // of the transfer
    TimeNs latency_ns = 0;     // the transfer's
    bool host_mapped = false;  // host memory's, which are kept for the next
  };
  // A block and its handle.
  struct Backing {
    std::uint64_t serial = 0;  // of the order that gives it one; 0: none has been made
    bool there = false;        // that order has been carried out
    bool host_mapped = false;
    std::vector<std::uint32_t> waiting;  // released launches
  };

  Backing& backing(BlockId id);
  void order(const Order& order);
  void order_ahead(const Order& order);
  void carry_out();
  [[nodiscard]] TimeNs calls_ns(const Order& order);

  Handles costs_;
  const Engine& engine_;
  EventQueue& clock_;
  SharedLink& link_;
  HandlePool pool_;
  std::deque<Order> orders_;  // as they are carried out; the first is being carried out, or none is
  bool carrying_out_ = false;      // the first
  std::vector<Backing> backings_;  // by block
  std::uint64_t last_serial_ = 0;
};

}  // namespace spillway::sim
