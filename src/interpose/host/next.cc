// See next.h.
#include "interpose/host/next.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace spillway::preload {
namespace {

// --- While the next allocator is being found
// ------------------------------------------------------

constexpr std::size_t kStoreBytes = std::size_t{64} << 10U;
alignas(std::max_align_t) std::array<char, kStoreBytes> store;
std::atomic<std::size_t> store_used{0};

// A piece has its size before it.
void* store_piece(std::size_t bytes, std::size_t alignment) {
  constexpr std::size_t kLeast = alignof(std::max_align_t);
  alignment = std::max(alignment, kLeast);
  const std::size_t room = bytes + alignment + kLeast;
  const std::size_t from = store_used.fetch_add((room + kLeast - 1) / kLeast * kLeast);
  if (bytes > kStoreBytes || from + room > kStoreBytes) {
    errno = ENOMEM;
    return nullptr;
  }
  auto at = reinterpret_cast<std::uintptr_t>(store.data() + from) + kLeast;  // NOLINT
  at = (at + alignment - 1) / alignment * alignment;
  auto* const piece = reinterpret_cast<char*>(at);  // NOLINT
  std::memcpy(piece - kLeast, &bytes, sizeof(bytes));
  return piece;
}

bool in_store(const void* start) {
  return start >= store.data() && start < store.data() + store.size();
}

std::size_t piece_bytes(const void* piece) {
  std::size_t bytes = 0;
  std::memcpy(&bytes, static_cast<const char*>(piece) - alignof(std::max_align_t), sizeof(bytes));
  return bytes;
}

// The store is zeros, and no piece is given twice.
constexpr NextAllocator kFromStore{
    .malloc = [](std::size_t bytes) { return store_piece(bytes, 1); },
    .free = [](void* /*start*/) {},
    .calloc = [](std::size_t count, std::size_t bytes) { return store_piece(count * bytes, 1); },
    .realloc =
        [](void* start, std::size_t bytes) {
          void* const piece = store_piece(bytes, 1);
          if (piece != nullptr && start != nullptr) {
            std::memcpy(piece, start, std::min(bytes, piece_bytes(start)));
          }
          return piece;
        },
    .memalign = [](std::size_t alignment,
                   std::size_t bytes) { return store_piece(bytes, alignment); },
    .aligned_alloc = [](std::size_t alignment,
                        std::size_t bytes) { return store_piece(bytes, alignment); },
    .posix_memalign =
        [](void** start, std::size_t alignment, std::size_t bytes) {
          *start = store_piece(bytes, alignment);
          return *start == nullptr ? ENOMEM : 0;
        },
    .malloc_usable_size = [](void* start) { return piece_bytes(start); },
};

// --- The one that is found
// ------------------------------------------------------------------------

NextAllocator found;

// The next allocator with those few pieces taken out.
constexpr NextAllocator kNext{
    .malloc = [](std::size_t bytes) { return found.malloc(bytes); },
    .free =
        [](void* start) {
          if (!in_store(start)) {
            found.free(start);
          }
        },
    .calloc = [](std::size_t count, std::size_t bytes) { return found.calloc(count, bytes); },
    .realloc =
        [](void* start, std::size_t bytes) {
          if (!in_store(start)) {
            return found.realloc(start, bytes);
          }
          void* const moved = found.malloc(bytes);
          if (moved != nullptr) {
            std::memcpy(moved, start, std::min(bytes, piece_bytes(start)));
          }
          return moved;
        },
    .memalign = [](std::size_t alignment,
                   std::size_t bytes) { return found.memalign(alignment, bytes); },
    .aligned_alloc = [](std::size_t alignment,
                        std::size_t bytes) { return found.aligned_alloc(alignment, bytes); },
    .posix_memalign =
        [](void** start, std::size_t alignment, std::size_t bytes) {
          return found.posix_memalign(start, alignment, bytes);
        },
    .malloc_usable_size =
        [](void* start) {
          return in_store(start) ? piece_bytes(start) : found.malloc_usable_size(start);
        },
};

enum class Stage : std::uint8_t { kBefore, kFinding, kFound };
std::atomic<Stage> stage{Stage::kBefore};

template <typename Function>
void find(Function& function, const char* name) {
  function = reinterpret_cast<Function>(next_function(name));  // NOLINT: as dlsym has it
}

// --- What is found early
// ----------------------------------------------------------------------------

struct Early {
  const char* name = nullptr;
  std::atomic<void*> function{nullptr};
};
// Of the libraries that the program begins with; what may come later is not among them.
std::array<Early, 28> early{{{"posix_madvise"},
                             {"ioctl"},
                             {"vmsplice"},
                             {"setsockopt"},
                             {"io_uring_queue_init"},
                             {"io_uring_queue_init_params"},
                             {"io_uring_setup"},
                             {"_exit"},
                             {"quick_exit"},
                             {"execve"},
                             {"fexecve"},
                             {"execv"},
                             {"execvp"},
                             {"execvpe"},
                             {"close"},
                             {"dup2"},
                             {"dup3"},
                             {"open"},
                             {"open64"},
                             {"openat"},
                             {"openat64"},
                             {"__open_2"},
                             {"__open64_2"},
                             {"__openat_2"},
                             {"__openat64_2"},
                             {"fcntl"},
                             {"fcntl64"},
                             {"socket"}}};

// Of libraries that the program has loaded for some of it only, as Python does for modules: whoever
// calls us from there is not behind us for RTLD_NEXT.
void* in_own_scope(const char* name) {
  for (const char* const library : {"libstdc++.so.6", "liburing.so.2", "liburing.so.1"}) {
    // It stays loaded: its functions are kept.
    if (void* const handle = ::dlopen(library, RTLD_LAZY | RTLD_NOLOAD)) {
      if (void* const function = ::dlsym(handle, name)) {
        return function;
      }
    }
  }
  return nullptr;
}

// --- Who is an allocator
// --------------------------------------------------------------------------

struct CodeRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};
// Written once, before any other thread looks.
std::array<CodeRange, 8> allocators;
std::size_t allocator_ranges = 0;

