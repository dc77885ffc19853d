// See torch_whole_segments.h.
#include "front/cuda/torch_whole_segments.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "front/cuda/torch_functions.h"

namespace spillway::cuda {
namespace {

// MiB: the least that PyTorch takes, and more than any device has.
constexpr const char* kLeast = "21";
constexpr const char* kAnything = "2000000000";

enum class Watch { kNone, kFractions, kEnded };
std::atomic<Watch> watch{Watch::kNone};

std::mutex setting;
bool whole = false;  // with its lock held

// A user who has set a limit within which allocations are refused without a call of the driver, or
// under which several threads are within one, counts as well (divide_again).
bool user_says_how() {
  for (const char* const name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) {
    const char* const set = std::getenv(name);
    for (const char* const key : {"max_split_size_mb", "large_segment_size_mb",
                                  "per_process_memory_fraction", "release_lock_on_cudamalloc"}) {
      if (set != nullptr && std::strstr(set, key) != nullptr) {
        return true;
      }
    }
  }
  return false;
}

// As PyTorch reads it of its variable, and without a look at what else stands there.
void set_most_divided(const char* mib, const void* caller) {
  using Words = std::vector<std::string>;  // c10::CachingAllocator::ConfigTokenizer has no more
  using Parse = std::size_t (*)(void* config, const Words& words, std::size_t at);
  const Words words = {"max_split_size_mb", ":", mib};
  // Until PyTorch 2.9.
  auto* parse = torch_function<Parse>(
      "_ZN3c104cuda20CUDACachingAllocator19CUDAAllocatorConfig17parseMaxSplitSizeERK"
      "St6vectorINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESaIS9_EEm",
      caller);
  void* config = nullptr;
  if (parse != nullptr) {
    auto* const instance = torch_function<void**>(
        "_ZZN3c104cuda20CUDACachingAllocator19CUDAAllocatorConfig8instanceEvE10s_instance", caller);
    config = instance != nullptr ? *instance : nullptr;
  } else {
    parse = torch_function<Parse>(
        "_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig17parseMaxSplitSizeERKNS0_"
        "15ConfigTokenizerEm",
        caller);
    auto* const instance = torch_function<void* (*)()>(
        "_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig8instanceEv", caller);
    config = instance != nullptr ? instance() : nullptr;
  }
  if (parse != nullptr && config != nullptr) {
    (void)parse(config, words, 0);
  }
}

}  // namespace

void prefer_whole_segments(const Session& session, Bytes bytes) {
  constexpr Bytes kWithinPart = 2;
  const void* const caller = torch_caller.load(std::memory_order_acquire);
  if (caller == nullptr || watch.load() != Watch::kFractions ||
      session.segments->bytes() + bytes <=
          session.platform->capacity_bytes(Tier::kDevice) / kWithinPart) {
    return;
  }
  const std::scoped_lock lock(setting);
  // A limit may have been set meanwhile.
  if (!whole && watch.load() == Watch::kFractions && !user_says_how()) {
    set_most_divided(kLeast, caller);
    whole = true;
  }
}

void divide_again() {
  const std::scoped_lock lock(setting);
  if (whole) {
    set_most_divided(kAnything, torch_caller.load(std::memory_order_acquire));
    whole = false;
  }
}

}  // namespace spillway::cuda

namespace cuda = spillway::cuda;

extern "C" {

// The script's own limits and settings are told of from now on (memory_fraction.py).
void spillway_watches_memory_fraction() { cuda::watch = cuda::Watch::kFractions; }

// It is about to set one: PyTorch refuses what is beyond a limit without a call of the driver, and
// keeps to what it was told of how it divides.
void spillway_memory_fraction() {
  cuda::watch = cuda::Watch::kEnded;
  cuda::divide_again();
}

}  // extern "C"
