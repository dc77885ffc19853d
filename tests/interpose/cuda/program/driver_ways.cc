// See driver_ways.h.
#include "driver_ways.h"

#include <dlfcn.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <functional>

namespace spillway::cuda::test {
namespace {

using Find = std::function<void*(const char* symbol, int since)>;
using FindSymbol = void* (*)(void*, const char*);

[[noreturn]] void give_up(const char* what) {
  const char* const reason = dlerror();
  std::printf("cannot find %s: %s\n", what, reason != nullptr ? reason : "no reason");
  std::exit(3);
}

void* library(int flags = RTLD_LOCAL) {
  void* const opened = dlopen("libcuda.so.1", RTLD_NOW | flags);
  return opened != nullptr ? opened : (give_up("libcuda.so.1"), nullptr);
}

// As the CUDA runtime asks: by name, with the version that it was built for.
std::string name_of(const char* symbol) {
  std::string name(symbol);
  if (name.size() > 3 && name.substr(name.size() - 3, 2) == "_v") {
    name.resize(name.size() - 3);
  }
  return name;
}

#ifdef SPILLWAY_LINKED
#define SPILLWAY_DECLARE(field, symbol, since, parameters) extern "C" CuResult symbol parameters;
SPILLWAY_CUDA_CALLS(SPILLWAY_DECLARE)
#undef SPILLWAY_DECLARE
#define SPILLWAY_DECLARE(symbol, since, parameters) extern "C" CuResult symbol parameters;
FAKE_PROGRAM_CALLS(SPILLWAY_DECLARE)
#undef SPILLWAY_DECLARE

void* linked(const std::string& wanted) {
#define SPILLWAY_LINKED_CALL(field, symbol, since, parameters) \
  if (wanted == #symbol) return reinterpret_cast<void*>(&symbol);
  SPILLWAY_CUDA_CALLS(SPILLWAY_LINKED_CALL)
#undef SPILLWAY_LINKED_CALL
#define SPILLWAY_LINKED_CALL(symbol, since, parameters) \
  if (wanted == #symbol) return reinterpret_cast<void*>(&symbol);
  FAKE_PROGRAM_CALLS(SPILLWAY_LINKED_CALL)
#undef SPILLWAY_LINKED_CALL
  return nullptr;
}
#endif

Find find_by(const std::string& way) {
#ifdef SPILLWAY_LINKED
  if (way == "linked") {
    return [](const char* symbol, int) { return linked(symbol); };
  }
#endif
  if (way == "dlopen") {
    return [](const char* symbol, int) { return dlsym(library(), symbol); };
  }
  if (way == "default") {
    (void)library(RTLD_GLOBAL);
    return [](const char* symbol, int) { return dlsym(RTLD_DEFAULT, symbol); };
  }
  if (way == "libc" || way == "dlvsym") {
    void* const found = way == "libc" ? dlsym(dlopen("libc.so.6", RTLD_NOW), "dlsym")
                                      : dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    const auto find = std::bit_cast<FindSymbol>(found);
    return [find](const char* symbol, int) { return find(library(), symbol); };
  }
  if (way == "proc1") {
    const auto get =
        std::bit_cast<decltype(Calls::cuGetProcAddress)>(dlsym(library(), "cuGetProcAddress"));
    return [get](const char* symbol, int since) {
      void* function = nullptr;
      (void)get(name_of(symbol).c_str(), &function, since, 0);
      return function;
    };
  }
  if (way == "proc2") {
    const auto get = std::bit_cast<decltype(Calls::cuGetProcAddress_v2)>(
        dlsym(library(), "cuGetProcAddress_v2"));
    return [get](const char* symbol, int since) {
      void* function = nullptr;
      (void)get(name_of(symbol).c_str(), &function, since, kCuLegacyStream, nullptr);
      return function;
    };
  }
  if (way == "plugin") {
    void* const plugin = dlopen(SPILLWAY_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    const auto find =
        plugin == nullptr ? nullptr : std::bit_cast<void* (*)(const char*)>(dlsym(plugin, "find"));
    if (find == nullptr) {
      give_up(SPILLWAY_PLUGIN);
    }
    return [find](const char* symbol, int) { return find(symbol); };
  }
  give_up(way.c_str());
}

}  // namespace

Calls find_calls(const std::string& way) {
  Calls calls;
  const Find find = find_by(way);
  void* found = nullptr;
#define SPILLWAY_FIND(field, symbol, since, parameters) \
  found = find(#symbol, since);                         \
  if (found == nullptr) give_up(#symbol);               \
  calls.symbol = std::bit_cast<decltype(calls.symbol)>(found);
  SPILLWAY_CUDA_CALLS(SPILLWAY_FIND)
#undef SPILLWAY_FIND
#define SPILLWAY_FIND(symbol, since, parameters) \
  found = find(#symbol, since);                  \
  if (found == nullptr) give_up(#symbol);        \
  calls.symbol = std::bit_cast<decltype(calls.symbol)>(found);
  FAKE_PROGRAM_CALLS(SPILLWAY_FIND)
#undef SPILLWAY_FIND
#define SPILLWAY_CONTROL(name) \
  calls.name = std::bit_cast<decltype(calls.name)>(dlsym(library(), "fake_cuda_" #name));
  SPILLWAY_CONTROL(default_config)
  SPILLWAY_CONTROL(reset)
  SPILLWAY_CONTROL(change)
  SPILLWAY_CONTROL(register_kernel)
  SPILLWAY_CONTROL(kernel_of)
  SPILLWAY_CONTROL(violations)
  SPILLWAY_CONTROL(violation)
  SPILLWAY_CONTROL(counters)
  SPILLWAY_CONTROL(hold_stream)
  SPILLWAY_CONTROL(use_unseen)
  SPILLWAY_CONTROL(thread_opens_gates)
  SPILLWAY_CONTROL(set_attribute)
#undef SPILLWAY_CONTROL
  return calls;
}

}  // namespace spillway::cuda::test
