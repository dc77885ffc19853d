// What every frame holds, and what the program may expect to find: kept beside the engine's own
// records, and never taken from them. See simulator.h.
#include <algorithm>

#include "platform/sim/simulator.h"

namespace spillway::sim {

Result<AllocationId> Simulator::allocate(Bytes bytes, std::uint64_t tag, Bytes block_bytes) {
  Result<AllocationId> id = engine_.allocate(bytes, tag, block_bytes);
  if (id) {
    const Allocation& allocation = engine_.space().allocation(*id);
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
  return id;
}

void Simulator::free(AllocationId id) { engine_.free(id); }

void Simulator::freed(AllocationId id) {
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
void Simulator::discard(AllocationId id, DiscardMode mode) {
  const Allocation& allocation = engine_.space().allocation(id);
  const bool named = id < names_.size() && names_[id] > 0;
  for (std::uint32_t i = 0; i < allocation.block_count && !allocation.packed; ++i) {
    Tokens& block = tokens(allocation.first_block + i);
    if (options_.engine.tracks_writes) {
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
  engine_.discard(id, mode);
}

void Simulator::note_names(Running& run) {
  for (const Access& access : run.launch.accesses) {
    if (access.allocation >= names_.size()) {
      names_.resize(access.allocation + std::size_t{1});
    }
    ++names_[access.allocation];
    for (std::uint32_t i = 0; i < access.block_count; ++i) {
      Tokens& block = tokens(access.first_block + i);
      block.retired = false;
      ++block.names;
      if (std::exchange(block.undefined_next, false) || block.undefined_for_updates) {
        run.undefined.push_back(access.first_block + i);
        // Updates that only read are in no order with each other.
        block.undefined_for_updates = run.launch.runs_at == Tier::kHost && !writes(access.mode);
      }
    }
  }
}

// The launch has finished. What was discarded behind it is dead from now on, if nobody else names
// it.
void Simulator::forget_names(const Launch& launch) {
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

void Simulator::forget_contents(BlockId id) {
  Tokens& block = tokens(id);
  block.defined = block.undefined_next = block.undefined_for_updates = false;
  block.retired = block.maybe_live = block.exposed = false;
}

Simulator::Tokens& Simulator::tokens(BlockId id) {
  if (id >= tokens_.size()) {
    tokens_.resize(std::max<std::size_t>(id + 1, engine_.space().block_slots()));
  }
  return tokens_[id];
}

void Simulator::fail(BlockId id, std::string_view what) {
  if (!broken_) {
    broken_ = Error{ErrorCode::kDefect, fmt::format("contents lost: block {} at {}: {}", id,
                                                    format_time(now_ns_), what)};
  }
}

// The launch begins to run.
void Simulator::take_up(const Running& run) {
  for (const BlockId id : run.undefined) {
    tokens(id).defined = tokens(id).exposed = false;
    tokens(id).maybe_live = true;
  }
  for (const Access& access : run.launch.accesses) {
    for (std::uint32_t i = 0; i < access.block_count; ++i) {
      const BlockId id = access.first_block + i;
      if (run.launch.runs_at == Tier::kHost) {
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

void Simulator::check_update(BlockId id) {
  if (tokens(id).mapped || tokens(id).uses > 0) {
    fail(id, "an update runs on what the device may use");
  }
  check_bytes(id, Tier::kHost);
}

void Simulator::check_read(BlockId id, const Access& access) {
  if (!tokens(id).mapped) {
    fail(id, "a launch runs on a frame that is not mapped");
  }
  if (has_handles() && !backing(id).there) {
    fail(id, "a launch runs on a frame whose handle is not mapped yet");
  }
  if (writes(access.mode) && !tokens(id).writable) {
    fail(id, "a launch runs on a frame that it may not write");
  }
  if (access.mode != AccessMode::kOverwrite ||
      engine_.space().allocation(access.allocation).packed) {
    check_bytes(id, Tier::kDevice);
  }
}

void Simulator::check_bytes(BlockId id, Tier tier) {
  const Tokens& block = tokens(id);
  const Token held = block.held[index_of(tier)];
  if (block.defined && held != block.expected) {
    fail(id, "a launch does not find what the program last wrote");
  } else if (!block.defined && !block.anything && held != 0 && (block.fresh || held >> 32U != id)) {
    fail(id, block.fresh ? "a launch finds bytes where nothing was ever written"
                         : "a launch finds bytes of another block");
  }
}

void Simulator::write_bytes(BlockId id, Tier tier) {
  Tokens& block = tokens(id);
  block.expected = (Token{id} << 32U) | ++version_;
  block.held[index_of(tier)] = block.expected;
  block.defined = true;
  block.fresh = block.anything = false;
}

// The launch has run.
void Simulator::leave(const Launch& launch) {
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
}

// All that it can: what is exposed and there.
void Simulator::write_unseen() {
  for (BlockId id = 0; id < tokens_.size(); ++id) {
    const Tokens& block = tokens_[id];
    if (block.exposed && block.mapped && block.writable && !block.arriving &&
        engine_.space().has_tenant(id) && !engine_.space().is_shared(id) &&
        engine_.space().block(id).contents == Contents::kLive) {
      write_bytes(id, Tier::kDevice);
    }
  }
}

// --- What the engine asks -----------------------------------------------------------------------

// A launch that stands at the head of its stream and waits for new memory has faulted on it.
void Simulator::zero(std::span<const BlockId> blocks) {
  std::uint32_t pinned = 0;
  for (const BlockId block : blocks) {
    if (tokens(block).uses > 0) {
      fail(block, "zeroed under a launch that runs");
    }
    tokens(block).held[index_of(Tier::kDevice)] = 0;
    pinned += engine_.space().block(block).pins > 0 ? 1U : 0U;
  }
  if (pinned == 0) {
    return;
  }
  const auto faulted = [&](std::uint32_t slot) {
    Running& run = running_[slot];
    run.zeroed_on_fault += run.live && !run.started ? pinned : 0;
  };
  for (const Stream& stream : streams_) {
    if (!stream.items.empty() && stream.items.front().step == Step::kLaunch) {
      faulted(static_cast<std::uint32_t>(stream.items.front().what));
    }
  }
  for (const std::uint32_t slot : unordered_) {
    faulted(slot);
  }
}

void Simulator::zero_at_host(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) {
    if (tokens(block).updates > 0) {
      fail(block, "zeroed under an update that runs");
    }
    tokens(block).held[index_of(Tier::kHost)] = 0;
  }
}

void Simulator::map(std::span<const BlockId> blocks, bool writable) {
  for (const BlockId id : blocks) {
    Tokens& block = tokens(id);
    if (block.updates > 0) {
      fail(id, "mapped under an update that runs");
    }
    block.mapped = true;
    block.writable = writable;
    block.maybe_live |= writable && options_.engine.tracks_writes;
    if (has_handles()) {
      order_back(id);
    }
    go_on(id);
  }
}

void Simulator::unmap(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) {
    if (tokens(block).uses > 0) {
      fail(block, "unmapped under a launch that runs");
    }
    tokens(block).mapped = tokens(block).writable = false;
  }
}

void Simulator::drop(std::span<const BlockId> blocks, Tier tier) {
  for (const BlockId block : blocks) {
    if (tier == Tier::kDevice && tokens(block).mapped) {
      fail(block, "its device frame is dropped while launches may use it");
    }
    if (engine_.space().block(block).bytes == 0) {
      fail(block, "its number is given back before its frame is");
    }
    if (tier == Tier::kHost && tokens(block).updates > 0) {
      fail(block, "its frame in host memory is dropped under an update that runs");
    }
    tokens(block).held[index_of(tier)] = kPoisonToken;
    if (tier == Tier::kDevice && has_handles()) {
      order_drop(block);
    }
    if (tier == Tier::kStorage) {
      flash_.trim(block);
    }
  }
}

}  // namespace spillway::sim
