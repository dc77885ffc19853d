// The engine's vocabulary: tiers, causes, accesses, transfers. Layer: engine.
// Words are those of docs/engine.md.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/units.h"

namespace spillway {

enum class Tier : std::uint8_t { kDevice, kHost, kStorage };
inline constexpr std::size_t kTierCount = 3;

[[nodiscard]] constexpr std::size_t index_of(Tier tier) { return static_cast<std::size_t>(tier); }
[[nodiscard]] constexpr std::string_view name_of(Tier tier) {
  return tier == Tier::kDevice ? "device" : tier == Tier::kHost ? "host" : "storage";
}

// A set of tiers, one bit each.
class TierSet {
 public:
  [[nodiscard]] bool has(Tier tier) const { return (bits_ & mask(tier)) != 0; }
  [[nodiscard]] bool empty() const { return bits_ == 0; }
  void add(Tier tier) { bits_ = static_cast<std::uint8_t>(bits_ | mask(tier)); }
  void remove(Tier tier) { bits_ = static_cast<std::uint8_t>(bits_ & ~mask(tier)); }
  [[nodiscard]] bool contains(TierSet other) const { return (other.bits_ & ~bits_) == 0; }

 private:
  static std::uint8_t mask(Tier tier) { return static_cast<std::uint8_t>(1U << index_of(tier)); }
  std::uint8_t bits_ = 0;
};

using AllocationId = std::uint32_t;
inline constexpr AllocationId kNoAllocation = std::numeric_limits<AllocationId>::max();

// The place of a launch in the order of issue, from 1; the engine gives it.
using LaunchSeq = std::uint64_t;
inline constexpr LaunchSeq kNever = std::numeric_limits<LaunchSeq>::max();
// A launch that has been issued and has not ended. The engine gives it; no two are ever the same:
// its place in the order of issue, with the slot of its record in the low bits.
using LaunchId = std::uint64_t;
inline constexpr unsigned kSlotBits = 20;  // so many launches, or transfers, at once
inline constexpr LaunchId kNoLaunch = std::numeric_limits<LaunchId>::max();
using TransferId = std::uint64_t;

// Launches of one stream run one after the other. Dense from 0.
using StreamId = std::uint32_t;
// Of a launch that is about to run, behind nothing: an operator of a thread on the host.
inline constexpr StreamId kNoStream = std::numeric_limits<StreamId>::max();
// Something that happens once on a stream and that others wait for: one recording of an event, or
// one write of a value.
using SignalId = std::uint64_t;

// Why a block moves, most urgent first.
enum class Cause : std::uint8_t {
  kFault,     // a launch waits for it
  kPrefetch,  // a policy expects it to be needed
  kEvict,     // to make room for a block that is coming
  kPreEvict,  // a policy expects it not to be needed
};

// What a block's bytes mean to the program.
enum class Contents : std::uint8_t {
  kUndefined,  // never written since its birth: reads give zeros
  kLive,       // must survive
  kDiscarded,  // dead: reads give zeros or old values until the next write
};

// Where the bytes of a block that is wanted on the device come from. What a launch makes once more
// (docs/cuda.md) comes from nowhere: to the engine it is overwritten.
enum class Source : std::uint8_t { kZeros, kHostCopy, kStorageCopy };
inline constexpr std::size_t kSourceCount = 3;

enum class AccessMode : std::uint8_t {
  kRead,
  kWrite,      // may write a part; the rest keeps its value
  kReadWrite,  // also: not known
  kOverwrite,  // writes every byte before it reads any: old contents need not be fetched
  kExpose,     // kReadWrite, and it may store the address where later launches find it
};
[[nodiscard]] constexpr bool writes(AccessMode mode) { return mode != AccessMode::kRead; }

// A launch's use of a run of blocks of one allocation.
struct Access {
  AllocationId allocation = kNoAllocation;
  BlockId first_block = 0;
  std::uint32_t block_count = 0;
  AccessMode mode = AccessMode::kRead;
  // The bytes of the allocation that are used, where the platform knows; to_bytes 0: any.
  Bytes from_bytes = 0;
  Bytes to_bytes = 0;
};

// How much of the queue of issued launches is admitted at once. One launch that fits alone is
// admitted whatever the window says.
struct LaunchWindow {
  std::uint32_t launches_per_stream = std::numeric_limits<std::uint32_t>::max();
  Bytes bytes = std::numeric_limits<Bytes>::max();  // of all admitted launches' blocks
};

// A thread touched a block that no launch of its had named: on platforms with page faults.
struct ThreadFault {
  BlockId block = 0;
  bool write = false;
};

struct Launch {
  std::uint64_t tag = 0;  // the platform's own name for it: what the mechanism hears
  // kHost: an update. It runs on the processor, next to its data in host memory, and on no stream:
  // its data orders it. Policies take it for no use on the device (docs/near-memory.md).
  Tier runs_at = Tier::kDevice;
  LaunchId id = kNoLaunch;  // the engine's, like the next
  LaunchSeq seq = 0;
  StreamId stream = kNoStream;
  ExecutionId execution = kNoExecution;  // what makes two launches "the same kernel again"
  std::uint32_t position = 0;            // place in the iteration, for plans
  std::uint64_t kind = 0;  // the same code, whatever its operands, where a policy wants that
  TimeNs computed_ns = 0;  // without waiting for data; told with its end, 0 where not known
  bool sparse = false;     // of what is large among its operands it uses only a little
  bool tells_all = false;  // Policy::on_access will name everything that it uses
  bool reaches = false;    // it may write what is exposed (AccessMode::kExpose) and not named
  std::vector<Access> accesses;
};

// One batch of blocks that moves together between two tiers (a "transfer set", G10 section 4.6).
struct Transfer {
  TransferId id = 0;
  Tier from = Tier::kHost;
  Tier to = Tier::kDevice;
  Cause cause = Cause::kFault;
  Bytes bytes = 0;
  std::vector<BlockId> blocks = {};
  std::uint64_t reached = 0;  // EscapedAddresses::times, when it started
};

}  // namespace spillway
