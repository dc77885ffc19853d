// Which launches wait for which block: a list for each block, in one pool. Layer: engine.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/memory/space.h"

namespace spillway {

class Waiters {
 public:
  struct Waiter {
    std::uint32_t launch_slot = 0;
    bool faulted = false;  // nobody had asked for the block
  };

  void add(Block& block, const Waiter& waiter) {
    std::uint32_t node = free_;
    if (node == kNoIndex) {
      node = static_cast<std::uint32_t>(nodes_.size());
      nodes_.emplace_back();
    } else {
      free_ = nodes_[node].next;
    }
    nodes_[node] = {waiter, block.waiter};
    block.waiter = node;
  }

  // visit(const Waiter&)
  template <typename Visit>
  void for_each(const Block& block, Visit visit) const {
    for (std::uint32_t node = block.waiter; node != kNoIndex; node = nodes_[node].next) {
      visit(nodes_[node].waiter);
    }
  }

  // The launch waits for it no more, however often it did.
  void remove(Block& block, std::uint32_t launch_slot) {
    for (std::uint32_t* link = &block.waiter; *link != kNoIndex;) {
      const std::uint32_t node = *link;
      if (nodes_[node].waiter.launch_slot != launch_slot) {
        link = &nodes_[node].next;
        continue;
      }
      *link = nodes_[node].next;
      nodes_[node].next = free_;
      free_ = node;
    }
  }

  // Nobody waits for the block any more.
  void clear(Block& block) {
    while (block.waiter != kNoIndex) {
      const std::uint32_t node = block.waiter;
      block.waiter = nodes_[node].next;
      nodes_[node].next = free_;
      free_ = node;
    }
  }

 private:
  struct Node {
    Waiter waiter;
    std::uint32_t next = kNoIndex;
  };
  std::vector<Node> nodes_;
  std::uint32_t free_ = kNoIndex;
};

}  // namespace spillway
