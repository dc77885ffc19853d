// A machine in virtual time that drives the engine: launches take time, bytes take time, faults
// take time. Layer: platform, simulator. It decides nothing about migration. It also keeps a token
// for the contents of every frame and checks, at every launch, that what the launch reads is what
// the program last wrote, or zeros if it never wrote any; that no frame is taken from a launch that
// runs; and that nothing dead moves. What breaks these stops the simulation.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <queue>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "engine/engine.h"
#include "machine/machine.h"
#include "platform/sim/flash.h"
#include "platform/sim/handle_pool.h"
#include "platform/sim/link.h"
#include "policy/registry.h"
#include "policy/updates/update_balance.h"

namespace spillway::sim {

// Failures to inject, each with its probability per transfer; all 0 is a machine without faults.
struct FailureModel {
  double transfer_fails = 0;
  double storage_write_fails = 0;  // besides those
  double storage_slow = 0;         // a storage transfer takes 1 to 100 ms longer
  std::uint64_t seed = 1;
};

// How a launch was served. Times are from the simulation's start.
struct LaunchTiming {
  std::uint64_t number = 0;  // of issue, from 1
  TimeNs issued_ns = 0;
  TimeNs ready_ns = 0;  // all blocks resident
  TimeNs finished_ns = 0;
  TimeNs duration_ns = 0;  // with every operand resident
  Tier runs_at = Tier::kDevice;
};

struct SimulatorOptions {
  EngineOptions engine;
  FailureModel failures;
  // A launch waits until all its blocks are there even on a machine that could replay faults: for
  // programs that manage memory themselves, without paging.
  bool hold_launches = false;
};

// The largest block of a program's allocations on a machine: a part of its device memory, for a
// few blocks would leave no room to move in.
[[nodiscard]] Bytes block_bytes(const Machine& machine);
// The engine options that a machine implies.
[[nodiscard]] EngineOptions engine_options(const Machine& machine);
// Those, and what a policy assumes of the world around it.
[[nodiscard]] SimulatorOptions simulator_options(const Machine& machine,
                                                 const PolicyTraits& traits);

class Simulator final : private Mechanism {
 public:
  // The policy must outlive the simulator.
  Simulator(const Machine& machine, const SimulatorOptions& options, Policy& policy);

  // The program's side: memory and hints go straight to the engine.
  [[nodiscard]] Engine& engine() { return engine_; }
  [[nodiscard]] const Engine& engine() const { return engine_; }
  Result<AllocationId> allocate(Bytes bytes, std::uint64_t tag, Bytes block_bytes = kBlockBytes);
  void free(AllocationId id);
  void discard(AllocationId id, DiscardMode mode);
  // Both of what was discarded lazily: it is used again.
  void prefetch(AllocationId id);
  void reuse(AllocationId id);

  // Issues the launch now; duration_ns is its time with every operand resident. It runs behind
  // those of its stream, if it has one. kTooLarge leaves everything as it was. launch.tag is the
  // simulator's.
  LaunchState issue(Launch launch, TimeNs duration_ns);
  // Something that happens on the stream when everything that was issued to it has run. A signal
  // may be waited for before it is recorded.
  [[nodiscard]] SignalId create_signal();
  void record(SignalId signal, StreamId stream);
  // What is issued to the stream from now on runs after the signal.
  void wait(SignalId signal, StreamId stream);

  // A thread uses a block outside launches, on a platform that tracks writes: at once if it may;
  // else it stops there, until the engine has mapped the block. on_touched says when it has.
  // No launch in flight may write the block, nor name it if the thread writes it.
  void touch(std::uint64_t thread, BlockId id, bool write);
  [[nodiscard]] std::size_t stopped_threads() const { return stopped_.size(); }

  // Where updates run: it hears of transfers, and of updates that run at the host, if the machine
  // says what they take there.
  [[nodiscard]] UpdateBalance& balance() { return balance_; }

  // Lets virtual time pass to the next event. False when there is none.
  bool step();
  // Steps until every issued launch has finished. Fails if the program cannot go on, or if a block
  // was lost.
  Status run_until_idle();
  // Steps until fewer than so many launches are issued and have not finished. Fails likewise.
  Status run_until_fewer_than(std::size_t launches);
  // One event, of which there must be one. Fails likewise.
  Status run_a_step();
  // Steps until every launch on the device has finished. Fails likewise.
  Status run_until_device_idle();
  // Lets everything happen that happens before this time, and time pass until then. Fails likewise.
  Status run_until(TimeNs at_ns);

