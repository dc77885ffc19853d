// Calls of the program in bypass mode, and when it is entered. Layer: platform, cuda. docs/cuda.md.
// What is known of memory then is bypass_mode.h's. All functions are thread-safe, except where one
// says otherwise.
#pragma once

#include <cstdint>

#include "platform/cuda/driver/driver.h"
#include "platform/cuda/platform_part.h"

namespace spillway::cuda {

class CallBypass : public PlatformPart {
 public:
  CallBypass(PlatformState& state, PlatformParts& parts) : PlatformPart(state, parts) {}

  // True in bypass mode. Never blocks.
  [[nodiscard]] bool calls_are_open() const;
  // True if the call that the program is about to make on this stream is bypassed: everything has
  // its memory and keeps it (docs/cuda.md). `end_bypassed` follows the call, and no other function
  // of the platform is called for it. A call that lets addresses escape is never bypassed.
  [[nodiscard]] bool begin_bypassed(CuStream stream);
  void end_bypassed();
  [[nodiscard]] std::uint64_t bypassed_calls() const;  // so far

  // --- For other parts

  // Whether calls of this thread on that stream may be bypassed at all.
  [[nodiscard]] static bool may_bypass_on(CuStream stream);
  // Gives memory that no launch uses its frames, if there is room. Lets go.
  void order_what_nobody_uses() SPILLWAY_REQUIRES(platform_lock);
  // Enters bypass mode if everything fits and nothing is on its way.
  void consider_bypass() SPILLWAY_REQUIRES(platform_lock);

 private:
  void take_mark() SPILLWAY_REQUIRES(platform_lock);
};

}  // namespace spillway::cuda
