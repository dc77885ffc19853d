// How a host platform is set up. Layer: platform, host.
#pragma once

#include <functional>
#include <string_view>

#include "base/error.h"
#include "base/units.h"
#include "platform/common/storage/link_throttle.h"
#include "platform/common/storage/storage_io.h"

namespace spillway::host {

struct HostOptions {
  Bytes device_bytes = 0;
  Bytes host_bytes = 0;
  LinkSpeed link;
  bool reclaim_discarded_first = true;  // EngineOptions::reclaim_discarded_first
  bool keep_frames = true;              // where the kernel can move pages (frame_pool.h)
  // Address space to reserve; 0: enough for what the tiers can hold, eight times over.
  Bytes address_bytes = 0;
  // Called by tests to put something between the platform and the swap file.
  StorageIo::Wrap wrap_io;
  // Called once when no further step is safe; must not return to the program. The default prints
  // the error's line on standard error and ends the process with status 1.
  std::function<void(const Error&)> on_fatal;
  // One line for people. The default prints it on standard error.
  std::function<void(std::string_view)> warn;
  // After how long a thread that waits for room which running launches keep is told of.
  TimeNs warn_after_ns = 5'000'000'000;
};

}  // namespace spillway::host
