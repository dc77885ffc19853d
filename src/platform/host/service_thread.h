// Threads of Spillway's own inside somebody else's program. Layer: platform, host.
// They take no signals, have a name that `top -H` shows, and say of themselves that they are ours:
// an allocation that they make never goes into the space that they serve.
#pragma once

#include <functional>
#include <thread>

namespace spillway::host {

// Not joined before it is told to end by other means. `name`: at most 15 characters.
[[nodiscard]] std::thread service_thread(const char* name, std::function<void()> body);
// Whether the calling thread is one of ours, or a program's thread that is inside our code.
[[nodiscard]] bool in_service();

// The calling thread is inside our code while this lives.
class InService {
 public:
  InService();
  InService(const InService&) = delete;
  InService& operator=(const InService&) = delete;
  ~InService();
};

}  // namespace spillway::host