  [[nodiscard]] TimeNs now_ns() const { return now_ns_; }
  [[nodiscard]] std::uint64_t events() const { return events_; }
  // Launches that have been issued so far: the number of the last one.
  [[nodiscard]] std::uint64_t issued() const { return next_number_ - 1; }
  // Issued and not finished.
  [[nodiscard]] std::size_t running_launches() const { return issued_; }
  // The stream's launches stand at a signal that nobody has recorded.
  [[nodiscard]] bool waits_for_signals() const;
  // Time during which at least one transfer was under way.
  [[nodiscard]] TimeNs transfer_busy_ns() const;
  [[nodiscard]] const Flash& flash() const { return flash_; }
  [[nodiscard]] const FairShare& links() const { return links_; }
  [[nodiscard]] const HandlePool& handles() const { return handles_; }
  // The first contents error, if any.
  [[nodiscard]] const std::optional<Error>& broken() const { return broken_; }

  // Called as each launch finishes.
  std::function<void(const LaunchTiming&)> on_finished;
  std::function<void(std::uint64_t thread)> on_touched;
  // Called as the contents of an allocation are given up: whoever listens says what can be made
  // again, and does that before it issues anything that names it.
  std::function<void(AllocationId)> on_gave_up;
  void set_recomputable(AllocationId id, bool can) { engine_.set_recomputable(id, can); }

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
  struct Running {
    Launch launch;
    LaunchId id = kNoLaunch;
    LaunchTiming timing;
    std::optional<TimeNs> faults_served_ns;
    std::vector<BlockId> undefined;  // discarded since the launch before that named them
    std::uint32_t zeroed_on_fault = 0;
    std::vector<TransferId> arriving;  // that it must wait for
    std::vector<BlockId> unbacked;     // whose handles it must wait for
    bool live = false;
    bool released = false;
    bool started = false;
    bool host_mapped = false;  // it uses host memory over the link
  };
  // What a stream has to do, in order.
  enum class Step : std::uint8_t { kLaunch, kRecord, kWait };
  struct Item {
    Step step = Step::kLaunch;
    std::uint64_t what = 0;  // slot of a launch, or a signal
  };
  struct Stream {
    std::deque<Item> items;
    TimeNs free_ns = 0;  // when its last launch finished
    bool held = false;   // at a signal
  };
  struct Touch {
    std::uint64_t thread = 0;
    BlockId block = 0;
    bool write = false;
    bool reported = false;  // its fault is on its way to the engine
    bool silent = false;    // it waits for bytes that arrive, and nobody has heard of it
  };
  enum class EventKind : std::uint8_t {
    kTransferStarts,
    kLaunchFinishes,
    kFaultsArrive,
    kOrderEnds,
    kCleared,
  };
  struct Event {
    TimeNs at_ns;
    std::uint64_t order;
    EventKind kind;
    std::uint64_t id;  // transfer or launch slot
    bool operator>(const Event& other) const {
      return at_ns != other.at_ns ? at_ns > other.at_ns : order > other.order;
    }
  };
  struct Moving {
    Transfer transfer;
    ResourceSet resources = 0;
    TimeNs latency_ns = 0;  // before its bytes flow
    bool fails = false;
    bool live = false;
  };

  // What is asked of the thread that makes and maps handles, where that takes time.
  struct Order {
    enum class Kind : std::uint8_t {
      kBack,  // the block gets a handle, mapped at its address
      kDrop,  // the opposite
      kCopy,  // the transfer is given to the link
    };
    Kind kind = Kind::kBack;
    BlockId block = kNoBlock;
    Bytes bytes = 0;
    std::uint64_t serial = 0;
    std::uint32_t slot = 0;    // of the transfer
    bool host_mapped = false;  // host memory's, which are kept for the next
  };
  // A block and its handle.
  struct Backing {
    std::uint64_t serial = 0;  // of the order that gives it one; 0: none has been made
    bool there = false;        // that order has been carried out
    bool host_mapped = false;
    std::vector<std::uint32_t> waiting;  // released launches
  };

  void start_transfer(const Transfer& transfer) override;
  void zero(std::span<const BlockId> blocks) override;
  void zero_at_host(std::span<const BlockId> blocks) override;
  void map(std::span<const BlockId> blocks, bool writable) override;
  void unmap(std::span<const BlockId> blocks) override;
  void drop(std::span<const BlockId> blocks, Tier tier) override;
  void freed(AllocationId id) override;
  void gave_up(AllocationId id) override { on_gave_up(id); }
  void faults_served(std::uint64_t launch) override;
  void release_launch(std::uint64_t launch, std::span<const TransferId> transfers) override;

