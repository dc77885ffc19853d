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

// A launch on the device waits for a block.
inline bool device_waits(const Engine& engine) {
  for (BlockId id = 0; id < engine.space().block_slots(); ++id) {
    if (engine.space().block(id).fetch == FetchState::kFault) {
      return true;
    }
  }
  return false;
}

// An update waits for room in host memory.
inline bool update_waits(const Engine& engine) {
  for (BlockId id = 0; id < engine.space().block_slots(); ++id) {
    const Block& block = engine.space().block(id);
    if (block.at_host && !block.frames.has(Tier::kHost)) {
      return true;
    }
  }
  return false;
}

// A block that could leave host memory for that.
inline std::optional<BlockId> could_leave_host(const Engine& engine) {
  const Space& space = engine.space();
  for (BlockId id = 0; id < space.block_slots(); ++id) {
    const Block& block = space.block(id);
    const bool rests = block.tenants > 0 && block.contents == Contents::kLive && block.pins == 0 &&
                       block.copies.has(Tier::kHost) && !block.frames.has(Tier::kDevice) &&
                       block.transfer == kNoIndex && block.fetch == FetchState::kNone;
    if (rests &&
        (block.copies.has(Tier::kStorage) || engine.free_bytes(Tier::kStorage) >= block.bytes)) {
      return id;
    }
  }
  return std::nullopt;
}

// Why those that wait for room wait for ever, if nothing is under way: nothing could make any.
inline std::string wait_in_vain(const Engine& engine) {
  if (const std::optional<BlockId> block = could_leave(engine); block && device_waits(engine)) {
    return fmt::format("out of memory, but block {} could leave", *block);
  }
  if (const std::optional<BlockId> block = could_leave_host(engine);
      block && update_waits(engine)) {
    return fmt::format("out of memory, but block {} could leave host memory", *block);
  }
  return "";
}

// What is still held when everything has been freed; empty if nothing is.
inline std::string left_over(const Simulator& simulator) {
  for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kStorage}) {
    if (const Bytes bytes = simulator.engine().used_bytes(tier); bytes != 0) {
      return fmt::format("everything is freed and {} still holds {} bytes", name_of(tier), bytes);
    }
  }
  return simulator.transfers().flash().live_bytes() != 0
             ? "everything is freed and the flash still holds live pages"
             : "";
}

}  // namespace spillway::sim
