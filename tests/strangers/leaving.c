// Ways to leave a process that are not the end of main, each named by its argument: while a child
// still wants what it has inherited and a signal's handler leaves as well; by the last of several
// threads after the main one, also where that has a name as ours have, or where no file can be opened;
// after a thread that was cancelled while it allocated; by an execl
// from a small stack, and with many words.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "stranger.h"

enum { kBlocks = 16 };
static const size_t kBytes = 8 << 20;
static char* blocks[kBlocks];

static void make_blocks(void) {
  for (int i = 0; i < kBlocks; ++i) {
    blocks[i] = malloc(kBytes);
    expect(blocks[i] != NULL);
    fill(blocks[i], kBytes, (uint64_t)i);
  }
}

static size_t look(void) {
  size_t count = 0;
  for (int i = 0; i < kBlocks; ++i) count += wrong(blocks[i], kBytes, (uint64_t)i);
  return count;
}

static void leave(int number) {
  (void)number;
  _exit(5);
}

// The handler runs while _exit waits for the child to have all.
static void leave_twice(void) {
  make_blocks();
  const pid_t child = fork();
  expect(child >= 0);
  if (child == 0) {
    usleep(300000);
    dprintf(STDOUT_FILENO, "child: %zu wrong\n", look());
    _exit(0);
  }
  signal(SIGALRM, leave);
  const struct itimerval soon = {{0, 3000}, {0, 3000}};
  expect(setitimer(ITIMER_REAL, &soon, NULL) == 0);
  _exit(5);
}

static int opened[1 << 16];
static int opened_count = 0;

static void fill_table(void) {
  int fd = 0;
  while (opened_count < 1 << 16 && (fd = open("/", O_RDONLY)) >= 0) opened[opened_count++] = fd;
}

static void* outlive(void* unused) {
  usleep(200000);
  while (opened_count > 0) close(opened[--opened_count]);
  make_blocks();
  printf("thread: %zu wrong\n", look());
  return unused;
}

static void say_bye(void) { puts("bye"); }

static void* leave_at_once(void* unused) { pthread_exit(unused); }

static void leave_threads_behind(const char* how) {
  make_blocks();
  atexit(say_bye);
  pthread_t thread;
  if (strcmp(how, "full-table") == 0) {
    // The first that leaves so needs a file: the library that unwinds its stack.
    expect(pthread_create(&thread, NULL, leave_at_once, NULL) == 0);
    pthread_join(thread, NULL);
    fill_table();
  }
  expect(pthread_create(&thread, NULL, outlive, NULL) == 0);
  if (strcmp(how, "named-threads") == 0) {
    expect(pthread_setname_np(thread, "spw-migrate") == 0);
  }
  pthread_detach(thread);
  pthread_exit(NULL);
}

static pthread_barrier_t ready;

// A cancellation that waits takes effect at the next call that may wait, which is none of these.
static void* allocate_cancelled(void* unused) {
  pthread_barrier_wait(&ready);
  pthread_barrier_wait(&ready);
  make_blocks();
  const size_t count = look();
  for (int i = 0; i < kBlocks; ++i) free(blocks[i]);
  dprintf(STDOUT_FILENO, "thread: %zu wrong\n", count);  // here
  pthread_testcancel();
  return unused;
}

static void cancel(void) {
  pthread_t thread;
  void* result = NULL;
  pthread_barrier_init(&ready, NULL, 2);
  expect(pthread_create(&thread, NULL, allocate_cancelled, NULL) == 0);
  pthread_barrier_wait(&ready);
  expect(pthread_cancel(thread) == 0);
  pthread_barrier_wait(&ready);
  expect(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
  make_blocks();
  printf("main: %zu wrong\n", look());
}

static void* become(void* unused) {
  execl("/bin/sh", "sh", "-c", "echo \"$0 $#\"; exit 5", "words", "1", "2", "3", (char*)NULL);
  return unused;
}

// Of as many bytes as a thread needs at least.
static void exec_from_small_stack(void) {
  make_blocks();
  pthread_attr_t small;
  pthread_t thread;
  pthread_attr_init(&small);
  expect(pthread_attr_setstacksize(&small, 24 << 10) == 0);
  expect(pthread_create(&thread, &small, become, NULL) == 0);
  pthread_join(thread, NULL);
}

int main(int argc, char** argv) {
  const char* const how = argc > 1 ? argv[1] : "";
  if (strcmp(how, "twice") == 0) leave_twice();
  if (strcmp(how, "threads") == 0 || strcmp(how, "named-threads") == 0 ||
      strcmp(how, "full-table") == 0) {
    leave_threads_behind(how);
  }
  if (strcmp(how, "cancel") == 0) cancel();
  if (strcmp(how, "exec") == 0) exec_from_small_stack();
  return 5;
}
