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

namespace {

using Words = std::vector<std::string>;
constexpr std::size_t kMiB = std::size_t{1} << 20U;

// As PyTorch's allocator is set; `most_divided` is the first where there is nothing else.
struct Config {
  std::size_t shared_bytes = 20 * kMiB;
  std::size_t most_divided_bytes = 2'000'000'000 * kMiB;
  std::size_t rounding_bytes = 20 * kMiB;
} torch_config;

std::size_t set(std::size_t& bytes, const Words& words, std::size_t at) {
  bytes = std::stoul(words.at(at + 2)) * kMiB;
  return at + 2;
}

const char* mib(std::size_t bytes) {
  static std::string text;
  text = std::to_string(bytes / kMiB);
  return text.c_str();
}

}  // namespace

#ifdef SPILLWAY_NEWER_TORCH

// As versions since 2.10 set it. What PyTorch refuses ends the program.
#define CONFIG "_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig"
#define PARAMETERS "ERKNS0_15ConfigTokenizerEm"

extern "C" {
std::size_t parse_most_divided(Config* config, const Words& words,
                               std::size_t at) asm(CONFIG "17parseMaxSplitSize" PARAMETERS);
std::size_t parse_shared(Config* config, const Words& words,
                         std::size_t at) asm(CONFIG "21parseLargeSegmentSize" PARAMETERS);
std::size_t parse_rounding(Config* config, const Words& words,
                           std::size_t at) asm(CONFIG "28parseMaxNonSplitRoundingSize" PARAMETERS);
Config* allocator_config() asm(CONFIG "8instanceEv");

std::size_t parse_most_divided(Config* config, const Words& words, std::size_t at) {
  const std::size_t end = set(config->most_divided_bytes, words, at);
  return config->most_divided_bytes < config->shared_bytes ? throw 1 : end;
}
std::size_t parse_shared(Config* config, const Words& words, std::size_t at) {
  const std::size_t end = set(config->shared_bytes, words, at);
  return config->shared_bytes <= 10 * kMiB ? throw 1 : end;
}
std::size_t parse_rounding(Config* config, const Words& words, std::size_t at) {
  const std::size_t end = set(config->rounding_bytes, words, at);
  return config->rounding_bytes < config->shared_bytes ? throw 1 : end;
}
Config* allocator_config() { return &torch_config; }
}

#else

// As versions until 2.9 set it.
extern "C" {
std::size_t parse_most_divided(Config* config, const Words& words, std::size_t at) asm(
    "_ZN3c104cuda20CUDACachingAllocator19CUDAAllocatorConfig17parseMaxSplitSizeERK"
    "St6vectorINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESaIS9_EEm");
std::size_t parse_most_divided(Config* config, const Words& words, std::size_t at) {
  return set(config->most_divided_bytes, words, at);
}
extern Config* allocator_config asm(
    "_ZZN3c104cuda20CUDACachingAllocator19CUDAAllocatorConfig8instanceEvE10s_instance");
Config* allocator_config = &torch_config;
}

#endif

extern "C" {
const char* most_divided() { return mib(torch_config.most_divided_bytes); }
const char* shared_segment() { return mib(torch_config.shared_bytes); }
const char* rounding() { return mib(torch_config.rounding_bytes); }
}
