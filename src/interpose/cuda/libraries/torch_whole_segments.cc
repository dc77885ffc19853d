// See torch_whole_segments.h.
#include "interpose/cuda/libraries/torch_whole_segments.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/units.h"
#include "interpose/cuda/libraries/torch_functions.h"

namespace spillway::cuda {
namespace {

// How PyTorch divides. A request of `most_divided` or more has a segment for itself, less than
// `rounding` larger than it. Requests of 1 to 10 MiB lie in segments of `shared`, which is below
// the first, so that what is freed in one is used again. `most_divided_alone` is the first where
// the other two cannot be set.
struct Divided {
  const char* most_divided_mib;
  const char* most_divided_alone_mib;
  Bytes shared_bytes;
  Bytes rounding_bytes;
};
constexpr Divided kWhole = {"11", "21", 10 * kMiB, 4 * kMiB};
// PyTorch's defaults; the first is more than any device has.
constexpr Divided kByDefault = {"2000000000", "2000000000", 20 * kMiB, 20 * kMiB};

enum class Watch { kNone, kFractions, kEnded };
std::atomic<Watch> watch{Watch::kNone};

Mutex setting;
bool whole SPILLWAY_GUARDED_BY(setting) = false;

// A user who has set a limit within which allocations are refused without a call of the driver, or
// under which several threads are within one, counts as well (divide_again).
bool user_says_how() {
  for (const char* const name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) {
    const char* const set = std::getenv(name);
    for (const char* const key :
         {"max_split_size_mb", "large_segment_size_mb", "max_non_split_rounding_mb",
          "per_process_memory_fraction", "release_lock_on_cudamalloc"}) {
      if (set != nullptr && std::strstr(set, key) != nullptr) {
        return true;
      }
    }
  }
  return false;
}

using Words = std::vector<std::string>;  // c10::CachingAllocator::ConfigTokenizer has no more
// One of PyTorch's parsers: reads a word of its variable into its configuration, without a look at
// what else stands there.
using Parse = std::size_t (*)(void* config, const Words& words, std::size_t at);

void parse_most_divided(Parse parse, void* config, const char* mib) {
  (void)parse(config, {"max_split_size_mb", ":", mib}, 0);
}

// Until PyTorch 2.9. False: it is newer.
bool set_in_cuda(const Divided& divided, const void* caller) {
  auto* const parse = torch_function<Parse>(
      "_ZN3c104cuda20CUDACachingAllocator19CUDAAllocatorConfig17parseMaxSplitSizeERK"
      "St6vectorINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESaIS9_EEm",
      caller);
  auto* const config = torch_function<void**>(
      "_ZZN3c104cuda20CUDACachingAllocator19CUDAAllocatorConfig8instanceEvE10s_instance", caller);
  if (parse != nullptr && config != nullptr && *config != nullptr) {
    parse_most_divided(parse, *config, divided.most_divided_alone_mib);
  }
  return parse != nullptr;
}

#define SPILLWAY_CONFIG "_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig"
#define SPILLWAY_PARAMETERS "ERKNS0_15ConfigTokenizerEm"

// The words of the configuration that hold the other two sizes. PyTorch's parsers refuse sizes as
// small as ours, with which its allocator works. So each parser gets memory of ours to write into:
// where it writes, its word lies in the configuration. nullptr: it wrote something else.
class SizeWords {
 public:
  SizeWords(void* config, const void* caller)
      : shared_(word(config, caller, SPILLWAY_CONFIG "21parseLargeSegmentSize" SPILLWAY_PARAMETERS,
                     "large_segment_size_mb")),
        rounding_(word(config, caller,
                       SPILLWAY_CONFIG "28parseMaxNonSplitRoundingSize" SPILLWAY_PARAMETERS,
                       "max_non_split_rounding_mb")) {}

  [[nodiscard]] bool hold(const Divided& divided) const {
    return shared_ != nullptr && rounding_ != nullptr &&
           std::atomic_ref(*shared_).load() == divided.shared_bytes &&
           std::atomic_ref(*rounding_).load() == divided.rounding_bytes;
  }
  void set(const Divided& divided) const {
    std::atomic_ref(*shared_).store(divided.shared_bytes);
    std::atomic_ref(*rounding_).store(divided.rounding_bytes);
  }

 private:
  static std::size_t* word(void* config, const void* caller, const char* name, const char* key) {
    constexpr std::size_t kShownMib = 23;
    auto* const parse = torch_function<Parse>(name, caller);
    if (parse == nullptr) {
      return nullptr;
    }
    alignas(64) std::array<std::size_t, 512> shown{};
    (void)parse(shown.data(), {key, ":", std::to_string(kShownMib)}, 0);
    const auto written = [](std::size_t it) { return it != 0; };
    const auto found = std::find_if(shown.begin(), shown.end(), written);
    if (found == shown.end() || *found != kShownMib * kMiB ||
        std::any_of(found + 1, shown.end(), written)) {
      return nullptr;
    }
    return static_cast<std::size_t*>(config) + (found - shown.begin());
  }

  std::size_t* shared_;
  std::size_t* rounding_;
};

void set(const Divided& divided, const Divided& before, const void* caller) {
  if (set_in_cuda(divided, caller)) {
    return;
  }
  auto* const parse =
      torch_function<Parse>(SPILLWAY_CONFIG "17parseMaxSplitSize" SPILLWAY_PARAMETERS, caller);
  auto* const instance = torch_function<void* (*)()>(SPILLWAY_CONFIG "8instanceEv", caller);
  if (parse == nullptr || instance == nullptr) {
    return;
  }
  void* const config = instance();
  const SizeWords words(config, caller);
  if (!words.hold(before)) {
    parse_most_divided(parse, config, divided.most_divided_alone_mib);
    return;
  }
  words.set(divided);  // first: the parser takes nothing below them
  parse_most_divided(parse, config, divided.most_divided_mib);
}

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
  const MutexLock lock(setting);
  // A limit may have been set meanwhile.
  if (!whole && watch.load() == Watch::kFractions && !user_says_how()) {
    set(kWhole, kByDefault, caller);
    whole = true;
  }
}

void divide_again() {
  const MutexLock lock(setting);
  if (whole) {
    set(kByDefault, kWhole, torch_caller.load(std::memory_order_acquire));
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
