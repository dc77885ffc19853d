// Transfers on their way, from the first copy to the last: copies between the device and pinned
// memory, and with the swap file, directly or through pinned staging. Layer: platform, cuda. Blocks
// on the device have their handles and keep them; which bytes those are it does not know. The
// driver thread's.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "engine/types.h"
#include "platform/common/failures.h"
#include "platform/common/storage/storage_io.h"
#include "platform/cuda/memory/host_ranges.h"
#include "platform/cuda/transfer/copy_lanes.h"
#include "platform/cuda/transfer/direct_storage.h"
#include "platform/cuda/transfer/io_thread.h"

namespace spillway::cuda {

// What the engine has asked for, with addresses and places. Of several blocks only between device
// and host.
struct Move {
  struct Part {
    BlockId block = 0;
    Bytes bytes = 0;
    CuAddress address = 0;               // on the device
    bool host_mapped = false;            // what is there is host memory
    std::vector<BlockCopy::Piece> host;  // in pinned memory, where that is one end
    std::vector<Run> storage;            // in the swap file
  };
  TransferId id = 0;
  Tier from = Tier::kHost;
  Tier to = Tier::kDevice;
  int error = 0;        // an error number, and then it fails
  TimeNs asked_ns = 0;  // for timelines
  std::vector<Part> parts;
};

struct MoveEnded {
  Move move;
  int error = 0;        // an error number
  TimeNs begun_ns = 0;  // its first bytes were under way
  TimeNs ended_ns = 0;  // its last ones had arrived
};

class Moves {
 public:
  // All of them must outlive it. storage: nullptr where there is none. `wake`: any thread's, when
  // there is something to poll. `link`: all copies are held back to its speed.
  Moves(const Driver& driver, StorageIo* storage, Bytes largest_block_bytes, const LinkSpeed& link,
        Failures& failures, std::function<void()> wake);

  // The engine's context is current, here and below. `spare_bytes`: what the system can spare of
  // its memory; without it, all.
  [[nodiscard]] CuResult make(const DirectStorage::Options& direct,
                              const std::function<Bytes()>& spare_bytes);
  // Whether the swap file is reached past host memory.
  [[nodiscard]] bool direct() const { return direct_ != nullptr; }
  // Waits for what is under way there; before any of its memory is taken away.
  void end_direct() {
    tries_direct_ = false;
    direct_.reset();
  }
  // Nothing is under way any more.
  void give_back();

  void start(Move move);
  // Adds what has ended. An error means that the context is lost.
  [[nodiscard]] CuResult poll(std::vector<MoveEnded>& ended);
  [[nodiscard]] bool idle() const { return moves_.empty(); }
  // Copies are under way.
  [[nodiscard]] bool copies() const { return !lanes_.idle(); }
  [[nodiscard]] CopyLanes& lanes() { return lanes_; }
  [[nodiscard]] const CopyLanes& lanes() const { return lanes_; }

 private:
  struct UnderWay {
    Move move;
    char* staging = nullptr;
    TimeNs begun_ns = 0;
    bool direct = false;
    bool refused = false;           // directly
    std::size_t requests_left = 0;  // of the swap file; with io_mutex_
    int error = 0;                  // the same
  };
  void begin(UnderWay& it);
  void copy(const UnderWay& it);
  void read_or_write(UnderWay& it);
  [[nodiscard]] CuResult add_slots(std::size_t count);
  void move_directly(UnderWay& it);
  void direct_ended(std::uint64_t id, UnderWay& it, std::vector<MoveEnded>& ended);
  void io_ended(UnderWay& it, int error);  // any thread's
  void end(std::uint64_t id, int error, TimeNs at_ns, std::vector<MoveEnded>& ended);
  [[nodiscard]] static bool staged(const Move& move) {
    return move.from != Tier::kHost && move.to != Tier::kHost;
  }

  const Driver* driver_;
  StorageIo* storage_;
  Bytes slot_bytes_;
  Failures* failures_;
  std::function<void()> wake_;
  CopyLanes lanes_;
  std::unordered_map<std::uint64_t, UnderWay> moves_;
  std::vector<void*> staging_;
  std::vector<char*> slots_;                  // free
  std::deque<std::uint64_t> waiting_;         // for a slot
  std::deque<std::uint64_t> failed_at_once_;  // before anything was started
  std::vector<CopyLanes::Ended> copied_;      // its memory
  Mutex io_mutex_;
  std::vector<std::uint64_t> io_ended_ SPILLWAY_GUARDED_BY(io_mutex_);
  std::unique_ptr<IoThread> io_;  // these end first
  std::unique_ptr<DirectStorage> direct_;
  bool tries_direct_ = false;
  unsigned refused_in_a_row_ = 0;
};

}  // namespace spillway::cuda
