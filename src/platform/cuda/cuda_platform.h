// Programs on an NVIDIA GPU that need more device memory than their budget: stable addresses whose
// memory comes and goes, launches behind stream waits. Layer: platform, cuda. docs/cuda.md.
// It sees a program as its interposer tells of it: allocations, launches with what they use and the
// stream that they are issued to, and what the program waits for. It decides nothing about
// migration. All functions are thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "engine/policy.h"
#include "platform/common/observed_platform.h"
#include "platform/common/process/descriptor.h"
#include "platform/common/process/memory_room.h"
#include "platform/common/program_platform.h"
#include "platform/common/storage/link_throttle.h"
#include "platform/common/storage/storage_io.h"
#include "platform/common/storage/swap_file.h"
#include "platform/cuda/driver/cufile.h"
#include "platform/cuda/driver/driver.h"
#include "platform/cuda/driver/own_launches.h"

namespace spillway::cuda {

// Of device memory.
inline constexpr Bytes kSmallestBudgetBytes = 4 * kBlockBytes;

struct CudaOptions {
  int device = 0;                 // ordinal
  Bytes device_bytes = 0;         // the budget: the sum of all handles never exceeds it
  Bytes host_bytes = 0;           // pinned memory, registered as it is needed
  Bytes block_bytes = 64 * kMiB;  // of allocations of that size and more; a multiple of 2 MiB
  Bytes pinned_piece_bytes = 64 * kMiB;  // that host memory grows by
  unsigned waiting_streams = 7;          // at once: CUDA_DEVICE_MAX_CONNECTIONS - 1
  std::uint32_t launches_ahead = 600;    // issued and not ended, before the program is held
  std::uint32_t marker_every = 8;        // launches of a stream
  // Launches that wait may share a stream wait if they use at most this part of the budget
  // together.
  std::uint32_t shared_wait_part = 16;
  // Launches that are told of before bypass mode, where all fits: at first, and at most
  // (docs/cuda.md).
  std::uint64_t bypass_after = 64;
  std::uint64_t bypass_after_at_most = 32'768;
  // Copies between device and host memory are held back to it, so that this machine stands in for
  // one with a slower link. What launches use of host memory cannot be: nothing lies there for them
  // but what has no room on the device (docs/cuda.md, "A slower link"). Faults have no latency
  // here.
  LinkSpeed link;
  // What the system can spare of its memory, read anew. Without it host memory is had without
  // asking. Any thread's.
  std::function<MemoryRoom()> memory_room;
  bool reclaim_discarded_first = true;
  Bytes address_bytes = Bytes{1} << 46U;
  StorageIo::Wrap wrap_io;
  CuFilePlace cufile;
  OwnLaunches own_launches;  // without them nothing is made again
  std::function<void(const Error&)> on_fatal;
  std::function<void(std::string_view)> warn;
};

// Bytes of one allocation that a launch uses.
struct CudaOperand {
  std::uint64_t address = 0;
  Bytes bytes = 0;
  AccessMode mode = AccessMode::kReadWrite;
};

// A stored launch with all of its parameters by value. Any thread may launch it, with the context
// current in which the program issued it.
class Relaunch {
 public:
  Relaunch() = default;
  Relaunch(const Relaunch&) = delete;
  Relaunch& operator=(const Relaunch&) = delete;
  virtual ~Relaunch() = default;
  [[nodiscard]] virtual CuResult launch(CuStream stream) const = 0;
};

// A launch that can be repeated to make its result again. It writes nothing but `makes`, does not
// read `makes`, and writes the same bytes whenever `reads` hold the same bytes. All of these are
// the space's memory.
struct ReplayableLaunch {
  CudaOperand makes;  // what the program has asked for, from an allocation's start
  std::vector<CudaOperand> reads;
  // Launches of one kind write the same part of as many bytes.
  std::uint64_t kind = 0;
  // It writes every byte of `makes`; one that does not is a defect.
  bool whole = false;
  // It uses memory that belongs to its stream, so it is repeated there.
  bool on_its_stream = false;
  std::shared_ptr<const Relaunch> how;
};

// What the program is about to put on a stream.
struct CudaLaunch {
  CuStream stream = nullptr;
  LaunchHash hash;         // whether two are the same
  std::uint64_t kind = 0;  // hash_launch of the kernel's name, where it is known already
  std::string_view name;   // for people, who are told of the calling thread's module as well
  std::span<const CudaOperand> operands;
  // A copy or memset: the driver refuses it on addresses without memory, so the thread waits until
  // its operands are there instead of putting it behind a stream wait.
  bool needs_mapping = false;
  bool sparse = false;  // it uses only a little of its large operands
  // It may store addresses of some operands (AccessMode::kExpose), so it is never bypassed.
  bool exposes = false;
  // It may write memory whose address has escaped, without naming it.
  bool reaches = false;
  // Its kernel may start before the one before it on its stream has ended (programmatic launches).
  bool starts_early = false;
  // Where stores_launches(), of one that can be launched again: what it makes (an address), and
  // how. Asked in before_launch.
  std::uint64_t makes = 0;
  std::function<ReplayableLaunch()> keep = nullptr;
  // The result of an earlier launch that only this launch completes; 0: none.
  std::uint64_t completes = 0;
};

class CudaPlatform : public ObservedPlatform {
 public:
  // The driver has been initialized, and the program's context exists or will; the policy must
  // outlive it. Fails with kUnsupported and what is missing, kInvalidInput for budgets.
  static Result<std::unique_ptr<CudaPlatform>> create(const Driver& driver,
                                                      const CudaOptions& options,
                                                      std::optional<SwapFile> storage,
                                                      Policy& policy);

