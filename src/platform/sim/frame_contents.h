// What every frame of a machine in virtual time holds, and what the program may expect to find:
// kept beside the engine's own records, and never taken from them. Layer: platform, simulator. It
// checks, at every launch, that what the launch reads is what the program last wrote, or zeros if
// it never wrote any; that no frame is taken from a launch that runs; and that nothing dead moves.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"
#include "platform/sim/event_queue.h"

namespace spillway::sim {

class FrameContents {
 public:
  // Engine and clock must outlive this.
  FrameContents(const Engine& engine, const EventQueue& clock, bool tracks_writes)
      : engine_(engine), clock_(clock), tracks_writes_(tracks_writes) {}

  // The first thing that was wrong, if any.
  [[nodiscard]] const std::optional<Error>& broken() const { return broken_; }
  void fail(BlockId id, std::string_view what);

  // --- The program's memory. Of a discard it hears before the engine does.
  void allocated(AllocationId id);
  void freed(AllocationId id);
  void discarded(AllocationId id, DiscardMode mode);
  // What was discarded lazily is used again; in the second case whatever it holds.
  void revived(AllocationId id);
  void reused(AllocationId id);

  // --- Launches
  // One is issued. These of its blocks have been discarded since the launch before that named them.
  [[nodiscard]] std::vector<BlockId> issued(const Launch& launch);
  // It has not been issued after all, or it has ended.
  void refused(const Launch& launch, std::span<const BlockId> undefined);
  void ends(const Launch& launch);
  // It begins to run, with what `issued` has said.
  void begins(const Launch& launch, std::span<const BlockId> undefined);

  // --- Threads outside launches
  // A thread wants to use the block. Whether it may.
  [[nodiscard]] bool touched(BlockId id, bool write);
  // Its fault is on its way to the engine: it may come late, when the block is somebody else's.
  void faulted(BlockId id) { tokens(id).retired = false; }
  // It uses the block.
  void used_by_thread(BlockId id, bool write);
  // ... for a write, before the engine has heard that the bytes are there.
  void written_on_arrival(BlockId id) { tokens(id).maybe_live = true; }
  [[nodiscard]] bool is_writable(BlockId id) { return tokens(id).writable; }
  [[nodiscard]] bool is_arriving(BlockId id) { return tokens(id).arriving; }

  // --- What the engine asks
  void transfer_begins(const Transfer& transfer);
  void transfer_ended(const Transfer& transfer, bool failed);
  void zeroed(BlockId id);
  void zeroed_at_host(BlockId id);
  void mapped(BlockId id, bool writable);
  void unmapped(BlockId id);
  void dropped(BlockId id, Tier tier);

 private:
  using Token = std::uint64_t;  // block in the high half, version in the low
  // What a frame holds before anything is put in.
  static constexpr Token kPoisonToken = ~Token{0};
  struct Tokens {
    std::array<Token, kTierCount> held{};
    Token expected = 0;
    bool defined = false;         // the program has written it since its birth or its discard
    bool fresh = true;            // it has not since its birth
    bool undefined_next = false;  // discarded: the next launch to be issued finds it undefined
    bool undefined_for_updates = false;  // ... and since then updates have been issued that read it
    bool mapped = false;                 // launches may use the device frame
    bool writable = false;               // ... and threads write it
    bool arriving = false;               // a transfer fills the device frame
    // The engine cannot know that it is dead: it was writable since, or a launch that was issued
    // after its discard had been admitted before the discard took effect.
    bool maybe_live = false;
    bool anything = false;      // reused: nobody cares what it holds before it is written
    bool retired = false;       // discarded lazily, and nobody has used it since
    bool exposed = false;       // launches write it that do not name it
    std::uint32_t uses = 0;     // launches that run on the device frame
    std::uint32_t updates = 0;  // ... on the one in host memory
    std::uint32_t names = 0;    // launches that name it and have not finished
  };

  Tokens& tokens(BlockId id);
  void forget_contents(BlockId id);
  void forget_names(const Launch& launch);
  void check_read(BlockId id, const Access& access);
  void check_update(BlockId id);
  void check_bytes(BlockId id, Tier tier);
  void write_bytes(BlockId id, Tier tier);
  void write_unseen();

  const Engine& engine_;
  const EventQueue& clock_;
  bool tracks_writes_;
  std::vector<Tokens> tokens_;
  std::vector<std::uint32_t> names_;  // by allocation: launches that name it and have not finished
  std::uint32_t version_ = 0;
  std::optional<Error> broken_;
};

}  // namespace spillway::sim
