// A process whose main thread has left while others go on (pthread_exit) ends with the last of
// them. Layer: interpose, host. The C library counts threads, and ours, which do not end, would
// keep the process for ever.
#pragma once

namespace spillway::preload {

// By the main thread, once: from then on it is noticed when that leaves.
void watch_main_thread();
// In the child of a fork, whose only thread is its main thread.
void watch_main_thread_of_child();

}  // namespace spillway::preload
