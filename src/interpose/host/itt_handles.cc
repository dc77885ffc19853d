// See itt_handles.h.
#include "interpose/host/itt_handles.h"

#include <map>
#include <string>

#include "base/mutex.h"

namespace spillway::preload {
namespace {

constexpr std::size_t kHandlesMax = std::size_t{1} << 16U;

// Never destroyed: threads of the program may run until the very end.
struct KeptHandles {
  Mutex mutex;
  std::map<std::string, IttHandle, std::less<>> by_name SPILLWAY_GUARDED_BY(mutex);
};

KeptHandles& kept_handles() {
  static auto* const handles = new KeptHandles;
  return *handles;
}

}  // namespace

IttHandle* kept_handle(const char* name) {
  __attribute__((tls_model("initial-exec"))) static thread_local IttHandle latest;
  KeptHandles& kept = kept_handles();
  const MutexLock lock(kept.mutex);
  auto found = kept.by_name.find(std::string_view(name));
  if (found == kept.by_name.end()) {
    if (kept.by_name.size() == kHandlesMax) {
      latest.name = name;
      return &latest;
    }
    found = kept.by_name.emplace(name, IttHandle()).first;
    found->second.name = found->first.c_str();
  }
  return &found->second;
}

// The lock is held from one of these to the other, which clang does not follow.
void hold_handles_for_fork() SPILLWAY_NO_THREAD_SAFETY_ANALYSIS { kept_handles().mutex.lock(); }

void let_handles_go() SPILLWAY_NO_THREAD_SAFETY_ANALYSIS { kept_handles().mutex.unlock(); }

}  // namespace spillway::preload