  [[nodiscard]] std::optional<TimeNs> next_event_ns() const;
  void push(TimeNs at_ns, EventKind kind, std::uint64_t id);
  std::deque<std::uint32_t>& link_queue_of(const Transfer& transfer);
  void flow(std::uint32_t slot);
  void end_transfer(std::uint32_t slot);

  // simulator_handles.cc
  [[nodiscard]] bool updates_take_time() const { return machine_.host.update_bytes_per_s() > 0; }
  [[nodiscard]] bool has_handles() const { return machine_.handles.cost_time(); }
  Backing& backing(BlockId id);
  void clear(Bytes bytes);
  void cleared();
  void share_link();
  void order(const Order& order);
  void order_ahead(const Order& order);
  void order_back(BlockId id);
  void order_drop(BlockId id);
  void carry_out();
  [[nodiscard]] TimeNs calls_ns(const Order& order);
  void order_ends();
  void wait_for_handles(std::uint32_t slot);

  // simulator_launches.cc
  std::uint32_t take_slot();
  Stream& stream_at(StreamId id);
  [[nodiscard]] bool at_head(std::uint32_t slot) const;
  [[nodiscard]] TimeNs host_mapped_ns(const Launch& launch, TimeNs duration_ns) const;
  void note_host_mapped();
  void try_start(std::uint32_t slot);
  void advance(StreamId stream);
  void finish(std::uint32_t slot);
  void transfer_is_over(const Transfer& transfer, bool failed);
  [[nodiscard]] Status going() const;
  Status run_while(const std::function<bool()>& goes_on);

  // simulator_threads.cc
  void report(Touch& touch);
  void faults_arrive();
  void go_on(BlockId id);
  void arrive_under_threads(const Transfer& transfer, bool failed);
  void carry_out(const Touch& touch);
  void revive(AllocationId id);

  // simulator_contents.cc
  void note_names(Running& run);
  void forget_names(const Launch& launch);
  void forget_contents(BlockId id);
  void take_up(const Running& run);
  void check_read(BlockId id, const Access& access);
  void check_update(BlockId id);
  void check_bytes(BlockId id, Tier tier);
  void write_bytes(BlockId id, Tier tier);
  void leave(const Launch& launch);
  void write_unseen();
  Tokens& tokens(BlockId id);
  void fail(BlockId id, std::string_view what);

  Machine machine_;
  SimulatorOptions options_;
  Rng rng_;
  FairShare links_;
  Flash flash_;
  HandlePool handles_;
  UpdateBalance balance_;
  std::uint32_t host_mapped_launches_ = 0;  // that run and use host memory over the link
  Bytes host_mapped_bytes_ = 0;             // that the host tier's capacity has been lowered by
  TimeNs cleared_ns_ = 0;                   // when what was released will have been cleared
  std::deque<Order> orders_;  // as they are carried out; the first is being carried out, or none is
  bool carrying_out_ = false;      // the first
  std::vector<Backing> backings_;  // by block, where handles take time
  std::uint64_t last_serial_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;
  std::vector<Moving> moving_;
  std::vector<std::uint32_t> free_moving_;
  // Transfers of one kind between two tiers follow each other, as on a stream of a copy engine;
  // only the first of each carries bytes. Different streams share the links fairly.
  std::array<std::deque<std::uint32_t>, kTierCount * kTierCount * 4> link_queues_;
  std::vector<Running> running_;  // by slot, which is the launch's tag
  std::vector<std::uint32_t> free_running_;
  std::size_t issued_ = 0;
  std::size_t updates_ = 0;  // of those, that run at the host
  TimeNs host_free_ns_ = 0;  // when the last update that has begun will have ended
  std::vector<Stream> streams_;
  std::vector<std::uint32_t> unordered_;                         // launches of no stream
  std::unordered_map<SignalId, std::vector<StreamId>> signals_;  // that have not happened
  std::unordered_set<TransferId> under_way_;
  // Which released launches wait for a transfer.
  std::unordered_map<TransferId, std::vector<std::uint32_t>> waiting_for_;
  std::vector<Tokens> tokens_;
  std::vector<std::uint32_t> names_;  // by allocation: launches that name it and have not finished
  std::vector<Touch> stopped_;        // threads that stand at a block
  std::vector<ThreadFault> faults_;   // that the engine has not heard of
  std::uint32_t version_ = 0;
  std::optional<Error> broken_;
  TimeNs now_ns_ = 0;
  std::uint64_t order_ = 0;
  std::uint64_t events_ = 0;
  std::uint64_t next_number_ = 1;
  std::size_t transfers_ = 0;
  TimeNs busy_since_ns_ = 0;
  TimeNs busy_ns_ = 0;
  Engine engine_;
};

}  // namespace spillway::sim