  // --- Memory -----------------------------------------------------------------------------------

  // An address. Memory comes with the first use and holds anything. Fails with kUnsupported, naming
  // the budgets, if all tiers together have no room.
  virtual Result<std::uint64_t> allocate(Bytes bytes) = 0;
  // Takes effect when every launch that was issued before and uses it has ended.
  virtual void free(std::uint64_t address) = 0;
  // Takes an allocation back as if it had never been made, if nothing has been allocated or reused
  // since and no launch has used it: programs allocate all that is free for a moment to see how
  // much that is. False, and nothing happens, otherwise, and always for memory that shares a frame.
  virtual bool undo_allocate(std::uint64_t address) = 0;
  // The contents die when the launches that use them have ended; the address stays, and `reuse`
  // comes before a launch names it again. Until then its memory may serve others. `next_on`: the
  // stream on which it will be reused; nullopt: any.
  virtual void retire(std::uint64_t address, std::optional<CuStream> next_on) = 0;
  virtual Status reuse(std::uint64_t address) = 0;
  // As retire, but the memory keeps its room in the budget, so `reuse` does not fail.
  virtual void retire_keeping_room(std::uint64_t address, std::optional<CuStream> next_on) = 0;
  // The program puts other tensors into an allocation: from now on its contents are not the result
  // of one launch.
  virtual void divide(std::uint64_t address) = 0;
  // True in bypass mode. Never blocks.
  [[nodiscard]] virtual bool calls_are_open() const = 0;
  // True if the heap may recycle blocks on their stream without telling the platform: bypass mode
  // is on, and the budget has ample room for `bytes`, all that is alive then. Never blocks.
  [[nodiscard]] virtual bool recycles_unannounced(Bytes bytes) const = 0;
  // Above `bytes` of device memory the platform gives unused memory back to the device instead of
  // keeping it for the next allocation of that size. At first: the budget. Never blocks.
  virtual void keep_at_most(Bytes bytes) = 0;
  // The allocation in which an address lies: its start and size; nullopt if it is none of ours, or
  // one that is retired.
  struct Range {
    std::uint64_t start = 0;
    Bytes bytes = 0;
  };
  [[nodiscard]] virtual std::optional<Range> allocation_of(std::uint64_t address) const = 0;
  // True as well for an allocation that is retired or hidden and may be used again. Any thread.
  [[nodiscard]] virtual bool may_be_again(std::uint64_t address) const = 0;
  // What several words at once, most of which may be no addresses, can mean as pointers: what they
  // lie in, and what ends right before them (the end of an array). `found` has as many places, and
  // 0 bytes where there is none.
  struct Pointed {
    Range in;
    Range ends;
  };
  virtual void pointed_at(std::span<const std::uint64_t> words, Pointed* found) const = 0;
  [[nodiscard]] virtual bool contains(std::uint64_t address) const = 0;
  // All addresses for which that is so.
  [[nodiscard]] virtual Range addresses() const = 0;

  // --- Addresses that the program reserves, to place memory there itself -------------------------
  // Sizes, addresses and alignments (a power of two) are multiples of 2 MiB.

