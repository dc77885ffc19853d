// The driver thread, and the commands that it carries out in a CUDA context of the engine's own: in
// the order in which the engine gave them, except that copies out may overtake (push_ahead). Layer:
// platform, cuda. Knows nothing of the engine's reasons.
// The thread waits for nobody: while copies are under way, or a launch is waited for, it sleeps
// shortly and looks again; otherwise it sleeps until it is woken. It makes no call that
// synchronises, and none on a stream of the program.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "platform/common/failures.h"
#include "platform/common/process/wake_up.h"
#include "platform/cuda/memory/device_blocks.h"
#include "platform/cuda/memory/handle_pool.h"
#include "platform/cuda/transfer/driver_command.h"
#include "platform/cuda/transfer/driver_trust.h"
#include "platform/cuda/transfer/memory_shortage.h"
#include "platform/cuda/transfer/moves.h"

namespace spillway::cuda {

// Who is told what has become of the orders. Called by the driver thread, which holds no lock.
class CommandListener {
 public:
  CommandListener() = default;
  CommandListener(const CommandListener&) = delete;
  CommandListener& operator=(const CommandListener&) = delete;
  virtual ~CommandListener() = default;

  struct Backed {
    BlockId block = 0;
    std::uint64_t serial = 0;
  };
  struct Done {
    std::vector<Backed> backed;
    std::vector<MoveEnded> moved;
    std::vector<DriverCommand> forgotten;
    std::uint64_t shared = 0;  // orders of that kind
    // Since the last round: how long it has been, and whether copies were under way.
    TimeNs since_ns = 0;
    bool copies_in = false;
    bool copies_out = false;
    [[nodiscard]] bool empty() const {
      return backed.empty() && moved.empty() && forgotten.empty() && shared == 0;
    }
  };
  // The engine's context is there and current; nothing has been ordered yet.
  virtual Status begin(CuContext context) = 0;
  // Once every round. True while somebody waits for a launch to end or to be opened.
  virtual bool look(const Done& done) = 0;
  // The device has no more memory than these handles have, though the budget has room.
  virtual void no_memory(Bytes handle_bytes) = 0;
  // What ends the run where that stays so, and there is no host memory instead either.
  [[nodiscard]] virtual Error out_of_memory(Bytes handle_bytes) = 0;
  // An error has ended all work: nothing that was ordered will be done. `unreported`: the error,
  // where it may be the program's own (a kernel that has failed), which the program hears of
  // anyway.
  virtual void broken(const std::optional<Error>& unreported) = 0;
  // Nothing is under way any more and all memory is back; the context is current for the last time.
  virtual void end() = 0;
};

class CommandQueue {
 public:
  struct Options {
    int device = 0;
    Bytes budget_bytes = 0;
    Bytes largest_block_bytes = 0;
    StorageIo* storage = nullptr;  // nullptr: none
    LinkSpeed link = {};           // copies are held back to it
    // What the system can spare for handles of host memory; without it, all.
    std::function<Bytes()> spare_bytes = nullptr;
    DirectStorage::Options direct = {};
  };
  // All of them must outlive it.
  CommandQueue(const Driver& driver, const Options& options, Failures& failures,
               CommandListener& listener);
  ~CommandQueue() { stop(); }
  CommandQueue(const CommandQueue&) = delete;
  CommandQueue& operator=(const CommandQueue&) = delete;

  // Starts the thread, and says what came of its beginning. Once.
  [[nodiscard]] Status start();

  // Ends the thread. No launch is under way and none will be. Waits for copies; until then the
  // listener is told of them.
  void stop();

  // Any thread's, from here on.
  void push(DriverCommand command);
  // A transfer from the device, of blocks for which nothing else is on order: none of the commands
  // before it is waited for. Those are calls of the driver, and the way out stands still meanwhile.
  // It may, because nothing of a block is ordered until its transfer has ended.
  void push_ahead(DriverCommand command);
  void wake() { wake_.call(); }
  // HandlePool::keep_at_most, without a command.
  void keep_at_most(Bytes bytes) { pool_.keep_at_most(bytes); }
  [[nodiscard]] Bytes handle_bytes() const { return pool_.bytes(); }
  // Of blocks for which nothing is on order, done at once and without it (device_blocks.h).
  [[nodiscard]] bool keep_mapped(BlockId block) { return blocks_.keep_mapped(block); }
  [[nodiscard]] bool take_back(BlockId block) { return blocks_.take_back(block); }
  [[nodiscard]] BlockId holder_of(BlockId block) const { return blocks_.holder_of(block); }
  // DeviceBlocks::lend, and whether what it gives can be exported.
  [[nodiscard]] CuMemHandle lend(BlockId block) { return blocks_.lend(block); }
  [[nodiscard]] bool exportable() const { return pool_.exportable(); }
  // The engine's own, from `start` to `stop`.
  [[nodiscard]] CuContext context() const { return context_; }
  // Whether everything that was pushed before has been carried out; what came of it is told at
  // once.
  [[nodiscard]] bool empty() const { return orders_.all_are_answered(); }
  [[nodiscard]] Bytes copied_bytes() const { return copied_bytes_; }
  // Of handles of host memory, those that are kept for the next included.
  [[nodiscard]] Bytes host_handle_bytes() const { return on_host_.bytes(); }
  [[nodiscard]] TimeNs processor_ns() const;  // that its threads have run on a processor
  [[nodiscard]] const WorkTimes& times() const { return pool_.times(); }
  [[nodiscard]] WorkTimes& times() { return pool_.times(); }

 private:
  void run();
  Status make();
  void start_ahead();
  void carry_out_some();
  void look_after_copies();
  void note_link();
  // False if there is no memory for it now.
  [[nodiscard]] bool carry_out(DriverCommand& command);
  [[nodiscard]] bool back(BlockId block, CuAddress address, Bytes bytes);
  [[nodiscard]] bool back_host_mapped(BlockId block, CuAddress address, Bytes bytes);
  [[nodiscard]] bool back_on_host(BlockId block, CuAddress address, Bytes bytes);
  void drop(BlockId block);
  void look_for_memory();
  void give_back_all();

  const Driver* driver_;
  Options options_;
  CommandListener* listener_;
  HandlePool pool_;
  HostHandles on_host_;
  DeviceBlocks blocks_;
  CuContext context_ = nullptr;
  std::promise<Status> begun_;

  DriverOrders orders_;
  WakeUp wake_;
  std::atomic<bool> stop_{false};
  std::atomic<Bytes> copied_bytes_{0};

  // The thread's.
  std::deque<DriverCommand> taken_;
  MemoryShortage shortage_;
  CommandListener::Done done_;
  TimeNs round_ns_ = 0;   // when the last round began
  TimeNs mapped_ns_ = 0;  // when a handle was mapped last; 0: not for long
  DriverTrust trust_;
  Moves moves_;
  std::thread thread_;
};

}  // namespace spillway::cuda
