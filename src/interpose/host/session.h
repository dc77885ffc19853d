// The space of a program that `spillway run` started: made at its first large allocation, described
// at its end. Layer: interpose, host.
#pragma once

#include <cstddef>

#include "heap/large_heap.h"
#include "runtime/record/run_record.h"
#include "runtime/run/program_space.h"

namespace spillway::preload {

// Allocations of at least this many bytes go into the space. Safe inside malloc.
[[nodiscard]] std::size_t threshold_bytes();

struct Session {
  ProgramSpace* space = nullptr;
  LargeHeap* heap = nullptr;
};

// The session, made now if `make` and there is none. nullptr where there is none: not asked for,
// not made yet, or this is the child of a fork. Ends the process with one line on standard error if
// what was asked for cannot be had.
[[nodiscard]] Session* session(bool make);
// From now on there will be none, if there is none yet.
void make_no_space();
// See ProgramPlatform: of the space that there is or will be.
void keep_no_frames();
void expect_pins();
// Whether an allocation of so many bytes could find room.
[[nodiscard]] bool may_promise(std::size_t bytes);
// The descriptor in the program's table that is ours, and that it must not close; -1: there is
// none.
[[nodiscard]] int kept_from_program();
// What may be used of an allocation of the space, also in the child of a fork.
[[nodiscard]] std::size_t usable_bytes(void* start);
// Whether the address belongs to the space, also in the child of a fork, where it must be left
// alone.
[[nodiscard]] bool in_space(const void* address);

// Of this process, up to now; nothing but its number where it has no space.
[[nodiscard]] RunRecord record_so_far();

// Around a fork() by this thread, in the parent and in the child; in between the space gives
// nothing and takes nothing back.
void before_fork();
void after_fork();
void in_child();

// Who the calling thread asks for, with its next large allocation, in terms that are the same in
// every iteration: "the second one of the fifth addmm".
[[nodiscard]] LargeHeap::Asker asker();

}  // namespace spillway::preload
