#include "platform/host/host_state.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "platform/common/process/say.h"

namespace spillway::host {
namespace {

// Copies of single blocks, finished one by one: a thread that waits for a block should not wait for
// its neighbours. Eight under way keep a disk busy.
constexpr std::uint32_t kBatchesInFlight = 8;
constexpr Bytes kRoomAheadBytes = 16 * kMiB;
// Address space for host memory, in times its size: a place may be twice its block's size, and
// those that children keep come on top.
constexpr Bytes kHostPlaces = 8;
constexpr unsigned kIoDepth = 8;
constexpr Bytes kLeastAddressBytes = 64 * kGiB;
// More than there are addresses anywhere; eight times as much is still a number.
constexpr Bytes kMostTiersBytes = Bytes{1} << 60U;

EngineOptions engine_options(const HostOptions& options, Bytes storage_bytes) {
  return {.device_capacity_bytes = options.device_bytes,
          .host_capacity_bytes = options.host_bytes,
          .storage_capacity_bytes = storage_bytes,
          .host_batch_bytes = kBlockBytes,
          .storage_batch_bytes = kBlockBytes,
          .eviction_batch_bytes = kBlockBytes,
          .batches_in_flight = kBatchesInFlight,
          .room_ahead_bytes = std::min(kRoomAheadBytes, options.device_bytes / 8),
          .reclaim_discarded_first = options.reclaim_discarded_first,
          .frugal = options.reclaim_discarded_first,
          .tracks_writes = true};
}

// `error`: too few addresses for all of them.
tl::unexpected<Error> too_large(const HostOptions& options, Bytes storage_bytes,
                                const Error& error) {
  std::string tiers =
      fmt::format("device memory of {}, host memory of {}", format_bytes(options.device_bytes),
                  format_bytes(options.host_bytes));
  if (storage_bytes > 0) {
    tiers += fmt::format(", storage of {}", format_bytes(storage_bytes));
  }
  return make_error(error.code, "{}: {}", tiers, error.message);
}

Bytes addresses_for(Bytes tiers_bytes) {
  return std::max(kLeastAddressBytes,
                  round_up(8 * std::min(tiers_bytes, kMostTiersBytes), kBlockBytes));
}

Bytes addresses_for_places(Bytes host_bytes) {
  return kHostPlaces * round_up(host_bytes, kBlockBytes) + kBlockBytes;
}

}  // namespace

Bytes reserved_address_bytes(Bytes device_bytes, Bytes host_bytes, Bytes storage_bytes) {
  return addresses_for(device_bytes + host_bytes + storage_bytes) +
         addresses_for_places(host_bytes);
}

Status check_budget(Bytes bytes) {
  if (bytes < kSmallestBudgetBytes) {
    return make_error(ErrorCode::kInvalidInput, "a device memory of {} is too small; at least {}",
                      format_bytes(bytes), format_bytes(kSmallestBudgetBytes));
  }
  return {};
}

Result<HostState::Taken> HostState::take(const HostOptions& options, Bytes storage_bytes) {
  Result<Userfault> userfault = Userfault::open();
  if (!userfault) {
    return tl::unexpected<Error>(userfault.error());
  }
  const Bytes address_bytes =
      options.address_bytes > 0
          ? round_up(options.address_bytes, kBlockBytes)
          : addresses_for(options.device_bytes + options.host_bytes + storage_bytes);
  Result<Reservation> addresses = Reservation::make(address_bytes);
  if (!addresses) {
    return too_large(options, storage_bytes, addresses.error());
  }
  Result<Reservation> host_memory = Reservation::make(addresses_for_places(options.host_bytes));
  if (!host_memory) {
    return too_large(options, storage_bytes, host_memory.error());
  }
  // Faults are served in small pages; huge ones could not be protected and dropped by block tails.
  ::madvise(addresses->start(), addresses->bytes(), MADV_NOHUGEPAGE);
  ::madvise(host_memory->start(), host_memory->bytes(), MADV_HUGEPAGE);
  // Children ask for what they need.
  ::madvise(host_memory->start(), host_memory->bytes(), MADV_DONTFORK);
  if (!userfault->reports_forks()) {
    ::madvise(addresses->start(), addresses->bytes(), MADV_DONTFORK);
  }
  if (const Status watched = userfault->watch(addresses->start(), addresses->bytes()); !watched) {
    return tl::unexpected<Error>(watched.error());
  }
  return Taken{.userfault = std::move(*userfault),
               .addresses = std::move(*addresses),
               .host_memory = std::move(*host_memory)};
}

HostState::HostState(const HostOptions& the_options, std::optional<SwapFile> swap_file,
                     Policy& policy, Mechanism& mechanism, Taken taken)
    : options(the_options),
      failures(the_options.on_fatal),
      userfault(std::move(taken.userfault)),
      host_memory(std::move(taken.host_memory)),
      engine(engine_options(the_options, swap_file ? swap_file->bytes() : 0), mechanism, policy),
      addresses(std::move(taken.addresses), engine.space()),
      pages(userfault, addresses, failures, the_options.device_bytes, the_options.keep_frames),
      places(kHostPlaces * the_options.host_bytes, swap_file ? 2 * swap_file->bytes() : 0),
      launches(engine, addresses, pages, log, stalls,
               [this](AllocationId id)
                   SPILLWAY_REQUIRES(mutex) { return memory.bytes_in_use(id); }),
      updates(engine, addresses, places, failures, stalls, host_memory.start()),
      threads(userfault, addresses, pages, log, stalls),
      memory(engine, addresses, pages, launches, threads) {
  if (!options.warn) {
    options.warn = say;
  }
  if (swap_file) {
    storage.emplace(std::move(*swap_file), kIoDepth, options.wrap_io);
  }
}

// No handler runs meanwhile: where the program forks nothing would come for one that needs it.
void HostState::wait_while(const std::function<bool()>& something_goes_on) {
  constexpr std::chrono::milliseconds kLookAgain{20};
  while (something_goes_on()) {
    mutex.wait_for(idle, kLookAgain);
  }
}

void HostState::wait_for_transfers() {
  wait_while([this]() SPILLWAY_REQUIRES(mutex) { return engine.transfers_in_flight() > 0; });
}

}  // namespace spillway::host