std::uintptr_t number_of(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address);  // NOLINT: as the dynamic linker has it
}

// Adds the code of the object in which this address lies.
int add_ranges(dl_phdr_info* object, std::size_t /*bytes*/, void* wanted) {
  const std::uintptr_t address = number_of(wanted);
  const auto* const headers = object->dlpi_phdr;
  const auto range_of = [&](const ElfW(Phdr) & header) {
    const std::uintptr_t begin = object->dlpi_addr + header.p_vaddr;
    return CodeRange{.begin = begin, .end = begin + header.p_memsz};
  };
  const auto holds = [&](const ElfW(Phdr) & header) {
    const CodeRange range = range_of(header);
    return header.p_type == PT_LOAD && address >= range.begin && address < range.end;
  };
  if (std::none_of(headers, headers + object->dlpi_phnum, holds)) {
    return 0;
  }
  for (const auto* header = headers; header != headers + object->dlpi_phnum; ++header) {
    const bool code = header->p_type == PT_LOAD && (header->p_flags & PF_X) != 0;
    if (code && allocator_ranges < allocators.size()) {
      allocators[allocator_ranges++] = range_of(*header);
    }
  }
  return 1;
}

const void* object_of(const void* code) {
  Dl_info about{};
  return code != nullptr && ::dladdr(code, &about) != 0 ? about.dli_fbase : nullptr;
}

}  // namespace

const NextAllocator& next_allocator() {
  Stage now = stage.load(std::memory_order_acquire);
  if (now == Stage::kBefore && stage.compare_exchange_strong(now, Stage::kFinding)) {
    find(found.malloc, "malloc");
    find(found.free, "free");
    find(found.calloc, "calloc");
    find(found.realloc, "realloc");
    find(found.memalign, "memalign");
    find(found.aligned_alloc, "aligned_alloc");
    find(found.posix_memalign, "posix_memalign");
    find(found.malloc_usable_size, "malloc_usable_size");
    stage.store(now = Stage::kFound, std::memory_order_release);
  }
  return now == Stage::kFound ? kNext : kFromStore;
}

void* next_function(const char* name) {
  for (const Early& one : early) {
    if (std::strcmp(one.name, name) == 0) {
      if (void* const function = one.function.load(std::memory_order_acquire)) {
        return function;
      }
    }
  }
  void* const function = ::dlsym(RTLD_NEXT, name);
  return function != nullptr ? function : in_own_scope(name);
}

void find_next_functions() {
  static std::atomic<bool> begun{false};
  if (!begun.exchange(true)) {
    for (Early& one : early) {
      one.function.store(::dlsym(RTLD_NEXT, one.name), std::memory_order_release);
    }
  }
}

void look_for_allocators() {
  static std::atomic<bool> begun{false};
  if (begun.exchange(true)) {
    return;
  }
  // NOLINTBEGIN(*-reinterpret-cast): functions as the dynamic linker has them
  const void* const ours = object_of(reinterpret_cast<const void*>(&in_allocator));
  const void* const library = object_of(reinterpret_cast<const void*>(&gnu_get_libc_version));
  // NOLINTEND(*-reinterpret-cast)
  for (void* const code : {::dlsym(RTLD_DEFAULT, "malloc"), next_function("malloc")}) {
    const void* const object = object_of(code);
    if (object != nullptr && object != ours && object != library && !in_allocator(code)) {
      ::dl_iterate_phdr(add_ranges, code);
    }
  }
}

bool in_allocator(const void* code) {
  const std::uintptr_t at = number_of(code);
  return std::any_of(allocators.begin(), allocators.begin() + allocator_ranges,
                     [&](const CodeRange& range) { return at >= range.begin && at < range.end; });
}

}  // namespace spillway::preload
