// What the parts of the host platform share: the engine, the program's memory and launches, and the
// lock that guards them. Layer: platform, host. docs/host.md.
#pragma once

#include <condition_variable>
#include <functional>
#include <optional>

#include "engine/engine.h"
#include "platform/common/failures.h"
#include "platform/common/launch_log.h"
#include "platform/common/lower_places.h"
#include "platform/common/process/reservation.h"
#include "platform/common/process/undisturbed_mutex.h"
#include "platform/common/stall_clock.h"
#include "platform/common/storage/staging_pool.h"
#include "platform/common/storage/storage_io.h"
#include "platform/common/storage/swap_file.h"
#include "platform/host/faults/userfault.h"
#include "platform/host/faults/waiting_threads.h"
#include "platform/host/host_launches.h"
#include "platform/host/host_memory.h"
#include "platform/host/host_options.h"
#include "platform/host/host_updates.h"
#include "platform/host/pages/address_space.h"
#include "platform/host/pages/device_pages.h"

namespace spillway::host {

// Of device memory. Fewer blocks than an instruction and the copies around it may touch at once
// would never get on.
inline constexpr Bytes kSmallestBudgetBytes = 16 * kMiB;
// kInvalidInput if this is less.
[[nodiscard]] Status check_budget(Bytes device_bytes);

// Addresses that a space with such tiers reserves.
[[nodiscard]] Bytes reserved_address_bytes(Bytes device_bytes, Bytes host_bytes,
                                           Bytes storage_bytes);

struct HostState {
  // What is taken from the kernel before there is a platform.
  struct Taken {
    Userfault userfault;  // which watches the addresses
    Reservation addresses;
    Reservation host_memory;
  };
  [[nodiscard]] static Result<Taken> take(const HostOptions& options, Bytes storage_bytes);

  // The policy must outlive it; so must the mechanism, which need not be made yet.
  HostState(const HostOptions& the_options, std::optional<SwapFile> swap_file, Policy& policy,
            Mechanism& mechanism, Taken taken);

  [[nodiscard]] Bytes bytes_of(BlockId id) const SPILLWAY_REQUIRES(mutex) {
    return engine.space().block(id).bytes;
  }
  // nullptr: none.
  [[nodiscard]] StorageIo* storage_io() { return storage ? &*storage : nullptr; }
  // Without the lock meanwhile; looks again whenever `idle` is told, and now and then.
  void wait_while(const std::function<bool()>& something_goes_on) SPILLWAY_REQUIRES(mutex);
  void wait_for_transfers() SPILLWAY_REQUIRES(mutex);

  // Need no lock.
  HostOptions options;
  Failures failures;
  std::optional<StorageIo> storage;
  Userfault userfault;
  Reservation host_memory;
  StagingPool staging;

  mutable UndisturbedMutex mutex;
  Engine engine SPILLWAY_GUARDED_BY(mutex);
  AddressSpace addresses;
  DevicePages pages;
  LowerPlaces places SPILLWAY_GUARDED_BY(mutex);
  LaunchLog log SPILLWAY_GUARDED_BY(mutex);
  StallClock stalls;
  HostLaunches launches;
  HostUpdates updates SPILLWAY_GUARDED_BY(mutex);
  WaitingThreads threads SPILLWAY_GUARDED_BY(mutex);
  HostMemory memory SPILLWAY_GUARDED_BY(mutex);
  std::condition_variable idle;  // something has ended
};

}  // namespace spillway::host
