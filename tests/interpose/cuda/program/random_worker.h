// One thread of the random scenario. Test program.
#pragma once

#include <array>
#include <list>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "device.h"
#include "random_kernels.h"
#include "random_lanes.h"
#include "random_model.h"

namespace spillway::cuda::test {

// By its seed alone, so that a part of a program can be done again.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t below(std::uint64_t end) { return engine_() % end; }
  std::uint64_t between(std::uint64_t from, std::uint64_t to) {
    return from + below(to - from + 1);
  }
  bool chance(unsigned percent) { return below(100) < percent; }
  std::uint64_t any() { return engine_(); }

 private:
  std::mt19937_64 engine_;
};

// What all threads of one program share.
struct Common {
  const Device& device;
  RandomKernels kernels;
  std::uint64_t seed = 0;
  std::size_t threads = 1;
  std::vector<std::unique_ptr<Block>> shared{};  // only read
  const char* pinned = nullptr;                  // kPinnedBytes that stay as they are
  bool trace = false;                            // each step, on the standard error
};
inline constexpr std::uint64_t kMostBlockBytes = 6ULL << 20U;
inline constexpr std::uint64_t kPinnedBytes = kMostBlockBytes;
inline constexpr std::uint64_t kTableBytes = 4096;
inline constexpr std::uint64_t kSmallBytes = 128 << 10U;

class Worker {
 public:
  Worker(Common& common, std::size_t number);
  void run();

 private:
  struct Graph {
    CuGraph graph = nullptr;  // until it is destroyed
    CuGraphExec exec = nullptr;
    std::vector<Op> ops;
    std::vector<Landing*> landings;
    Use use;
  };
  struct Capture {
    std::size_t lane = 0;
    bool forked = false;  // to a second lane
    std::size_t second = 0;
    std::size_t left = 0;  // operations until it ends
    Graph graph;
    std::vector<Block*> within;  // memory that was allocated in it, and not freed yet
  };
  struct Mark {
    std::set<const Block*> blocks;
    std::set<const Graph*> graphs;
  };
  using Mode = unsigned;
  static constexpr Mode kCaptured = 1;   // for a graph
  static constexpr Mode kSmall = 2;      // only of blocks of at most kSmallBytes
  static constexpr Mode kNoWaiting = 4;  // nothing that the host waits for

  [[noreturn]] void fail(const std::string& what) const;
  void expect(CuResult result, const char* call, CuResult expected = CuResult::kSuccess) const;
  [[nodiscard]] std::string who(const std::string& what) const;
  void trace(const std::string& what) const;

  // random_worker.cc: what is done, and looked at.
  void put(Op op, std::size_t lane);
  void prepare(Op& op, std::vector<Blocks::Used>* used);
  void issue(Op& op, CuStream stream);
  void require_checks() const;
  void require_landings();
  void synchronize(std::size_t lane);
  void synchronize_all();
  // For a copy out; nullptr if all are taken by graphs.
  Landing* landing(bool of_graph = false);
  Block* allocate(std::uint64_t bytes, Block::Holds holds);
  void free(Block* block);
  [[nodiscard]] bool uses(const std::vector<Op>& ops, const Block* block) const;

  // random_graphs.cc.
  void begin_capture();
  void continue_capture();
  void end_capture();
  void make_executable(Graph& graph);
  void launch(Graph& graph);
  [[nodiscard]] bool can_run(const Graph& graph) const;
  void destroy(std::list<Graph>::iterator graph);

  // random_choices.cc: false or nullptr where there is nothing to choose from.
  std::size_t any_lane();
  Block* any_block(Mode mode, std::uint64_t bytes, Block::Holds holds = Block::Holds::kWords);
  Block* any_source(Mode mode, std::uint64_t bytes);
  bool choose(Op& op, Mode mode);
  bool choose_kernel(Op& op, Mode mode);
  bool choose_table(Op& op, Mode mode);
  bool choose_copy(Op& op, Mode mode);

  // random_steps.cc.
  void steps(std::size_t count);
  void step();
  void new_block();
  void new_table();
  void write_table(Block* table);
  void read_now();
  void write_now();
  void free_one();
  void launch_one();
  void values();
  void wait_first(std::size_t first, std::size_t second);
  void refused();
  void undo(const Mark& mark);
  [[nodiscard]] Mark mark() const;

  Common& common_;
  const Device& device_;
  std::size_t number_;
  Dice dice_;
  Lanes lanes_;
  Blocks blocks_;
  std::list<Landing> landings_;
  std::list<Graph> graphs_;
  std::unique_ptr<Capture> capture_;  // the one under way
  std::vector<std::string> history_;  // by step
  std::uint64_t most_bytes_ = 0;
  const Mark* keep_ = nullptr;  // what is not freed at the moment
};

}  // namespace spillway::cuda::test