  // A run of addresses at which nothing lies, of which nothing else is the neighbour; nullopt:
  // there is none left. Costs the same however large it is.
  [[nodiscard]] virtual std::optional<std::uint64_t> reserve(Bytes bytes, Bytes alignment) = 0;
  // Nothing that the program can use lies there; what is hidden there stays.
  virtual void give_back_reserved(std::uint64_t start) = 0;
  // That there is room for as much memory, as for an allocation; it counts as alive from now on.
  // Fails as allocate does.
  virtual Status promise(Bytes bytes) = 0;
  virtual void take_back_promise(Bytes bytes) = 0;
  // As allocate, of promised memory, at reserved addresses where nothing lies; `free` ends it, and
  // the promise. Waits for what lay there before and has been freed.
  virtual Status allocate_at(std::uint64_t address, Bytes bytes) = 0;
  // The same for memory that is not ours.
  virtual void wait_until_free(std::uint64_t address, Bytes bytes) = 0;
  // The allocation that begins there keeps what it holds, and is none for all that names addresses,
  // until it is shown again.
  virtual void hide(std::uint64_t address) = 0;
  virtual void show(std::uint64_t address) = 0;
  // One that is hidden lies at other reserved addresses from now on, or (nullopt) anywhere that
  // nobody has reserved; where, is the answer. Waits for the launches that use it, and for what lay
  // there before.
  virtual Result<std::uint64_t> move(std::uint64_t address, std::optional<std::uint64_t> to) = 0;
  // Whether anything was ever reserved. Waits for nobody.
  [[nodiscard]] virtual bool has_reserved() const = 0;
  // All allocations that have some of these bytes, lowest first. Beyond the first only in addresses
  // that are reserved together.
  [[nodiscard]] virtual std::vector<Range> allocations_in(std::uint64_t address,
                                                          Bytes bytes) const = 0;
  // The allocation in which a reserved address lies, and those that lie side by side with it,
  // without a gap; `among`: of those that have some of these bytes, of which the address is one.
  // Empty where nothing is reserved, or nothing lies there.
  [[nodiscard]] virtual std::vector<Range> allocations_beside(std::uint64_t address,
                                                              const Range& among) const = 0;
  [[nodiscard]] std::vector<Range> all_beside(std::uint64_t address) const {
    return allocations_beside(address, addresses());
  }

  // --- Launches ---------------------------------------------------------------------------------

  // The addresses of these allocations have escaped: launches that reach escaped addresses may
  // write them without naming them, until they die.
  virtual void expose(std::span<const std::uint64_t> addresses) = 0;
  // True if any address has ever escaped. Until then a launch without operands uses nothing of the
  // space and need not be tracked. Costs next to nothing.
  [[nodiscard]] virtual bool has_exposed() const = 0;

  // True if the call that the program is about to make on this stream is bypassed: everything has
  // its memory and keeps it (docs/cuda.md). `end_bypassed` follows the call, and no other function
  // below is called for it. A call that lets addresses escape is never bypassed.
  [[nodiscard]] virtual bool begin_bypassed(CuStream stream) = 0;
  virtual void end_bypassed() = 0;
  [[nodiscard]] virtual std::uint64_t bypassed_calls() const = 0;  // so far

  // True if results of launches may be recomputed from now on (docs/cuda.md), so that launches are
  // stored.
  [[nodiscard]] virtual bool stores_launches() const = 0;
  // Device memory beside the budget that a stored launch needs, until the run's end; 0: there is
  // none (ExtraMemory).
  [[nodiscard]] virtual CuAddress make_extra_memory(Bytes bytes) = 0;
  // Called by the program's thread, in its context, right before it makes the launch; puts what it
  // needs on the stream, and waits where docs/cuda.md says so. 0: nothing of ours is used.
  virtual std::uint64_t before_launch(const CudaLaunch& launch) = 0;
  // Between before_launch and after_launch: this stored launch cannot be repeated after all.
  virtual void not_kept(std::uint64_t launch) = 0;
  // Between before_launch and after_launch: true if the launch stands behind a stream wait, so that
  // its operands may have no memory yet.
  [[nodiscard]] virtual bool is_held(std::uint64_t launch) const = 0;
  // After the call, by a thread that is about to wait for its stream: from now on other threads may
  // issue to streams that the device orders with this one.
  virtual void let_others_issue(std::uint64_t launch) = 0;
  // Right after the launch, with what before_launch gave. `made`: the driver has taken it.
  virtual void after_launch(std::uint64_t launch, bool made) = 0;
  // Before the program's thread calls something that waits for its device, and after it has
  // waited: for this stream, or for everything (nullopt).
  virtual void before_wait(std::optional<CuStream> stream) = 0;
  virtual void after_wait(std::optional<CuStream> stream) = 0;
  // A lock for work that is announced here and put on the stream by two calls: while it is held, no
  // other thread puts work on this stream or on one that the device orders with it. Not between
  // before_launch and after_launch, which hold it. Empty in bypass mode.
  [[nodiscard]] virtual std::unique_lock<Mutex> in_order(CuStream stream) = 0;
  // The program has recorded an event, or a stream waits for one.
  virtual void recorded(CuEvent event, CuStream stream) = 0;
  // The driver has refused the last recording: the one before it counts.
  virtual void not_recorded(CuEvent event) = 0;
  virtual void waits_for(CuEvent event, CuStream stream) = 0;
  // The same for a word in memory that one stream writes and another waits for: the wait is taken
  // to end with the last write that the program has issued. `will_wait_for_value` comes first.
  virtual void wrote_value(CuAddress word, CuStream stream) = 0;
  virtual void will_wait_for_value() = 0;
  virtual void waits_for_value(CuAddress word, CuStream stream) = 0;
  // `under_way` counts the stream captures that are open from now on. Work on captured streams does
  // not run and is not announced.
  virtual void watch_captures(const std::atomic<int>& under_way) = 0;
  // The program is about to capture a stream, which has been counted.
  virtual void capture_begins() = 0;
  // The program is about to unload code or to end a context: stored launches are not repeated any
  // more.
  virtual void code_ends() = 0;
  // A context of the program has ended, and with it what stood on its streams.
  virtual void context_ended(CuContext context) = 0;
  // True if completion markers have not covered all launches on the context's streams.
  [[nodiscard]] virtual bool is_busy(CuContext context) const = 0;
  // Where time has gone so far, by name: how often and how long (work_times.h).
  struct Work {
    std::string_view name;
    std::uint64_t count = 0;
    TimeNs time_ns = 0;
  };
  [[nodiscard]] virtual std::vector<Work> work() const = 0;

