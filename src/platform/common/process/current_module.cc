// See current_module.h.
#include "platform/common/process/current_module.h"

#include <mutex>

#include "platform/common/kept_names.h"

namespace spillway {
namespace {

__attribute__((tls_model("initial-exec"))) constinit thread_local std::string_view module_of_thread;

// Never destroyed: threads of the program may run until the very end.
std::string_view kept_module(std::string_view name) {
  static std::mutex mutex;
  static auto* const names = new KeptNames;
  const std::scoped_lock lock(mutex);
  return names->keep(name, {});
}

}  // namespace

std::string_view current_module() { return module_of_thread; }

void set_current_module(std::string_view name) {
  module_of_thread = name.empty() ? std::string_view() : kept_module(name);
}

}  // namespace spillway
