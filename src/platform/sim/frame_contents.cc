#include "platform/sim/frame_contents.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace spillway::sim {

FrameContents::Tokens& FrameContents::tokens(BlockId id) {
  if (id >= tokens_.size()) {
    tokens_.resize(std::max<std::size_t>(id + 1, engine_.space().block_slots()));
  }
  return tokens_[id];
}

void FrameContents::fail(BlockId id, std::string_view what) {
  if (!broken_) {
    broken_ = Error{ErrorCode::kDefect, fmt::format("contents lost: block {} at {}: {}", id,
                                                    format_time(clock_.now_ns()), what)};
  }
}

void FrameContents::allocated(AllocationId id) {
  const Allocation& allocation = engine_.space().allocation(id);
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    const BlockId block = allocation.first_block + i;
    // A frame that is shared with older allocations stays as it is.
    if (engine_.space().block(block).tenants == 1) {
      forget_contents(block);
      tokens(block).fresh = true;
      tokens(block).anything = false;
    }
  }
}

void FrameContents::freed(AllocationId id) {
  const Allocation& allocation = engine_.space().allocation(id);
  if (id < names_.size() && names_[id] > 0) {
    fail(allocation.first_block, "freed while launches that name it have not finished");
  }
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    if (engine_.space().block(allocation.first_block + i).tenants == 1) {
      forget_contents(allocation.first_block + i);
    }
  }
}

// Launches that were issued before still find what was there; the next one that is issued does not.
void FrameContents::discarded(AllocationId id, DiscardMode mode) {
  const Allocation& allocation = engine_.space().allocation(id);
  const bool named = id < names_.size() && names_[id] > 0;
  for (std::uint32_t i = 0; i < allocation.block_count && !allocation.packed; ++i) {
    Tokens& block = tokens(allocation.first_block + i);
    if (tracks_writes_) {
      // Memory that launches use is left alone.
      if (block.names == 0) {
        const bool writable = block.writable && mode == DiscardMode::kLazy;
        forget_contents(allocation.first_block + i);
        block.retired = mode == DiscardMode::kLazy;
        block.maybe_live = writable;
      }
    } else if (named) {
      block.undefined_next = true;
    } else {
      forget_contents(allocation.first_block + i);
    }
  }
}

void FrameContents::revived(AllocationId id) {
  const Allocation& allocation = engine_.space().allocation(id);
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    tokens(allocation.first_block + i).retired = false;
  }
}

void FrameContents::reused(AllocationId id) {
  revived(id);
  const Allocation& allocation = engine_.space().allocation(id);
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    Tokens& block = tokens(allocation.first_block + i);
    block.anything = tracks_writes_ && !block.defined;
  }
}

std::vector<BlockId> FrameContents::issued(const Launch& launch) {
  std::vector<BlockId> undefined;
  for (const Access& access : launch.accesses) {
    if (access.allocation >= names_.size()) {
      names_.resize(access.allocation + std::size_t{1});
    }
    ++names_[access.allocation];
    for (std::uint32_t i = 0; i < access.block_count; ++i) {
      Tokens& block = tokens(access.first_block + i);
      block.retired = false;
      ++block.names;
      if (std::exchange(block.undefined_next, false) || block.undefined_for_updates) {
        undefined.push_back(access.first_block + i);
        // Updates that only read are in no order with each other.
        block.undefined_for_updates = launch.runs_at == Tier::kHost && !writes(access.mode);
      }
    }
  }
  return undefined;
}

void FrameContents::refused(const Launch& launch, std::span<const BlockId> undefined) {
  forget_names(launch);
  for (const BlockId id : undefined) {
    tokens(id).undefined_next = true;
  }
}

// The launch is over. What was discarded behind it is dead from now on, if nobody else names
// it.
void FrameContents::forget_names(const Launch& launch) {
  for (const Access& access : launch.accesses) {
    for (std::uint32_t i = 0; i < access.block_count; ++i) {
      --tokens(access.first_block + i).names;
    }
    if (--names_[access.allocation] > 0) {
      continue;
    }
    const Allocation& allocation = engine_.space().allocation(access.allocation);
    for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
      if (std::exchange(tokens(allocation.first_block + i).undefined_next, false)) {
        forget_contents(allocation.first_block + i);
      }
    }
  }
}

void FrameContents::forget_contents(BlockId id) {
  Tokens& block = tokens(id);
  block.defined = block.undefined_next = block.undefined_for_updates = false;
  block.retired = block.maybe_live = block.exposed = false;
}

void FrameContents::begins(const Launch& launch, std::span<const BlockId> undefined) {
  for (const BlockId id : undefined) {
    tokens(id).defined = tokens(id).exposed = false;
    tokens(id).maybe_live = true;
  }
  for (const Access& access : launch.accesses) {
    for (std::uint32_t i = 0; i < access.block_count; ++i) {
      const BlockId id = access.first_block + i;
      if (launch.runs_at == Tier::kHost) {
        check_update(id);
        ++tokens(id).updates;
        continue;
      }
      check_read(id, access);
      ++tokens(id).uses;
      tokens(id).exposed |= access.mode == AccessMode::kExpose;
    }
  }
}

