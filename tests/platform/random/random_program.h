// A program made up from a seed, for tests of any platform. Layer: platform (sim).
// It only says what it does next: it knows no engine, no policy and no clock. It names buffers,
// launches and signals by numbers of its own, never uses what is not there, never lets two launches
// race, and prefetches or reuses what it discarded lazily before it uses it again (UVM Discard
// section 5.2). Whoever drives it turns actions into calls and reports launches that have finished.
// What a platform cannot do it is not asked for: a shape says what a program is made of.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/units.h"
#include "engine/types.h"
#include "platform/sim/program_order.h"

namespace spillway::sim {

struct ProgramShape {
  Bytes live_bytes_max = 0;    // of all buffers together
  Bytes buffer_bytes_max = 0;  // of one buffer
  Bytes launch_bytes_max = 0;  // of the blocks that one launch names, about
  Bytes budget_bytes_max = 0;  // device budgets lie between a quarter of it and all of it
  Bytes host_bytes_max = 0;    // host memory runs short and recovers, up to this
  std::uint32_t buffers_max = 48;
  std::uint32_t launches_in_flight_max = 3;
  std::uint32_t kernels = 12;  // launched over and over, mostly in the same order
  TimeNs duration_ns_max = kNsPerMs;
  // Launches go to so many streams, which record signals and wait for them; some go to none. 0: all
  // of them do.
  std::uint32_t streams = 0;
  // Buffers are freed and discarded while launches that name them are in flight.
  bool deaths_in_flight = false;
  bool reuses = false;  // what was discarded lazily is reused as often as it is prefetched
  // So many threads touch blocks outside launches.
  std::uint32_t threads = 0;
  // Some kernels run on the processor, next to their data in host memory (Launch::runs_at).
  bool updates = false;
  // Every buffer has blocks of its own size: multiples of frame_bytes, up to this. 0: kBlockBytes.
  Bytes block_bytes_max = 0;
  Bytes frame_bytes = kPageBytes;
};

enum class ActionKind : std::uint8_t {
  kAllocate,
  kFree,
  kDiscardEagerly,
  kDiscardLazily,
  kPrefetch,
  kPreEvictToHost,
  kPreEvictToStorage,
  kLaunch,
  kSetBudget,
  kSetHost,
  kReuse,
  kRecord,
  kWait,   // may come before the signal's kRecord, but that comes
  kTouch,  // a thread uses one block, and is over when that has happened: numbered like a launch
};

struct BufferUse {
  std::uint32_t buffer = 0;
  std::uint32_t first_block = 0;  // of the buffer's own blocks
  std::uint32_t block_count = 0;
  AccessMode mode = AccessMode::kRead;
};

struct ProgramAction {
  ActionKind kind = ActionKind::kAllocate;
  std::uint32_t buffer = 0;          // that it is about; numbers are reused after kFree
  Bytes bytes = 0;                   // of the new buffer; the new budget
  Bytes block_bytes = kBlockBytes;   // of the new buffer's blocks
  std::uint64_t launch = 0;          // the launch's number, from 1
  std::uint32_t kernel = 0;          // which kernel is launched
  StreamId stream = kNoStream;       // of a launch, a recording or a wait
  Tier runs_at = Tier::kDevice;      // of a launch
  std::uint64_t signal = 0;          // that is recorded or waited for, from 1
  TimeNs duration_ns = 0;            // with every operand resident
  std::vector<BufferUse> uses = {};  // no block twice
};

// One line for a person.
[[nodiscard]] std::string describe(const ProgramAction& action);

class RandomProgram {
 public:
  RandomProgram(const ProgramShape& shape, std::uint64_t seed);

  [[nodiscard]] ProgramAction next();
  // The launch or the touch is over, or the platform refused the launch as too large: then before
  // any other is asked for.
  void finished(std::uint64_t launch);
  [[nodiscard]] std::size_t launches_in_flight() const { return in_flight_.size() - touches_; }

  // The program gives up a buffer that no launch uses; nullopt where there is none. For when it has
  // run out of memory, and for its end.
  [[nodiscard]] std::optional<ProgramAction> free_one();
  // It records a signal that a stream waits for; nullopt where there is none. For when nothing else
  // goes on, and for its end.
  [[nodiscard]] std::optional<ProgramAction> record_one();
  [[nodiscard]] bool signals_open() const { return order_.signals_open(); }

 private:
  struct InFlightUse {
    std::uint64_t launch = 0;
    ProgramOrder::Point point;
  };
  // Launches that used a block last, as far as others must mind them.
  struct BlockUses {
    InFlightUse writer;
    std::vector<InFlightUse> readers;  // since it was written
    bool discarded = false;            // the next use counts as a write
  };
  struct Buffer {
    Bytes bytes = 0;
    Bytes block_bytes = kBlockBytes;
    bool live = false;
    bool needs_prefetch = false;  // discarded lazily
    std::uint64_t generation = 0;
    std::uint32_t launches = 0;  // in flight, that name it
    std::uint32_t touches = 0;   // the same of threads
    std::vector<BlockUses> blocks;
  };
  struct Kernel {
    std::vector<BufferUse> uses;
    std::vector<std::uint64_t> generations;  // of its buffers, when it was made
    Tier runs_at = Tier::kDevice;
  };
  struct InFlight {
    std::vector<std::pair<std::uint32_t, std::uint64_t>> buffers;  // with their generations
    bool touch = false;
  };

  [[nodiscard]] std::optional<std::uint32_t> random_buffer();
  [[nodiscard]] std::optional<ProgramAction> allocate();
  [[nodiscard]] Bytes random_block_bytes(Bytes bytes);
  [[nodiscard]] ProgramAction free(std::uint32_t buffer);
  [[nodiscard]] std::optional<ProgramAction> change();
  [[nodiscard]] ProgramAction set_limits();

  // random_program_launches.cc
  [[nodiscard]] bool races(const InFlightUse& earlier, StreamId stream) const;
  [[nodiscard]] std::optional<InFlightUse> race_of(const BufferUse& use, StreamId stream) const;
  [[nodiscard]] bool still_there(const Kernel& kernel) const;
  [[nodiscard]] Kernel make_kernel();
  [[nodiscard]] std::optional<ProgramAction> launch();
  [[nodiscard]] std::optional<ProgramAction> touch();
  [[nodiscard]] std::optional<ProgramAction> order_behind(const InFlightUse& earlier,
                                                          StreamId stream);
  [[nodiscard]] std::optional<ProgramAction> revive(const std::vector<BufferUse>& uses);
  [[nodiscard]] std::optional<ProgramAction> signal();
  [[nodiscard]] ProgramAction wait(const ProgramOrder::Link& link);
  void note(std::uint64_t launch, StreamId stream, const std::vector<BufferUse>& uses, bool touch);

  ProgramShape shape_;
  Rng rng_;
  ProgramOrder order_;
  std::vector<Buffer> buffers_;
  std::vector<Kernel> kernels_;
  std::unordered_map<std::uint64_t, InFlight> in_flight_;
  std::deque<ProgramAction> said_next_;  // what must follow what was said last
  // What the last launch has changed, in case that it is refused.
  struct Before {
    std::uint32_t buffer = 0;
    std::uint32_t block = 0;
    BlockUses uses;
  };
  std::vector<Before> before_last_;
  std::uint32_t touches_ = 0;  // in flight
  Bytes live_bytes_ = 0;
  std::uint64_t generations_ = 0;
  std::uint64_t launches_ = 0;
  std::uint32_t next_kernel_ = 0;
};

}  // namespace spillway::sim
