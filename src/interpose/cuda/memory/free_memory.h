// What a program is told when it asks how much memory is free. Layer: interpose, cuda.
#pragma once

#include "interpose/cuda/session.h"

namespace spillway::cuda {

// The budget less what is used; but as long as there is room for it anywhere, not less than a part
// of the budget: programs that make chunks of what is free must get some, and those that fill the
// device until little is free must come to an end.
[[nodiscard]] Bytes told_free_bytes(const Session& session, Bytes used_bytes);

}  // namespace spillway::cuda
