#include "platform/host/host_process.h"

#include <sys/mman.h>

#include <mutex>
#include <utility>

#include "base/mutex.h"

namespace spillway::host {

void HostProcess::before_fork() {
  state_.mutex.lock();  // held until after_fork
  // Of what an update writes now, the child would find a part that was written after the fork.
  state_.updates.stop_beginning(true);
  state_.wait_while([this]() SPILLWAY_REQUIRES(state_.mutex) { return state_.updates.any(); });
  // What moves now would be neither here nor there for it.
  correlator_.hold();
  state_.wait_for_transfers();
  forks_.before_fork(state_.engine.space());
}

void HostProcess::after_fork() {
  const MutexLock lock(state_.mutex, std::adopt_lock);
  correlator_.let_go();
  state_.updates.stop_beginning(false);
  forks_.after_fork();
  correlator_.wake();
}

// What the child has not inherited the kernel gives to the child's own mappings. Where it inherits
// nothing, the addresses that the parent uses stay taken: nothing else may ever lie there.
void HostProcess::in_child() {
  if (!std::exchange(is_child_, true)) {  // else the child of a child
    state_.mutex.leave_held();
    state_.addresses.shrink(forks_.inherited_bytes());
    if (!state_.userfault.reports_forks() && state_.addresses.bytes() > 0) {
      keep_addresses_taken();
    }
  }
  forks_.in_child();  // last: it starts a thread
}

void HostProcess::keep_addresses_taken() {
  const void* const hole =
      ::mmap(state_.addresses.base(), state_.addresses.bytes(), PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (hole != state_.addresses.base()) {
    state_.failures.fatal(
        {ErrorCode::kUnsupported,
         "a child of the program cannot keep its parent's addresses free, and would "
         "take its own memory for its parent's"});
  }
}

}  // namespace spillway::host
