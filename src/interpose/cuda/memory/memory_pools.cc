// See memory_pools.h.
#include "interpose/cuda/memory/memory_pools.h"

#include <atomic>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"
#include "interpose/cuda/hooks/hook_table.h"

namespace spillway::cuda {
namespace {

struct Pools {
  Mutex mutex;
  std::unordered_map<CuMemPool, NotedPool> by_handle SPILLWAY_GUARDED_BY(mutex);
  bool default_known SPILLWAY_GUARDED_BY(mutex) = false;
  // Also of a driver that has no pools.
  CuMemPool default_handle SPILLWAY_GUARDED_BY(mutex) = nullptr;
};
Pools& pools() {
  static auto* const all = new Pools;  // threads of the program may run until the very end
  return *all;
}

// An account, or one of these.
using Current = std::int64_t;
constexpr Current kNotKnown = -1;
constexpr Current kDrivers = -2;
constinit std::atomic<Current> current_account{kNotKnown};

void find_default(Pools& all, const Session& session) SPILLWAY_REQUIRES(all.mutex) {
  if (all.default_known) {
    return;
  }
  all.default_known = true;
  all.default_handle = nullptr;
  (void)real().cuDeviceGetDefaultMemPool(&all.default_handle, session.device);
  // A pool that went with a reset may have been called so.
  all.by_handle.insert_or_assign(
      all.default_handle,
      NotedPool{.location = {.type = CuLocationType::kDevice, .id = session.device}});
}

std::optional<DeviceHeap::Pool> account_of(Pools& all, const Session& session, CuMemPool handle)
    SPILLWAY_REQUIRES(all.mutex) {
  find_default(all, session);
  const auto found = all.by_handle.find(handle);
  if (found == all.by_handle.end()) {
    return std::nullopt;
  }
  NotedPool& pool = found->second;
  if (pool.type != CuAllocationType::kPinned || pool.location.type != CuLocationType::kDevice ||
      pool.location.id != session.device) {
    return std::nullopt;
  }
  if (!pool.account) {
    pool.account = session.heap->open_pool(pool.most_bytes == 0 ? ~Bytes{0} : pool.most_bytes);
  }
  return pool.account;
}

void close_account(const Session& session, NotedPool& pool) {
  if (pool.account.has_value()) {
    session.heap->close_pool(pool.account.value());
    pool.account.reset();
  }
}

}  // namespace

void note_pool(CuMemPool handle, const NotedPool& pool) {
  const MutexLock lock(pools().mutex);
  pools().by_handle[handle] = pool;
}

std::optional<NotedPool> take_pool(CuMemPool handle) {
  const MutexLock lock(pools().mutex);
  const auto taken = pools().by_handle.extract(handle);
  return taken.empty() ? std::nullopt : std::optional(taken.mapped());
}

void current_pool_changes() {
  const MutexLock lock(pools().mutex);
  current_account = kNotKnown;
}

void pools_begin_anew(const Session& session) {
  Pools& all = pools();
  const MutexLock lock(all.mutex);
  current_account = kNotKnown;
  for (auto& it : all.by_handle) {
    close_account(session, it.second);
  }
  if (std::exchange(all.default_known, false)) {
    all.by_handle.erase(all.default_handle);
  }
}

std::optional<DeviceHeap::Pool> pool_of(const Session& session, CuMemPool handle) {
  const MutexLock lock(pools().mutex);
  return account_of(pools(), session, handle);
}

std::optional<DeviceHeap::Pool> current_pool(const Session& session) {
  Current known = current_account.load(std::memory_order_relaxed);
  if (known == kNotKnown) {
    const MutexLock lock(pools().mutex);
    find_default(pools(), session);
    CuMemPool handle = nullptr;
    if (real().cuDeviceGetMemPool(&handle, session.device) != CuResult::kSuccess) {
      handle = pools().default_handle;
    }
    const auto account = account_of(pools(), session, handle);
    known = account ? Current{*account} : kDrivers;
    current_account = known;
  }
  return known == kDrivers ? std::nullopt : std::optional(static_cast<DeviceHeap::Pool>(known));
}

CuMemPool handle_of_pool(DeviceHeap::Pool account) {
  if (account == DeviceHeap::kNoPool) {
    return nullptr;
  }
  const MutexLock lock(pools().mutex);
  for (const auto& [handle, pool] : pools().by_handle) {
    if (pool.account == account) {
      return handle;
    }
  }
  return nullptr;
}

bool is_of_host(CuMemPool handle) {
  const MutexLock lock(pools().mutex);
  const auto found = pools().by_handle.find(handle);
  return found != pools().by_handle.end() && found->second.location.type != CuLocationType::kDevice;
}

}  // namespace spillway::cuda
