// One line to people from inside somebody else's program. Layer: platform, common.
#pragma once

#include <string_view>

namespace spillway {

// "spillway: ..." on standard error, without the C library's streams, of which the program may hold
// any lock.
void say(std::string_view text);

}  // namespace spillway