  // Another device of the program, which can, uses this memory from now on. Waits until it may.
  virtual void share_with(CuDevice device) = 0;

  // --- Other processes (docs/interposer.md) --------------------------------------------------

  // Whether the device lets other processes have memory, by file descriptors.
  [[nodiscard]] virtual bool exports_memory() const = 0;
  // The number by which other processes know an allocation, which no other ever gets; nullopt if it
  // has not been exported. Of the one that begins there, as below.
  [[nodiscard]] virtual std::optional<std::uint64_t> exported(std::uint64_t address) const = 0;
  // Fails with kUnsupported, and a line for people, if the budget has no room for it to stay. Waits
  // for the end of what has been freed, if that may make room.
  virtual Status may_export(std::uint64_t address) = 0;
  // Between begin_bypassed and end_bypassed, or before_launch and after_launch, of a call that
  // needs mapping and uses all of it. It stays on the device from now on, until it is freed, and
  // counts as changed at any time. Gives its number. Fails as above.
  virtual Result<std::uint64_t> export_memory(std::uint64_t address) = 0;
  // One of the pieces of exported memory, in the order of its addresses. Any thread's. Fails if it
  // has been freed.
  struct ExportedPiece {
    Descriptor memory;
    Bytes bytes = 0;
    Bytes all_bytes = 0;     // of all pieces
    Bytes offset_bytes = 0;  // of the allocation in the first of them
  };
  virtual Result<ExportedPiece> exported_piece(std::uint64_t number, std::uint32_t piece) = 0;

  // --- Updates (docs/near-memory.md) -------------------------------------------------------------

  // Whether begin_updates would take any now: not where everything fits, or while a stream is
  // captured. Waits for nothing.
  [[nodiscard]] virtual bool takes_updates() = 0;
  // As ProgramPlatform::begin_update, for all parts of a tensor's update, each with as many
  // operands, by their addresses on the device: each of them runs at the host, or (empty) none
  // does. They come behind all launches that were issued before and use the same bytes, on whatever
  // stream, and before those that are issued later; what comes later on `stream` and uses other
  // memory does not wait for them. Nobody can take them back. By the program's thread, which does
  // not wait for them.
  [[nodiscard]] virtual std::vector<UpdateId> begin_updates(
      std::span<const std::vector<ProgramOperand>> parts, CuStream stream) = 0;
  // An update whose data has come: each is named once, and whoever is told of it ends it. Waits;
  // nullopt: all that are under way have been named, or the platform is about to end the run.
  [[nodiscard]] virtual std::optional<UpdateId> next_update() = 0;
  // Of each operand its bytes in order, where they lie in host memory until the end.
  [[nodiscard]] virtual std::vector<Extents> update_extents(UpdateId update) const = 0;
  virtual void end_update(UpdateId update) = 0;
  // These bytes will not be written before their update, which is issued soon: they are copied to
  // host memory once the launches that have been issued have ended, if nothing else moves.
  virtual void send_to_host(std::uint64_t address, Bytes bytes) = 0;

  // --- What the program itself asks for ahead of need (docs/cuda.md) -----------------------------

  // In the order of the launches that have been issued. Hints, which change nothing that the
  // program sees; by any thread, and none waits. False, and nothing happens, where the address is
  // not ours.
  // Bytes that launches issued from now on will use come to the device, into room that nothing else
  // needs, once those that were issued before are admitted.
  virtual bool prefetch(std::uint64_t address, Bytes bytes) = 0;
  // Bytes that no launch uses for long leave it behind those that were issued before; not such that
  // others share a block with which have more of it.
  virtual bool pre_evict(std::uint64_t address, Bytes bytes) = 0;

  // The program is about to destroy a stream.
  virtual void destroyed(CuStream stream) = 0;
};

}  // namespace spillway::cuda
