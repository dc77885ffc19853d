// See context_memory.h.
#include "interpose/cuda/memory/context_memory.h"

#include <atomic>
#include <unordered_map>

#include "base/mutex.h"
#include "interpose/cuda/hooks/hook_table.h"

namespace spillway::cuda {
namespace {

struct Owners {
  Mutex mutex;
  std::unordered_map<std::uint64_t, CuContext> by_address SPILLWAY_GUARDED_BY(mutex);
};
Owners& owners() {
  static auto* const all = new Owners;  // threads of the program may run until the very end
  return *all;
}
std::atomic<bool> any_owned{false};  // programs that allocate from pools have none

}  // namespace

void note_context_memory(std::uint64_t address) {
  CuContext context = nullptr;
  (void)real().cuCtxGetCurrent(&context);
  const MutexLock lock(owners().mutex);
  owners().by_address[address] = context;
  any_owned = true;
}

std::optional<CuContext> owner_of_memory(std::uint64_t address) {
  const MutexLock lock(owners().mutex);
  const auto found = owners().by_address.find(address);
  return found == owners().by_address.end() ? std::nullopt : std::optional(found->second);
}

void forget_context_memory(std::uint64_t address) {
  if (!any_owned.load(std::memory_order_relaxed)) {
    return;
  }
  const MutexLock lock(owners().mutex);
  owners().by_address.erase(address);
}

std::vector<std::uint64_t> take_memory_of(CuContext context) {
  std::vector<std::uint64_t> taken;
  const MutexLock lock(owners().mutex);
  std::erase_if(owners().by_address, [&](const auto& owned) {
    const bool its = owned.second == context;
    if (its) {
      taken.push_back(owned.first);
    }
    return its;
  });
  return taken;
}

}  // namespace spillway::cuda
