// See current_module.h.
#include "platform/common/process/current_module.h"

#include "base/mutex.h"
#include "platform/common/kept_names.h"

namespace spillway {
namespace {

__attribute__((tls_model("initial-exec"))) constinit thread_local std::string_view module_of_thread;

// Never destroyed: threads of the program may run until the very end.
std::string_view kept_module(std::string_view name) {
  static Mutex mutex;
  static auto* const names SPILLWAY_PT_GUARDED_BY(mutex) = new KeptNames;
  const MutexLock lock(mutex);
  return names->keep(name, {});
}

}  // namespace

std::string_view current_module() { return module_of_thread; }

void set_current_module(std::string_view name) {
  module_of_thread = name.empty() ? std::string_view() : kept_module(name);
}

}  // namespace spillway
