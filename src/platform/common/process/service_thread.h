// Threads of Spillway's own inside somebody else's program. Layer: platform, common.
// They take no signals, have a name that `top -H` shows, and say of themselves that they are ours:
// an allocation that they make never goes into the space that they serve.
#pragma once

#include <sys/types.h>

#include <functional>
#include <thread>

#include "base/units.h"

namespace spillway {

// Not joined before it is told to end by other means. `name`: at most 15 characters.
[[nodiscard]] std::thread service_thread(const char* name, std::function<void()> body);
// One that nobody waits for. Allocates nothing of its own and throws nothing: for the child of a
// fork. 0, or the error.
[[nodiscard]] int start_service_thread(const char* name, void (*body)());
// Whether the thread of this process with that number is one of them, and has begun. Any thread's.
[[nodiscard]] bool is_service_thread(pid_t thread);
// In the child of a fork, which has none.
void forget_service_threads();
// What it has run on a processor; 0 for none. It has not been joined.
[[nodiscard]] TimeNs processor_ns(const std::thread& thread);
// Whether the calling thread is one of ours, or a program's thread that is inside our code.
[[nodiscard]] bool in_service();

// The calling thread is inside our code while this lives, and is not cancelled there, where it may
// hold any lock.
class InService {
 public:
  InService();
  InService(const InService&) = delete;
  InService& operator=(const InService&) = delete;
  ~InService();

 private:
  int cancel_state_ = 0;  // before, where this is the outermost
};

}  // namespace spillway
