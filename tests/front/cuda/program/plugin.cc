// A part of a program that is loaded later and finds the driver by itself. Test program.
#include <dlfcn.h>

#include <cstddef>
#include <string>
#include <vector>

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

// What PyTorch's allocator divides, as versions until 2.9 set it.
namespace {
std::string most_divided_mib = "all";
}

extern "C" std::size_t
parse_most_divided(void* config, const std::vector<std::string>& words, std::size_t at) asm(
    "_ZN3c104cuda20CUDACachingAllocator19CUDAAllocatorConfig17parseMaxSplitSizeERK"
    "St6vectorINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESaIS9_EEm");
extern "C" std::size_t parse_most_divided(void* /*config*/, const std::vector<std::string>& words,
                                          std::size_t at) {
  most_divided_mib = words.at(at + 2);
  return at + 2;
}

extern "C" {
extern void* allocator_config asm(
    "_ZZN3c104cuda20CUDACachingAllocator19CUDAAllocatorConfig8instanceEvE10s_instance");
void* allocator_config = &most_divided_mib;

const char* most_divided() { return most_divided_mib.c_str(); }
}
