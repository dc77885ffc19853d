// Completion markers on the program's streams, what they tell, and whether a stream that tells
// nothing still runs. Layer: platform, cuda. Functions that put a marker or ask let the lock go
// while they call the driver.
#pragma once

#include <optional>
#include <string_view>

#include "engine/engine.h"
#include "platform/cuda/driver/driver.h"
#include "platform/cuda/platform_part.h"

namespace spillway::cuda {

class CompletionMarkers : public PlatformPart {
 public:
  CompletionMarkers(PlatformState& state, PlatformParts& parts) : PlatformPart(state, parts) {}

  // All that are due, on every stream, or on one.
  void put_markers() SPILLWAY_REQUIRES(platform_lock);
  void put_marker(StreamId id) SPILLWAY_REQUIRES(platform_lock);
  // Takes notice of the launches that have ended.
  void take_ends() SPILLWAY_REQUIRES(platform_lock);
  // Asks the driver whether the contexts of all streams, or of one, still run.
  void ask_whether_alive() SPILLWAY_REQUIRES(platform_lock);
  void ask_whether_alive(StreamId id) SPILLWAY_REQUIRES(platform_lock);
  // A call of the driver on the stream has failed.
  void stream_failed(StreamId id, CuContext context, std::string_view symbol, CuResult result)
      SPILLWAY_REQUIRES(platform_lock);
};

}  // namespace spillway::cuda
