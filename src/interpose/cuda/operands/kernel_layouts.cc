// See kernel_layouts.h.
#include "interpose/cuda/operands/kernel_layouts.h"

#include <cxxabi.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>

#include "base/mutex.h"
#include "base/spread.h"
#include "interpose/cuda/hooks/hook_table.h"
#include "interpose/cuda/libraries/library_functions.h"
#include "interpose/cuda/operands/registered_kernels.h"
#include "platform/common/sparse_kernels.h"

namespace spillway::cuda {
namespace {

// Open addressing, entries only ever replaced as a whole. One that has been replaced is not given
// back, since somebody may be reading it: there are as many as a program unloads code.
constexpr int kSlotBits = 14;
constexpr std::size_t kSlots = std::size_t{1} << kSlotBits;
constexpr std::size_t kProbes = 16;
std::array<std::atomic<const KernelLayout*>, kSlots> slots;
std::atomic<std::uint64_t> generation{1};
Mutex adding;

std::size_t slot_of(const void* function) {
  return spread(reinterpret_cast<std::uintptr_t>(function), kSlotBits);
}

// Asked once, when the first such kernel is there: whoever has made it is loaded.
bool is_xlas(const char* name) {
  if (!may_be_of_xla(name)) {
    return false;
  }
  static const bool loaded = is_loaded("xla") || is_loaded("pjrt");
  return loaded;
}

// What the compiler's name for it says in C++.
std::string in_words(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return text != nullptr ? text.get() : name;
}

struct Reaching {
  Mutex mutex;
  std::string names SPILLWAY_GUARDED_BY(mutex);
  int count SPILLWAY_GUARDED_BY(mutex) = 0;
};
Reaching& reaching() {
  static auto* const all = new Reaching;  // threads of the program may run until the very end
  return *all;
}

void note_that_it_reaches(const std::string& name) {
  constexpr int kMostNames = 6;
  Reaching& here = reaching();
  const MutexLock lock(here.mutex);
  if (++here.count <= kMostNames) {
    here.names += (here.count > 1 ? ", " : "") + name;
  } else if (here.count == kMostNames + 1) {
    here.names += " and others";
  }
}

// As far as a line allows.
std::string shortened(std::string made) {
  constexpr std::size_t kMostCharacters = 100;
  if (made.starts_with("void ")) {
    made.erase(0, 5);
  }
  if (made.size() > kMostCharacters) {
    made.resize(kMostCharacters);
    made += "...";
  }
  return made;
}

// Where the parameters are not those of the source that we know, nothing is known.
bool fits(const ReadOnlyParameters& reads, const std::vector<KernelLayout::Parameter>& parameters) {
  if (reads.parameter >= parameters.size()) {
    return false;
  }
  const KernelLayout::Parameter& array = parameters[reads.parameter];
  return array.bytes == reads.pointers * sizeof(std::uint64_t) &&
         array.offset % sizeof(std::uint64_t) == 0;
}

std::unique_ptr<KernelLayout> ask(CuFunction function, std::uint64_t now) {
  auto layout = std::make_unique<KernelLayout>();
  layout->function = function;
  layout->generation = now;
  const auto kernel = reinterpret_cast<CuKernel>(function);  // it may be one
  KernelLayout::Parameter next;
  bool is_kernel = false;
  CuResult result = real().cuFuncGetParamInfo(function, 0, &next.offset, &next.bytes);
  const char* name = nullptr;
  const bool named = real().cuFuncGetName(&name, function) == CuResult::kSuccess && name != nullptr;
  // A function without parameters has a name, and is nothing to ask about a kernel with.
  if (!named || result == CuResult::kInvalidHandle) {
    const char* its_name = nullptr;
    is_kernel =
        real().cuKernelGetName(&its_name, kernel) == CuResult::kSuccess && its_name != nullptr;
    name = is_kernel ? its_name : name;
  }
  if (result != CuResult::kSuccess && is_kernel) {
    result = real().cuKernelGetParamInfo(kernel, 0, &next.offset, &next.bytes);
  }
  // A kernel without parameters has a name all the same.
  layout->known = result == CuResult::kSuccess || name != nullptr;
  while (result == CuResult::kSuccess) {
    layout->parameters.push_back(next);
    const std::size_t index = layout->parameters.size();
    result = is_kernel ? real().cuKernelGetParamInfo(kernel, index, &next.offset, &next.bytes)
                       : real().cuFuncGetParamInfo(function, index, &next.offset, &next.bytes);
  }
  const std::optional<ReadOnlyParameters> reads = known_reads(name != nullptr ? name : "");
  if (reads && fits(*reads, layout->parameters)) {
    layout->reads = *reads;
  }
  layout->roles =
      registered_roles(function, name != nullptr ? name : "", layout->parameters.size());
  const std::string words = in_words(name != nullptr ? name : "a kernel without a name");
  layout->addresses =
      address_use(name != nullptr ? name : "", words, {.xla = name != nullptr && is_xlas(name)});
  if (layout->addresses.values >= layout->parameters.size()) {
    layout->addresses = {};  // another kernel than the one that we know
  }
  layout->name = shortened(words);
  layout->sparse = uses_a_little(layout->name);
  layout->hash = hash_launch(name != nullptr ? name : "", {});
  if (layout->addresses.reaches) {
    note_that_it_reaches(layout->name);
  }
  return layout;
}

}  // namespace

const KernelLayout& kernel_layout(CuFunction function) {
  const std::size_t start = slot_of(function);
  const std::uint64_t now = generation.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < kProbes; ++i) {
    const KernelLayout* const there = slots[(start + i) % kSlots].load(std::memory_order_acquire);
    if (there == nullptr) {
      break;
    }
    if (there->function == function && there->generation == now) {
      return *there;
    }
  }
  std::unique_ptr<KernelLayout> made = ask(function, now);
  const MutexLock lock(adding);
  std::size_t place = start;
  for (std::size_t i = 0; i < kProbes; ++i) {
    place = (start + i) % kSlots;
    const KernelLayout* const there = slots[place].load(std::memory_order_acquire);
    if (there == nullptr || there->function == function || there->generation != now) {
      break;
    }
  }
  const KernelLayout* const kept = made.release();
  slots[place].store(kept, std::memory_order_release);
  return *kept;
}

std::string names_that_reach() {
  const MutexLock lock(reaching().mutex);
  return reaching().names;
}

void forget_kernel_layouts() { generation.fetch_add(1, std::memory_order_acq_rel); }

}  // namespace spillway::cuda
