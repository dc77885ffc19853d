// What the programs of this folder share: a pattern that every word of a buffer can be checked
// against, and a way to say that one is wrong. They know nothing of Spillway; each prints the same
// lines and ends with the same status with and without it.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define PAGE ((size_t)4096)

// The status of a program that may not do here what it is about.
enum { NOT_PERMITTED = 77 };

// Says what is wrong, and ends the process.
#define expect(what)                                                     \
  do {                                                                   \
    if (!(what)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
      fflush(NULL);                                                      \
      _exit(99);                                                         \
    }                                                                    \
  } while (0)

// By an instruction of the program's own, which no library sees.
static inline long bare_call(long number, long first, long second, long third) {
  long answer;
  __asm__ volatile("syscall"
                   : "=a"(answer)
                   : "a"(number), "D"(first), "S"(second), "d"(third)
                   : "rcx", "r11", "memory");
  return answer;
}

static inline uint64_t word_at(uint64_t seed, size_t i) {
  return (seed * 0x9e3779b97f4a7c15u) ^ (i * 0xbf58476d1ce4e5b9u) ^ (i >> 7);
}

static inline void fill(void* start, size_t bytes, uint64_t seed) {
  uint64_t* const words = (uint64_t*)start;
  for (size_t i = 0; i < bytes / sizeof(uint64_t); ++i) words[i] = word_at(seed, i);
}

// How many words are not as `fill` left them.
static inline size_t wrong(const void* start, size_t bytes, uint64_t seed) {
  const uint64_t* const words = (const uint64_t*)start;
  size_t count = 0;
  for (size_t i = 0; i < bytes / sizeof(uint64_t); ++i) count += words[i] != word_at(seed, i);
  return count;
}

static inline size_t not_zero(const void* start, size_t bytes) {
  const uint64_t* const words = (const uint64_t*)start;
  size_t count = 0;
  for (size_t i = 0; i < bytes / sizeof(uint64_t); ++i) count += words[i] != 0;
  return count;
}
