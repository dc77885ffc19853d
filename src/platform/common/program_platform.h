// A platform that serves a running program, as the layers above see it: memory, launches, budgets,
// and what has happened. Layer: platform, common.
// The host platform implements it on page faults, a GPU's on its driver. All functions are
// thread-safe unless they say otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "platform/common/observed_platform.h"
#include "platform/common/program_process.h"
#include "policy/prediction/launch_hash.h"
#include "policy/prediction/recorded_iteration.h"

namespace spillway {

// Bytes of one allocation that a launch uses.
struct ProgramOperand {
  void* start = nullptr;
  Bytes bytes = 0;
  AccessMode mode = AccessMode::kRead;
};

// Bytes that lie together.
struct Extent {
  char* at = nullptr;
  Bytes bytes = 0;
};
using Extents = std::vector<Extent>;
using UpdateId = std::uint64_t;

class ProgramPlatform : public ObservedPlatform {
 public:
  // ~ObservedPlatform: no thread may use the memory any more.

  // --- Memory -----------------------------------------------------------------------------------

  // What new memory holds.
  enum class Fresh : std::uint8_t { kZeros, kAnything };
  // 2 MiB-aligned memory. Fails with kUnsupported, naming the budget, if the tiers together could
  // not hold it. kAnything may show what the process itself had in memory before, and costs less.
  virtual Result<void*> allocate(Bytes bytes, Fresh fresh) = 0;
  Result<void*> allocate(Bytes bytes) { return allocate(bytes, Fresh::kZeros); }
  // The same, where the addresses behind it stay free, up to so many bytes in all: room to grow,
  // which costs nothing until then. `grow` says how many it holds from now on; it fails like
  // allocate, and where there is no such room.
  virtual Result<void*> allocate_with_room(Bytes bytes, Bytes /*most_bytes*/, Fresh fresh) {
    return allocate(bytes, fresh);
  }
  virtual Status grow(void* /*start*/, Bytes /*bytes*/) {
    return make_error(ErrorCode::kUnsupported, "there is no room to grow");
  }
  // `start` is what allocate gave.
  virtual void free(void* start) = 0;
  // The contents are dead, and the program promises not to touch the memory before `reuse`, which
  // may fail like allocate, and after which it holds anything: for allocators that keep what they
  // are given back. A retired allocation needs no room in any tier.
  virtual void retire(void* start) = 0;
  virtual Status reuse(void* start) = 0;
  // As reuse, of its first bytes only, until it is retired again: what lies behind stays dead.
  virtual Status reuse_first(void* start, Bytes /*bytes*/) { return reuse(start); }
  // Memory that is alive has had to leave: policies know it by its addresses, which are worth more
  // than frames from now on.
  [[nodiscard]] virtual bool addresses_had_better_repeat() const { return true; }
  // Whether the first bytes of a retired allocation can be used again without moving anything.
  // False where addresses had better repeat.
  [[nodiscard]] virtual bool ready_for_reuse(const void* /*start*/, Bytes /*bytes*/) const {
    return false;
  }
  // All of this memory is about to be written: what of it holds nothing gets its frames now instead
  // of at page faults, as far as nothing alive has to leave for them. It may then hold anything, if
  // that was allowed.
  virtual void provide(void* start) = 0;
  // The following name bytes of one allocation. What moves are the blocks in which they lie; what
  // is discarded are blocks all of whose bytes they are. A whole allocation that is discarded is a
  // tensor that is dead (UVM Discard section 4), which planning policies want to know.
  virtual void discard(void* start, Bytes bytes, DiscardMode mode) = 0;
  // Of these bytes of one allocation, the blocks that have no others: they hold zeros from now on,
  // and take no memory until they are used again.
  virtual void clear(void* /*start*/, Bytes /*bytes*/) {}
  // The same blocks are not the program's any more, and cannot be used, until all of the allocation
  // is freed: they need no room in any tier. No launch may name them.
  virtual void give_up(void* /*start*/, Bytes /*bytes*/) {}
  virtual void prefetch(void* start, Bytes bytes) = 0;
  virtual void pre_evict(void* start, Bytes bytes, Tier to) = 0;
  // 0 if it is no allocation's start.
  [[nodiscard]] virtual Bytes size_of(const void* start) const = 0;
  [[nodiscard]] virtual bool contains(const void* address) const = 0;

  // --- Launches ---------------------------------------------------------------------------------

  // A launch that names what it uses: returns when all of it is resident, where it stays until the
  // end. One that does not fit in the budget runs on page faults. `in_line` is called before it
  // waits, when its place among the others is certain: what `fit` says then counts it.
  virtual LaunchId begin_launch(std::string_view name, std::span<const ProgramOperand> operands,
                                const std::function<void()>& in_line) = 0;
  LaunchId begin_launch(std::string_view name, std::span<const ProgramOperand> operands) {
    return begin_launch(name, operands, [] {});
  }
  virtual void end_launch(LaunchId launch) = 0;
  // Whether such a launch would find room now, beside those that run.
  [[nodiscard]] virtual LaunchFit fit(std::span<const ProgramOperand> operands) const = 0;
  // A launch of which only the boundary is known: it begins now, and the one before it ends. Does
  // not wait. `hash` tells whether two are the same; `name` is for people, and is copied once; they
  // are told of the calling thread's module as well (current_module.h).
  // `tells_all`: mark_access follows for everything that it uses.
  virtual void mark_launch(LaunchHash hash, std::string_view name, bool tells_all) = 0;
  // The launch that was marked last uses this memory. Does not wait.
  virtual void mark_access(const void* start, Bytes bytes, bool writes) = 0;

  // An update: a launch that runs at the host, next to its data (docs/near-memory.md). Its operands
  // begin to come to host memory, and `update_extents` waits until they are there: of each operand
  // its bytes in order, where they lie until `end_update`. Nobody may use them elsewhere meanwhile:
  // a thread that does stops until the end. No extents: they cannot come, and are to be used where
  // they are, after the end. nullopt where the platform has no updates, an operand
  // is not the space's, they are too much at once, or they had better be used where they are.
  virtual std::optional<UpdateId> begin_update(std::span<const ProgramOperand> /*operands*/) {
    return std::nullopt;
  }
  virtual std::vector<Extents> update_extents(UpdateId /*update*/) { return {}; }
  virtual void end_update(UpdateId /*update*/) {}

  // Between two iterations: what is launched, used and freed from here on is recorded, until
  // end_recording, which is nullopt if nothing was launched.
  virtual void begin_recording() = 0;
  virtual std::optional<RecordedIteration> end_recording() = 0;
  // Between two events: `change` may change the policy.
  virtual void change_policy(const std::function<void()>& change) = 0;

  // --- State ------------------------------------------------------------------------------------

  // Lives as long as the platform.
  [[nodiscard]] virtual ProgramProcess& process() = 0;
};

}  // namespace spillway
