// Device memory beside the budget, for launches that are put on a stream again and need some of
// their own (docs/cuda.md). Layer: platform, cuda. It is made when it is first wanted, with
// calls that wait for nothing, and stays until the run's end. Thread-safe.
#pragma once

#include <vector>

#include "base/mutex.h"
#include "base/units.h"
#include "platform/cuda/driver/driver.h"

namespace spillway::cuda {

class ExtraMemory {
 public:
  // All of it, at most.
  static constexpr Bytes kMostBytes = 48 * kMiB;

  ExtraMemory(const Driver& driver, CuDevice device) : driver_(driver), device_(device) {}
  // Resident from now on, at a multiple of kGranule; 0: there is none.
  [[nodiscard]] CuAddress make(Bytes bytes);
  void give_back();

 private:
  static constexpr Bytes kGranule = 2 * kMiB;
  struct Piece {
    CuAddress address = 0;
    Bytes bytes = 0;
    CuMemHandle handle = 0;
    bool mapped = false;
  };
  [[nodiscard]] CuResult make(Piece& piece) const;
  void give_back(const Piece& piece) const;

  const Driver& driver_;
  CuDevice device_;
  Mutex mutex_;
  Bytes bytes_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  std::vector<Piece> pieces_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace spillway::cuda
