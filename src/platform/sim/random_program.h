// A program made up from a seed, for tests of any platform. Layer: platform (sim).
// It only says what it does next: it knows no engine, no policy and no clock. It names buffers and
// launches by numbers of its own, never uses what is not there, never lets two launches race, and
// prefetches what it discarded lazily before it uses it again (UVM Discard section 5.2). Whoever
// drives it turns actions into calls and reports launches that have finished.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/units.h"
#include "engine/types.h"

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
};

struct BufferUse {
  std::uint32_t buffer = 0;
  std::uint32_t first_block = 0;  // of the buffer's own, of up to kBlockBytes each
  std::uint32_t block_count = 0;
  AccessMode mode = AccessMode::kRead;
};

struct ProgramAction {
  ActionKind kind = ActionKind::kAllocate;
  std::uint32_t buffer = 0;          // that it is about; numbers are reused after kFree
  Bytes bytes = 0;                   // of the new buffer; the new budget
  std::uint64_t launch = 0;          // the launch's number, from 1
  std::uint32_t kernel = 0;          // which kernel is launched
  TimeNs duration_ns = 0;            // with every operand resident
  std::vector<BufferUse> uses = {};  // no block twice
};

// One line for a person.
[[nodiscard]] std::string describe(const ProgramAction& action);

class RandomProgram {
 public:
  RandomProgram(const ProgramShape& shape, std::uint64_t seed);

  [[nodiscard]] ProgramAction next();
  // The launch is over, or the platform refused it as too large.
  void finished(std::uint64_t launch);
  [[nodiscard]] std::size_t launches_in_flight() const { return in_flight_.size(); }

  // The program gives up a buffer that no launch uses; nullopt where there is none. For when it has
  // run out of memory, and for its end.
  [[nodiscard]] std::optional<ProgramAction> free_one();

 private:
  struct Buffer {
    Bytes bytes = 0;
    bool live = false;
    bool needs_prefetch = false;  // discarded lazily
    std::uint64_t generation = 0;
  };
  struct Kernel {
    std::vector<BufferUse> uses;
    std::vector<std::uint64_t> generations;  // of its buffers, when it was made
  };
  struct InFlight {
    std::uint64_t launch = 0;
    std::vector<BufferUse> uses;
  };

  [[nodiscard]] static std::uint32_t blocks_of(Bytes bytes);
  [[nodiscard]] std::optional<std::uint32_t> random_buffer();
  [[nodiscard]] bool in_use(std::uint32_t buffer) const;
  [[nodiscard]] bool races(const BufferUse& use) const;
  [[nodiscard]] bool still_there(const Kernel& kernel) const;
  [[nodiscard]] Kernel make_kernel();
  [[nodiscard]] std::optional<ProgramAction> allocate();
  [[nodiscard]] ProgramAction free(std::uint32_t buffer);
  [[nodiscard]] std::optional<ProgramAction> launch();
  [[nodiscard]] std::optional<ProgramAction> change();
  [[nodiscard]] ProgramAction set_limits();

  ProgramShape shape_;
  Rng rng_;
  std::vector<Buffer> buffers_;
  std::vector<Kernel> kernels_;
  std::vector<InFlight> in_flight_;
  Bytes live_bytes_ = 0;
  std::uint64_t generations_ = 0;
  std::uint64_t launches_ = 0;
  std::uint32_t next_kernel_ = 0;
};

}  // namespace spillway::sim
