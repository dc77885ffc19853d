// Pointers of every allocation function, small and large, asked for their size, resized and given
// back through every function that may do so. Built for any allocator, preloaded or linked.
#include <dlfcn.h>
#include <malloc.h>

#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "stranger.h"

namespace {

constexpr std::size_t kSizes[] = {24, 5000, 300 << 10, 3 << 20, 20 << 20};
struct alignas(4096) Page {
  char bytes[4096];
};

void through_malloc(std::size_t bytes) {
  char* memory = static_cast<char*>(malloc(bytes));
  expect(memory != nullptr && malloc_usable_size(memory) >= bytes);
  fill(memory, bytes, bytes);
  memory = static_cast<char*>(realloc(memory, 2 * bytes));
  expect(memory != nullptr && malloc_usable_size(memory) >= 2 * bytes);
  expect(wrong(memory, bytes, bytes) == 0);
  memory = static_cast<char*>(realloc(memory, bytes / 3));
  expect(memory != nullptr && wrong(memory, bytes / 3, bytes) == 0);
  free(memory);
  memory = static_cast<char*>(calloc(bytes / 8, 8));
  expect(memory != nullptr && not_zero(memory, bytes / 8 * 8) == 0);
  free(memory);
  void* aligned = nullptr;
  expect(posix_memalign(&aligned, 4096, bytes) == 0);
  expect(reinterpret_cast<std::uintptr_t>(aligned) % 4096 == 0 &&
         malloc_usable_size(aligned) >= bytes);
  free(aligned);
  free(aligned_alloc(64, bytes / 64 * 64));
  free(memalign(256, bytes));
  free(strdup(std::string(bytes, 'x').c_str()));
}

void through_new(std::size_t bytes) {
  for (int round = 0; round < 3; ++round) {
    std::vector<std::uint64_t> words(bytes / 8);
    fill(words.data(), bytes / 8 * 8, bytes);
    std::vector<std::uint64_t> more(words);
    words.resize(words.size() * 2);
    expect(wrong(more.data(), bytes / 8 * 8, bytes) == 0 &&
           wrong(words.data(), bytes / 8 * 8, bytes) == 0);
    auto pages = std::make_unique<Page[]>(bytes / sizeof(Page) + 1);
    expect(reinterpret_cast<std::uintptr_t>(pages.get()) % 4096 == 0);
    char* const maybe = new (std::nothrow) char[bytes];
    expect(maybe != nullptr && malloc_usable_size(maybe) >= bytes);
    delete[] maybe;
  }
}

template <typename Function>
Function* named(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

void* filled(std::size_t bytes) {
  void* const memory = malloc(bytes);
  expect(memory != nullptr);
  fill(memory, bytes, bytes);
  return memory;
}

// What jemalloc documents for pointers of malloc.
void through_jemalloc(std::size_t bytes) {
  if (named<void*(std::size_t, int)>("mallocx") == nullptr) return;
  const auto resize = named<void*(void*, std::size_t, int)>("rallocx");
  const auto size = named<std::size_t(const void*, int)>("sallocx");
  constexpr int kAlign = 12;  // 4096
  constexpr int kZero = 0x40;
  void* memory = filled(bytes);
  expect(size(memory, 0) >= bytes);
  const std::size_t in_place = named<std::size_t(void*, std::size_t, std::size_t, int)>("xallocx")(
      memory, bytes + 4096, 4096, 0);
  expect(in_place >= bytes && size(memory, 0) == in_place);
  const std::size_t before = size(memory, 0);
  memory = resize(memory, 4 * bytes, kZero | kAlign);
  expect(memory != nullptr && reinterpret_cast<std::uintptr_t>(memory) % 4096 == 0);
  expect(wrong(memory, bytes, bytes) == 0 && size(memory, 0) >= 4 * bytes);
  const std::size_t from = (before + 7) / 8 * 8;
  expect(from >= 4 * bytes / 8 * 8 ||
         not_zero(static_cast<char*>(memory) + from, 4 * bytes - from) == 0);
  memory = resize(memory, bytes / 5, 0);
  expect(memory != nullptr && wrong(memory, bytes / 5, bytes) == 0);
  named<void(void*, std::size_t, int)>("sdallocx")(memory, bytes / 5, 0);
  named<void(void*, int)>("dallocx")(filled(bytes), 0);
  named<void(void*, std::size_t, int)>("sdallocx")(operator new(bytes), bytes, 0);
}

// Likewise tcmalloc.
void through_tcmalloc(std::size_t bytes) {
  if (named<void*(std::size_t)>("tc_malloc") == nullptr) return;
  const auto give_back = named<void(void*)>("tc_free");
  void* memory = filled(bytes);
  expect(named<std::size_t(void*)>("tc_malloc_size")(memory) >= bytes);
  memory = named<void*(void*, std::size_t)>("tc_realloc")(memory, 2 * bytes);
  expect(memory != nullptr && wrong(memory, bytes, bytes) == 0);
  give_back(memory);
  give_back(named<void*(std::size_t)>("tc_malloc")(bytes));
  free(named<void*(std::size_t)>("tc_malloc")(bytes));
  named<void(void*, std::size_t)>("tc_free_sized")(filled(bytes), bytes);
  named<void(void*)>("tc_delete")(operator new(bytes));
  named<void(void*)>("tc_deletearray")(operator new[](bytes));
  named<void(void*, std::size_t)>("tc_delete_sized")(operator new(bytes), bytes);
}

// C23's, where somebody has them.
void through_sizes(std::size_t bytes) {
  const auto sized = named<void(void*, std::size_t)>("free_sized");
  const auto aligned = named<void(void*, std::size_t, std::size_t)>("free_aligned_sized");
  if (sized != nullptr) sized(filled(bytes), bytes);
  if (aligned != nullptr)
    aligned(aligned_alloc(4096, bytes / 4096 * 4096), 4096, bytes / 4096 * 4096);
}

}  // namespace

int main() {
  for (const std::size_t bytes : kSizes) {
    through_malloc(bytes);
    through_new(bytes);
    through_jemalloc(bytes);
    through_tcmalloc(bytes);
    through_sizes(bytes);
  }
  try {
    operator delete(operator new(std::size_t{1} << 60U));
    expect(false);
  } catch (const std::bad_alloc&) {
  }
  std::vector<std::vector<std::uint64_t>> all;
  for (std::uint64_t i = 0; i < 24; ++i) {
    all.emplace_back((4 << 20) / 8);
    fill(all.back().data(), 4 << 20, i);
  }
  for (std::uint64_t i = 0; i < 24; ++i) expect(wrong(all[i].data(), 4 << 20, i) == 0);
  puts("all there");
  return 0;
}
