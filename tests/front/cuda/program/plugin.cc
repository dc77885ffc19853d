// A part of a program that is loaded later and finds the driver by itself. Test program.
#include <dlfcn.h>

// Calls what it is given with five words, as its own code.
extern "C" unsigned call_with(void* function, void* a, unsigned long b, const void* c) {
  const volatile unsigned result =
      reinterpret_cast<unsigned (*)(void*, unsigned long, const void*, unsigned long long,
                                    unsigned long long)>(function)(a, b, c, 0, 0);
  return result;  // not by a jump
}

extern "C" void* find(const char* symbol) {
  return dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), symbol);
}
