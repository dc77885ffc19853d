// Makes the pages of memory present before somebody needs them all. Layer: platform, cuda.
// While the driver registers memory, copies and maps wait, and most of that time is the system's,
// which finds pages and clears them. A few threads do that first, piece by piece and side by side
// (docs/gpu.md section 7). Memory does not grow by it: what is wanted here is registered next.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/units.h"

namespace spillway::cuda {

class PresentPages {
 public:
  // Of `bytes` from `start` on, mapped and never written so far, in pieces of piece_bytes, of which
  // the last may be smaller. No thread is begun before something is wanted.
  PresentPages(char* start, Bytes bytes, Bytes piece_bytes);
  ~PresentPages() { stop(); }
  PresentPages(const PresentPages&) = delete;
  PresentPages& operator=(const PresentPages&) = delete;

  // All pieces that begin below this are to be present soon. One thread's, as the next two.
  void want(Bytes below_bytes);
  // Waits until this piece, which is wanted, is present, or is not because there is nobody to do it
  // or the system would not: who needs it is told of that by the system, too.
  void wait_for(std::size_t piece);
  // Ends the threads; nothing is wanted or waited for any more.
  void stop();

 private:
  void begin();
  void work();
  void make_present(std::size_t piece) SPILLWAY_REQUIRES(mutex_);  // lets go of it meanwhile

  char* const start_;
  const Bytes bytes_;
  const Bytes piece_bytes_;
  std::vector<std::thread> threads_;  // the wanting thread's
  Mutex mutex_;
  std::condition_variable changed_;
  std::size_t wanted_ SPILLWAY_GUARDED_BY(mutex_) = 0;  // pieces
  std::size_t taken_ SPILLWAY_GUARDED_BY(mutex_) = 0;   // by a thread
  std::vector<bool> done_ SPILLWAY_GUARDED_BY(mutex_);
  bool stop_ SPILLWAY_GUARDED_BY(mutex_) = false;
};

}  // namespace spillway::cuda
