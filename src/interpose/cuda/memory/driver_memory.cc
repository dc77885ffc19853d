// See driver_memory.h.
#include "interpose/cuda/memory/driver_memory.h"

#include <atomic>
#include <map>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "interpose/cuda/hooks/hook_table.h"
#include "interpose/cuda/memory/past_budget.h"

namespace spillway::cuda {
namespace {

struct Given {
  std::string call;
  Bytes bytes = 0;
  CuContext context = nullptr;  // nullptr where it outlives its context
};

struct DriversMemory {
  Mutex mutex;
  std::map<std::pair<DriverMemory, std::uint64_t>, Given> given SPILLWAY_GUARDED_BY(mutex);
};
// Never destroyed: threads of the program may run until the very end.
DriversMemory& drivers_memory() {
  static auto* const it = new DriversMemory;
  return *it;
}
// Most programs have none, and free much.
std::atomic<bool> any{false};

}  // namespace

void driver_gave(std::string_view call, DriverMemory kind, std::uint64_t name, Bytes bytes,
                 const void* caller) {
  CuContext context = nullptr;
  if (kind != DriverMemory::kHandle && kind != DriverMemory::kImport) {
    (void)real().cuCtxGetCurrent(&context);
  }
  {
    const MutexLock lock(drivers_memory().mutex);
    drivers_memory().given[{kind, name}] = {
        .call = std::string(call), .bytes = bytes, .context = context};
    any = true;
  }
  took_past_budget(call, bytes, caller);
}

void driver_has_back(DriverMemory kind, std::uint64_t name) {
  if (!any.load(std::memory_order_relaxed)) {
    return;
  }
  const MutexLock lock(drivers_memory().mutex);
  if (const auto given = drivers_memory().given.extract({kind, name}); !given.empty()) {
    gave_back_past_budget(given.mapped().call, given.mapped().bytes);
  }
}

void driver_has_back_all_of(CuContext context) {
  const MutexLock lock(drivers_memory().mutex);
  std::erase_if(drivers_memory().given, [context](const auto& entry) {
    const Given& given = entry.second;
    if (given.context == nullptr || given.context != context) {
      return false;
    }
    gave_back_past_budget(given.call, given.bytes);
    return true;
  });
}

}  // namespace spillway::cuda
