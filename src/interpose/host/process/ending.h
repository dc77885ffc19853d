// What is left to do before the process ends, or becomes another program: children get what they
// may still ask for, and the record is written. Layer: interpose, host.
// A program may end inside a signal handler, where nothing may be allocated and any lock may be
// held: so a thread that was made before does it, while who wants to leave waits.
#pragma once

#include <functional>

namespace spillway::preload {

// Starts that thread. `give_to_children` and `write_record` are what it does, in this order; nobody
// waits for the second one longer than some seconds.
void prepare_ending(std::function<void()> give_to_children, std::function<void()> write_record);
// Does both and returns; nothing where nothing is prepared, and inside our own code. Any thread's,
// also in a signal handler.
void before_end();

}  // namespace spillway::preload
