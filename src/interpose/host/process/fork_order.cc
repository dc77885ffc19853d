// See fork_order.h.
#include "interpose/host/process/fork_order.h"

#include <atomic>

#include "interpose/host/next.h"
#include "interpose/host/session.h"

// Of this library, as the C library knows it.
extern "C" void* __dso_handle;  // NOLINT(bugprone-reserved-identifier)

namespace spillway::preload {
namespace {

using Register = int (*)(void (*)(), void (*)(), void (*)(), void*);

Register next_register() {
  static const auto function = next<Register>("__register_atfork");
  return function;
}

}  // namespace

// The C library calls those before a fork from the last that was registered to the first, and those
// after it the other way round. An allocator registers its own when it is used first, if at all.
void register_fork_handlers() {
  static std::atomic<bool> registered{false};
  if (!registered.exchange(true)) {
    next_allocator().free(next_allocator().malloc(1));
    next_register()(before_fork, after_fork, in_child, &__dso_handle);
  }
}

}  // namespace spillway::preload

// What pthread_atfork is, in every library.
// NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(),
                                 void* object) noexcept {
  namespace pre = spillway::preload;
  pre::look_for_allocators();
  if (!pre::in_allocator(__builtin_return_address(0))) {
    pre::register_fork_handlers();
  }
  return pre::next_register()(prepare, parent, child, object);
}
