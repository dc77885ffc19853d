// Transfers between the device and the swap file that go past host memory (GPUDirect Storage): a
// few threads, because each call waits for its transfer. Layer: platform, cuda. It is tried when it
// is made, on the swap file and on memory like that of blocks; where it would not be direct, or
// does not work, there is none. docs/cuda.md "Direct storage".
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "platform/common/process/descriptor.h"
#include "platform/common/storage/storage_io.h"
#include "platform/cuda/driver/cufile.h"
#include "platform/cuda/driver/driver.h"
#include "platform/cuda/memory/host_ranges.h"
#include "platform/cuda/transfer/work_times.h"

namespace spillway::cuda {

class DirectStorage {
 public:
  struct Options {
    CuFilePlace place;
    std::function<void(std::string_view)> warn;
    WorkTimes* times = nullptr;  // must outlive it
  };
  // A block, in one piece on the device, in runs in the file.
  struct Transfer {
    bool write = false;  // to the file
    CuAddress address = 0;
    std::vector<Run> storage;
    // Called once by a thread of this. Not moved, or not all of it: whatever the reason, it may be
    // tried another way, which meets the disk's own errors as well.
    std::function<void(bool moved)> done;
  };

  // The engine's context is current, and the file holds nothing yet. The driver and the file must
  // outlive it. kUnsupported and why, where storage has to be reached through host memory.
  static Result<std::unique_ptr<DirectStorage>> make(const Driver& driver, StorageIo& storage,
                                                     const Options& options);
  // Every transfer has ended.
  ~DirectStorage();
  DirectStorage(const DirectStorage&) = delete;
  DirectStorage& operator=(const DirectStorage&) = delete;

  // The memory stays mapped, and nobody else writes it, until it is done. Never waits.
  void start(Transfer transfer);

 private:
  DirectStorage(const Driver& driver, StorageIo& storage, Options options, const CuFile& calls);
  [[nodiscard]] Status register_file();
  [[nodiscard]] Status try_it();
  [[nodiscard]] Status try_on(CuAddress address, CuStream stream);
  void work();
  [[nodiscard]] bool move(const Transfer& transfer);
  [[nodiscard]] std::string move_run(bool write, CuAddress address, const Run& run);
  void tell_refusal(bool write, const Run& run, const std::string& reason);

  Driver driver_;
  StorageIo* storage_;
  Options options_;
  CuFile calls_;
  CuContext context_ = nullptr;
  Descriptor descriptor_;  // of the swap file, for libcufile alone
  CuFileHandle file_ = nullptr;
  Mutex mutex_;
  std::condition_variable wanted_;
  std::deque<Transfer> transfers_ SPILLWAY_GUARDED_BY(mutex_);
  bool stop_ SPILLWAY_GUARDED_BY(mutex_) = false;
  bool told_ SPILLWAY_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace spillway::cuda
