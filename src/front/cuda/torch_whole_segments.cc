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

// In MiB. Requests of at least `most divided` have segments for themselves. Those of 1 to 10 MiB
// share segments of one size, which must be above 10, and below the other if what is freed in them
// is to be used again.
constexpr const char* kMostDivided = "12";
constexpr const char* kSharedSegment = "11";
// Where the size of shared segments cannot be set: above the one they have.
constexpr const char* kMostDividedByDefault = "21";
// PyTorch's defaults: more than any device has, and 20.
constexpr const char* kAnything = "2000000000";
constexpr const char* kSharedByDefault = "20";

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

using Words = std::vector<std::string>;  // c10::CachingAllocator::ConfigTokenizer has no more

#define SPILLWAY_CONFIG "_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig"
#define SPILLWAY_PARAMETERS "ERKNS0_15ConfigTokenizerEm"

// The allocator's configuration, which takes a key as PyTorch reads it of its variable, and without
// a look at what else stands there.
class Config {
 public:
  explicit Config(const void* caller)
      // Until PyTorch 2.9.
      : most_divided_(torch_function<Parse>(
            "_ZN3c104cuda20CUDACachingAllocator19CUDAAllocatorConfig17parseMaxSplitSizeERK"
            "St6vectorINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESaIS9_EEm",
            caller)) {
    if (most_divided_ != nullptr) {
      auto* const instance = torch_function<void**>(
          "_ZZN3c104cuda20CUDACachingAllocator19CUDAAllocatorConfig8instanceEvE10s_instance",
          caller);
      config_ = instance != nullptr ? *instance : nullptr;
      return;
    }
    most_divided_ =
        torch_function<Parse>(SPILLWAY_CONFIG "17parseMaxSplitSize" SPILLWAY_PARAMETERS, caller);
    shared_ = torch_function<Parse>(SPILLWAY_CONFIG "21parseLargeSegmentSize" SPILLWAY_PARAMETERS,
                                    caller);
    auto* const instance = torch_function<void* (*)()>(SPILLWAY_CONFIG "8instanceEv", caller);
    config_ = instance != nullptr ? instance() : nullptr;
  }

  [[nodiscard]] bool sets_shared() const { return shared_ != nullptr; }
  void set_most_divided(const char* mib) const { set(most_divided_, "max_split_size_mb", mib); }
  void set_shared(const char* mib) const { set(shared_, "large_segment_size_mb", mib); }

 private:
  using Parse = std::size_t (*)(void* config, const Words& words, std::size_t at);
  void set(Parse parse, const char* key, const char* mib) const {
    if (parse != nullptr && config_ != nullptr) {
      (void)parse(config_, {key, ":", mib}, 0);
    }
  }

  Parse most_divided_;
  Parse shared_ = nullptr;
  void* config_ = nullptr;
};

#undef SPILLWAY_CONFIG
#undef SPILLWAY_PARAMETERS

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
    const Config config(caller);
    config.set_shared(kSharedSegment);  // first: the other must not be below it
    config.set_most_divided(config.sets_shared() ? kMostDivided : kMostDividedByDefault);
    whole = true;
  }
}

void divide_again() {
  const std::scoped_lock lock(setting);
  if (whole) {
    const Config config(torch_caller.load(std::memory_order_acquire));
    config.set_most_divided(kAnything);
    config.set_shared(kSharedByDefault);
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
