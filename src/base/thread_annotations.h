// What clang checks of locks, with -Wthread-safety: which mutex guards a field, and which one a
// function needs. Layer: base. Other compilers see nothing. The names are those of clang's manual,
// "Thread Safety Analysis".
#pragma once

#if defined(__clang__)
#define SPILLWAY_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define SPILLWAY_THREAD_ANNOTATION(x)
#endif

// A class of mutexes, and a class whose objects hold one while they exist.
#define SPILLWAY_CAPABILITY(kind) SPILLWAY_THREAD_ANNOTATION(capability(kind))
#define SPILLWAY_SCOPED_CAPABILITY SPILLWAY_THREAD_ANNOTATION(scoped_lockable)

// A field that is read and written only while the mutex is held; a pointer whose target is.
#define SPILLWAY_GUARDED_BY(mutex) SPILLWAY_THREAD_ANNOTATION(guarded_by(mutex))
#define SPILLWAY_PT_GUARDED_BY(mutex) SPILLWAY_THREAD_ANNOTATION(pt_guarded_by(mutex))

// The caller must hold the mutex.
#define SPILLWAY_REQUIRES(...) SPILLWAY_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))

// A function that locks, or unlocks.
#define SPILLWAY_ACQUIRE(...) SPILLWAY_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define SPILLWAY_ACQUIRE_SHARED(...) \
  SPILLWAY_THREAD_ANNOTATION(acquire_shared_capability(__VA_ARGS__))
#define SPILLWAY_RELEASE(...) SPILLWAY_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define SPILLWAY_RELEASE_SHARED(...) \
  SPILLWAY_THREAD_ANNOTATION(release_shared_capability(__VA_ARGS__))
#define SPILLWAY_TRY_ACQUIRE(...) SPILLWAY_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))

// A function that the analysis cannot follow. A comment beside it says why it is right.
#define SPILLWAY_NO_THREAD_SAFETY_ANALYSIS SPILLWAY_THREAD_ANNOTATION(no_thread_safety_analysis)
