// Where our handlers of forks stand among those of others. Layer: interpose, host.
// From ours on nothing moves, and no allocation of the space can be made or given back until the
// fork is over. So before a fork ours run last of all but the allocator's, whose locks ours may
// need; after it, first but for the allocator's.
#pragma once

namespace spillway::preload {

// Registers session.h's handlers, unless a library that was set up before us has had it done.
void register_fork_handlers();

}  // namespace spillway::preload