void FrameContents::check_update(BlockId id) {
  if (tokens(id).mapped || tokens(id).uses > 0) {
    fail(id, "an update runs on what the device may use");
  }
  check_bytes(id, Tier::kHost);
}

void FrameContents::check_read(BlockId id, const Access& access) {
  if (!tokens(id).mapped) {
    fail(id, "a launch runs on a frame that is not mapped");
  }
  if (writes(access.mode) && !tokens(id).writable) {
    fail(id, "a launch runs on a frame that it may not write");
  }
  if (access.mode != AccessMode::kOverwrite ||
      engine_.space().allocation(access.allocation).packed) {
    check_bytes(id, Tier::kDevice);
  }
}

void FrameContents::check_bytes(BlockId id, Tier tier) {
  const Tokens& block = tokens(id);
  const Token held = block.held[index_of(tier)];
  if (block.defined && held != block.expected) {
    fail(id, "a launch does not find what the program last wrote");
  } else if (!block.defined && !block.anything && held != 0 && (block.fresh || held >> 32U != id)) {
    fail(id, block.fresh ? "a launch finds bytes where nothing was ever written"
                         : "a launch finds bytes of another block");
  }
}

void FrameContents::write_bytes(BlockId id, Tier tier) {
  Tokens& block = tokens(id);
  block.expected = (Token{id} << 32U) | ++version_;
  block.held[index_of(tier)] = block.expected;
  block.defined = true;
  block.fresh = block.anything = false;
}

void FrameContents::ends(const Launch& launch) {
  for (const Access& access : launch.accesses) {
    for (std::uint32_t i = 0; i < access.block_count; ++i) {
      const BlockId id = access.first_block + i;
      --(launch.runs_at == Tier::kHost ? tokens(id).updates : tokens(id).uses);
      if (writes(access.mode)) {
        write_bytes(id, launch.runs_at);
      }
    }
  }
  if (launch.reaches) {
    write_unseen();
  }
  forget_names(launch);
}

// All that it can: what is exposed and there.
void FrameContents::write_unseen() {
  for (BlockId id = 0; id < tokens_.size(); ++id) {
    const Tokens& block = tokens_[id];
    if (block.exposed && block.mapped && block.writable && !block.arriving &&
        engine_.space().has_tenant(id) && !engine_.space().is_shared(id) &&
        engine_.space().block(id).contents == Contents::kLive) {
      write_bytes(id, Tier::kDevice);
    }
  }
}

// --- Threads outside launches
// ---------------------------------------------------------------------

bool FrameContents::touched(BlockId id, bool write) {
  Tokens& block = tokens(id);
  block.retired = false;
  return block.mapped && (block.writable || !write);
}

void FrameContents::used_by_thread(BlockId id, bool write) {
  check_bytes(id, Tier::kDevice);
  if (write) {
    write_bytes(id, Tier::kDevice);
  }
}

// --- What the engine asks -----------------------------------------------------------------------

void FrameContents::transfer_begins(const Transfer& transfer) {
  for (const BlockId id : transfer.blocks) {
    Tokens& block = tokens(id);
    block.arriving = transfer.to == Tier::kDevice;
    if (block.updates > 0) {
      fail(id, "moves under an update that runs");
    }
    if (block.retired || (!block.defined && !block.maybe_live)) {
      fail(id, "freed, discarded or never written, and it moves");
    }
  }
}

void FrameContents::transfer_ended(const Transfer& transfer, bool failed) {
  for (const BlockId id : transfer.blocks) {
    Tokens& block = tokens(id);
    block.arriving = false;
    block.held[index_of(transfer.to)] = failed ? kPoisonToken : block.held[index_of(transfer.from)];
  }
}

void FrameContents::zeroed(BlockId id) {
  if (tokens(id).uses > 0) {
    fail(id, "zeroed under a launch that runs");
  }
  tokens(id).held[index_of(Tier::kDevice)] = 0;
}

void FrameContents::zeroed_at_host(BlockId id) {
  if (tokens(id).updates > 0) {
    fail(id, "zeroed under an update that runs");
  }
  tokens(id).held[index_of(Tier::kHost)] = 0;
}

void FrameContents::mapped(BlockId id, bool writable) {
  Tokens& block = tokens(id);
  if (block.updates > 0) {
    fail(id, "mapped under an update that runs");
  }
  block.mapped = true;
  block.writable = writable;
  block.maybe_live |= writable && tracks_writes_;
}

void FrameContents::unmapped(BlockId id) {
  if (tokens(id).uses > 0) {
    fail(id, "unmapped under a launch that runs");
  }
  tokens(id).mapped = tokens(id).writable = false;
}

void FrameContents::dropped(BlockId id, Tier tier) {
  if (tier == Tier::kDevice && tokens(id).mapped) {
    fail(id, "its device frame is dropped while launches may use it");
  }
  if (engine_.space().block(id).bytes == 0) {
    fail(id, "its number is given back before its frame is");
  }
  if (tier == Tier::kHost && tokens(id).updates > 0) {
    fail(id, "its frame in host memory is dropped under an update that runs");
  }
  tokens(id).held[index_of(tier)] = kPoisonToken;
}

}  // namespace spillway::sim
