// See out_of_memory.h.
#include "interpose/cuda/memory/out_of_memory.h"

#include <atomic>

#include "platform/common/process/clock.h"
#include "platform/common/process/say.h"
#include "runtime/run/refused.h"

namespace spillway::cuda {

void say_out_of_memory(const Error& error, Bytes bytes) {
  note_refused(bytes);
  constexpr TimeNs kBetweenNs = 1'000'000'000;
  static std::atomic<TimeNs> last_ns{0};
  const TimeNs now = now_ns();
  TimeNs last = last_ns.load();
  if ((last == 0 || now - last > kBetweenNs) && last_ns.compare_exchange_strong(last, now)) {
    say(error.message);
  }
}

}  // namespace spillway::cuda
