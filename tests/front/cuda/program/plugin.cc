// A part of a program that is loaded later and finds the driver by itself. Test program.
#include <dlfcn.h>

extern "C" void* find(const char* symbol) {
  return dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), symbol);
}
