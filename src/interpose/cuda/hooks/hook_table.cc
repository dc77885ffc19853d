// See hook_table.h.
#include "interpose/cuda/hooks/hook_table.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "interpose/cuda/real_symbols.h"
#include "platform/common/process/say.h"

// The hooks, which are what the symbols mean to a program that is linked against the driver.
extern "C" {
#define SPILLWAY_DECLARE(symbol, parameters) spillway::cuda::CuResult symbol parameters;
namespace spillway::cuda {
SPILLWAY_HOOKED_CALLS(SPILLWAY_DECLARE)
}
#undef SPILLWAY_DECLARE
}

namespace spillway::cuda {
namespace detail {

constinit RealCalls real_calls;
constinit std::atomic<bool> real_calls_found{false};

}  // namespace detail
namespace {

struct Hook {
  std::string_view symbol;
  void* function;  // ours
  void** real;
};

// NOLINTBEGIN(bugprone-macro-parentheses): a name, and a sum
#define SPILLWAY_HOOK(symbol, parameters)         \
  Hook{#symbol, reinterpret_cast<void*>(&symbol), \
       reinterpret_cast<void**>(&detail::real_calls.symbol)},
// Not a constant: addresses of functions are the loader's. In the order of the list.
Hook* hooks() {
  static Hook all[] = {SPILLWAY_HOOKED_CALLS(SPILLWAY_HOOK)};
  return all;
}
#undef SPILLWAY_HOOK

constexpr std::size_t kHooks = 0
#define SPILLWAY_COUNT(symbol, parameters) +1
    SPILLWAY_HOOKED_CALLS(SPILLWAY_COUNT)
#undef SPILLWAY_COUNT
    ;
// NOLINTEND(bugprone-macro-parentheses)

// Without what tells the version and the meaning of stream 0, as cuGetProcAddress wants it.
constexpr std::string_view base_name(std::string_view symbol) {
  if (symbol.ends_with("_ptsz") || symbol.ends_with("_ptds")) {
    symbol.remove_suffix(5);
  }
  if (symbol.size() > 3 && symbol.substr(symbol.size() - 3, 2) == "_v") {
    symbol.remove_suffix(3);
  }
  return symbol;
}

constexpr std::array<std::string_view, kHooks> kNames = [] {
  std::array<std::string_view, kHooks> names{
#define SPILLWAY_NAME(symbol, parameters) base_name(#symbol),
      SPILLWAY_HOOKED_CALLS(SPILLWAY_NAME)
#undef SPILLWAY_NAME
  };
  std::sort(names.begin(), names.end());
  return names;
}();

// By the driver's address; filled once, read by all.
struct Replacement {
  const void* real;
  void* hook;
};
std::array<Replacement, kHooks> by_address;
std::size_t replacements = 0;
std::recursive_mutex finding;  // opening the library may ask for symbols

CuResult missing_call() { return CuResult::kNotFound; }

// What the program has opened by this name is found again, wherever it came from.
void* open_library() {
  const char* const named = std::getenv(kDriverVariable);
  const char* const file = named != nullptr && *named != '\0' ? named : "libcuda.so.1";
  void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = ::dlerror();
    end_run(fmt::format("no NVIDIA driver: {}", reason != nullptr ? reason : file));
  }
  return library;
}

}  // namespace

void detail::find_real_calls() {
  const std::scoped_lock lock(finding);
  if (real_calls_found.load(std::memory_order_acquire)) {
    return;
  }
  void* const library = open_library();
  const FindSymbolCall find = real_dlsym();
  for (std::size_t i = 0; i < kHooks; ++i) {
    const Hook& hook = hooks()[i];
    void* const found = find(library, hook.symbol.data());
    *hook.real = found != nullptr ? found : reinterpret_cast<void*>(&missing_call);
    if (found != nullptr) {
      by_address[replacements++] = {.real = found, .hook = hook.function};
    }
  }
  // The first of several names of one function counts.
  std::stable_sort(by_address.begin(),
                   by_address.begin() + static_cast<std::ptrdiff_t>(replacements),
                   [](const auto& a, const auto& b) { return a.real < b.real; });
#define SPILLWAY_FIND(symbol, parameters)                                  \
  {                                                                        \
    void* const found = find(library, #symbol);                            \
    *reinterpret_cast<void**>(&real_calls.symbol) =                        \
        found != nullptr ? found : reinterpret_cast<void*>(&missing_call); \
  }
  SPILLWAY_ASKED_CALLS(SPILLWAY_FIND)
#undef SPILLWAY_FIND
  real_calls_found.store(true, std::memory_order_release);
}

bool hooked_name(std::string_view name) {
  return name.starts_with("cu") &&
         std::binary_search(kNames.begin(), kNames.end(), base_name(name));
}

void* hook_of(const void* real_function) {
  (void)real();
  const auto* const end = by_address.data() + replacements;
  const auto* const found = std::lower_bound(
      static_cast<const Replacement*>(by_address.data()), end, real_function,
      [](const Replacement& it, const void* address) { return it.real < address; });
  return found != end && found->real == real_function ? found->hook : nullptr;
}

void* hook_of_symbol(std::string_view symbol) {
  (void)real();
  for (std::size_t i = 0; i < kHooks; ++i) {
    const Hook& hook = hooks()[i];
    if (hook.symbol == symbol) {
      return *hook.real == reinterpret_cast<void*>(&missing_call) ? nullptr : hook.function;
    }
  }
  return nullptr;
}

}  // namespace spillway::cuda
