// Answers found by looking at everything, for questions that the engine answers from what it keeps.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>

#include "platform/sim/simulator.h"

namespace spillway::sim {

// A block that could leave the device, whatever the engine says.
inline std::optional<BlockId> could_leave(const Engine& engine) {
  for (const PageQueue queue : {PageQueue::kUnused, PageQueue::kDiscarded}) {
    if (engine.queues().size(queue) > 0) {
      return engine.queues().oldest(queue);
    }
  }
  for (BlockId id = engine.queues().oldest(PageQueue::kUsed); id != kNoBlock;
       id = engine.queues().newer(id)) {
    const Block& block = engine.space().block(id);
    const bool copied = block.copies.has(Tier::kHost) || block.copies.has(Tier::kStorage);
    const bool room = engine.free_bytes(Tier::kHost) >= block.bytes ||
                      engine.free_bytes(Tier::kStorage) >= block.bytes;
    if (block.pins == 0 && (block.contents != Contents::kLive || copied || room)) {
      return id;
    }
  }
  return std::nullopt;
}

// What is still held when everything has been freed; empty if nothing is.
inline std::string left_over(const Simulator& simulator) {
  for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kStorage}) {
    if (const Bytes bytes = simulator.engine().used_bytes(tier); bytes != 0) {
      return fmt::format("everything is freed and {} still holds {} bytes", name_of(tier), bytes);
    }
  }
  return simulator.flash().live_bytes() != 0
             ? "everything is freed and the flash still holds live pages"
             : "";
}

}  // namespace spillway::sim
