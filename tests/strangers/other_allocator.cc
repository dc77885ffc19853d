// Pointers of every allocation function, small and large, asked for their size, resized and given
// back through every function that may do so. Built for any allocator, preloaded or linked.
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

}  // namespace

int main() {
  for (const std::size_t bytes : kSizes) {
    through_malloc(bytes);
    through_new(bytes);
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
