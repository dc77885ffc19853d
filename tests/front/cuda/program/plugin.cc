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

// What PyTorch's allocator divides, and the segments that what is smaller shares, in MiB.
namespace {
using Words = std::vector<std::string>;
std::string most_divided_mib = "all";
std::string shared_mib = "20";
}  // namespace

#ifdef SPILLWAY_NEWER_TORCH

// As versions since 2.10 set it.
#define CONFIG "_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig"
#define PARAMETERS "ERKNS0_15ConfigTokenizerEm"

extern "C" {
std::size_t parse_most_divided(void* config, const Words& words,
                               std::size_t at) asm(CONFIG "17parseMaxSplitSize" PARAMETERS);
std::size_t parse_shared(void* config, const Words& words,
                         std::size_t at) asm(CONFIG "21parseLargeSegmentSize" PARAMETERS);
void* allocator_config() asm(CONFIG "8instanceEv");

// PyTorch refuses what is below the other by an exception.
std::size_t parse_most_divided(void* config, const Words& words, std::size_t at) {
  const bool right = config == &most_divided_mib && words.at(at) == "max_split_size_mb" &&
                     std::stoul(words.at(at + 2)) >= std::stoul(shared_mib);
  most_divided_mib = right ? words.at(at + 2) : "refused";
  return at + 2;
}
std::size_t parse_shared(void* config, const Words& words, std::size_t at) {
  const bool right = config == &most_divided_mib && words.at(at) == "large_segment_size_mb" &&
                     std::stoul(words.at(at + 2)) > 10;
  shared_mib = right ? words.at(at + 2) : "refused";
  return at + 2;
}
void* allocator_config() { return &most_divided_mib; }
}

#else

// As versions until 2.9 set it.
extern "C" {
std::size_t parse_most_divided(void* config, const Words& words, std::size_t at) asm(
    "_ZN3c104cuda20CUDACachingAllocator19CUDAAllocatorConfig17parseMaxSplitSizeERK"
    "St6vectorINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESaIS9_EEm");
std::size_t parse_most_divided(void* /*config*/, const Words& words, std::size_t at) {
  most_divided_mib = words.at(at + 2);
  return at + 2;
}
extern void* allocator_config asm(
    "_ZZN3c104cuda20CUDACachingAllocator19CUDAAllocatorConfig8instanceEvE10s_instance");
void* allocator_config = &most_divided_mib;
}

#endif

extern "C" const char* most_divided() { return most_divided_mib.c_str(); }
extern "C" const char* shared_segment() { return shared_mib.c_str(); }
