// The names that callers of Intel's instrumentation interface give to their tasks. Layer:
// interpose, host. The structure is the interface's.
#pragma once

namespace spillway::preload {

struct IttHandle {
  const char* name;
  void* wide_name;
  int extra1;
  void* extra2;
  IttHandle* next;
};

// The same one for equal names, with a copy of the name, for as long as the process lives: callers
// keep it. Behind 65,536 names, which only a program has that makes them up as it goes, it is good
// for the calling thread's next task alone. Thread-safe.
[[nodiscard]] IttHandle* kept_handle(const char* name);

// Between them a fork makes a child in which handles can be had.
void hold_handles_for_fork();
void let_handles_go();

}  // namespace spillway::preload
