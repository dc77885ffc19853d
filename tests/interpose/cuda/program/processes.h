// Memory that goes from process to process by the driver's handles. Test program.
#pragma once

#include <string>

#include "device.h"

namespace spillway::cuda::test {

// Two processes that use each other's memory, while each has more than its budget. `way` and the
// scenario below are what the other one is started with.
void hand_over(const Device& device, const std::string& way);
// Whoever has the memory ends, and a child of a fork of it goes on.
void hand_over_and_end(const Device& device, const std::string& way);
// The device has no handles that others may open.
void hand_over_refused(const Device& device);
// The driver says that what has been opened is this process's. A second of that.
void hand_over_counted(const Device& device, const std::string& way);
// Does what it is told until nobody is there to tell.
inline constexpr const char* kOtherProcess = "other-process";
void other_process(const Device& device);

}  // namespace spillway::cuda::test
