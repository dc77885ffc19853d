// A library that stands for the preloaded one: it receives PyTorch's ITT ranges, the operands and
// the modules, and writes a line for each to the file $COLLECTOR_LOG.PROCESS_ID.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The layout that PyTorch's copy of ittnotify expects; it reads flags, we read the name.
typedef struct {
  volatile int flags;
  const char* name;
  void* rest[4];
} domain;
typedef struct {
  const char* name;
  void* rest[4];
} string_handle;
typedef struct {
  unsigned long long parts[3];
} identifier;

typedef struct {
  void* address;
  size_t bytes;
  int writes;
} operand;

static __thread int depth;
static int steps;

static void write_line(const char* kind, const char* name, const char* rest) {
  // Opened for every line: a forked child has to write to a file of its own.
  char path[4096];
  snprintf(path, sizeof path, "%s.%d", getenv("COLLECTOR_LOG"), (int)getpid());
  FILE* log = fopen(path, "a");
  fprintf(log, "%s %d %s%s\n", kind, depth, name, rest);
  fclose(log);
}

domain* __itt_domain_create(const char* name) {
  static domain only = {.flags = 1};
  only.name = name;
  return &only;
}

string_handle* __itt_string_handle_create(const char* name) {
  string_handle* kept = calloc(1, sizeof *kept);  // who asked may keep it, and not the name
  kept->name = strdup(name);
  return kept;
}

const char* __itt_api_version(void) { return "3"; }

void __itt_task_begin(const domain* d, identifier task, identifier parent, string_handle* name) {
  (void)d, (void)task, (void)parent;
  write_line("begin", name->name, "");
  depth++;
}

void __itt_task_end(const domain* d) {
  (void)d;
  depth--;
  write_line("end", "", "");
}

void spillway_module(const char* name) { write_line("module", name ? name : "-", ""); }

// $COLLECTOR_WANTS is a step's number: the operands of the iteration after it are wanted.
int spillway_wants_operands(void) {
  const char* wanted = getenv("COLLECTOR_WANTS");
  return ++steps == (wanted ? atoi(wanted) : -1);
}

static int write_operands(const char* kind, const char* name, const operand* operands,
                          size_t count) {
  char text[2048] = "";
  int length = 0;
  for (size_t i = 0; i < count && length < 2000; i++)
    length += snprintf(text + length, sizeof text - length, " %p/%zu/%d", operands[i].address,
                       operands[i].bytes, operands[i].writes);
  write_line(kind, name, text);
  return 0;
}

int spillway_operator(const char* name, const operand* operands, size_t count) {
  return write_operands("operator", name, operands, count);
}

int spillway_operator_done(const char* name, const operand* operands, size_t count) {
  return write_operands("done", name, operands, count);
}
