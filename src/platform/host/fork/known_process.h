// Which process of this system knows itself by a number. Layer: platform, host.
// The kernel tells of a fault in which thread it happened, but by the number that this has in its
// own namespace, and that may be another's here.
#pragma once

#include <sys/types.h>

#include <optional>

namespace spillway::host {

// The only process, other than this one, that has memory at this address and a thread that knows
// itself by that number; nullopt if there is none or more than one, or the system does not say.
[[nodiscard]] std::optional<pid_t> process_known_as(pid_t number, const void* address);

}  // namespace spillway::host
