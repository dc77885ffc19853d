// Pinned memory: how much of it there is by now, and where. Layer: platform, cuda.
// Addresses for all that may ever be wanted are reserved at once; a thread registers them with the
// driver piece by piece, ahead of need, once others have made their pages present. No copy may
// cross from one piece into the next, so each piece has offsets that do not touch its neighbours'.
// What the bytes are it does not know.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "base/mutex.h"
#include "platform/common/process/reservation.h"
#include "platform/cuda/driver/driver.h"
#include "platform/cuda/memory/present_pages.h"

namespace spillway::cuda {

class HostMemory {
 public:
  struct Options {
    Bytes most_bytes = 0;   // a multiple of kBlockBytes
    Bytes piece_bytes = 0;  // the same; the last piece may be smaller
    // Memory at these offsets may be used from now on. Called by the thread.
    std::function<void(std::uint64_t at, Bytes bytes)> grown;
    // The driver has refused a piece for good, so there will be no more. Called by the thread.
    std::function<void(const Error&)> ended;
    // How much more the system can spare now for what is wanted from so many bytes on
    // (memory_room.h); without it, all. Pieces are made present and registered only as far as that
    // goes. Called by the thread.
    std::function<Bytes(Bytes from_bytes)> spare_bytes;
    // More is wanted than it can spare, or can be had after all. Called by the thread.
    std::function<void(bool)> is_short;
  };
  // The driver must outlive it; `context` is the one that it is registered in, for all. Fails with
  // kUnsupported.
  static Result<std::unique_ptr<HostMemory>> make(const Driver& driver, CuContext context,
                                                  Options options);
  // Ends the thread. `unregister` comes before, if at all.
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  // So much, and no less than was wanted before, is to be there soon. Any thread's.
  void want(Bytes bytes);
  // Ends the thread and gives everything back to the system. No copy is under way, no stream wait
  // pending, and the context is current.
  void unregister();

  // Of an offset that `grown` has named.
  [[nodiscard]] char* at(std::uint64_t offset) const {
    return memory_.start() + offset / (2 * options_.piece_bytes) * options_.piece_bytes +
           offset % (2 * options_.piece_bytes);
  }

 private:
  HostMemory(const Driver& driver, CuContext context, Options options, Reservation memory);
  void work();
  [[nodiscard]] bool grant();
  [[nodiscard]] CuResult register_next(Bytes wanted_bytes, Bytes bytes);
  void give_back_from(Bytes at);
  void stop();

  const Driver* driver_;
  CuContext context_;
  Options options_;
  Reservation memory_;
  PresentPages pages_;
  Bytes registered_bytes_ = 0;  // the thread's; after it has ended, unregister's
  Bytes granted_bytes_ = 0;     // the thread's: the system can spare so much, or could
  bool short_ = false;          // the thread's
  Mutex mutex_;
  std::condition_variable wanted_;
  Bytes wanted_bytes_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  bool stop_ SPILLWAY_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace spillway::cuda
