// See real_symbols.h.
#include "interpose/cuda/real_symbols.h"

#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "platform/common/process/say.h"

namespace spillway::cuda {
namespace {

// The parts of a loaded library's dynamic section that a search for a symbol needs.
struct Symbols {
  const ElfW(Sym) * table = nullptr;
  const char* names = nullptr;
  const std::uint32_t* hashes = nullptr;  // DT_GNU_HASH
  const ElfW(Half) * versions = nullptr;

  [[nodiscard]] const void* find(std::string_view name, ElfW(Addr) base) const;
};

std::uint32_t hash_of(std::string_view name) {
  std::uint32_t hash = 5381;
  for (const char c : name) {
    hash = hash * 33 + static_cast<unsigned char>(c);
  }
  return hash;
}

// The layout is that of the GNU hash section: sizes, a Bloom filter, buckets, chains.
const void* Symbols::find(std::string_view name, ElfW(Addr) base) const {
  const std::uint32_t buckets = hashes[0];
  const std::uint32_t first = hashes[1];
  const std::uint32_t filter_words = hashes[2];
  const std::uint32_t* const bucket = hashes + 4 + filter_words * (sizeof(ElfW(Addr)) / 4);
  const std::uint32_t* const chain = bucket + buckets;
  const std::uint32_t wanted = hash_of(name);
  const void* older = nullptr;
  for (std::uint32_t i = bucket[wanted % buckets]; i >= first; ++i) {
    const std::uint32_t hash = chain[i - first];
    if ((hash | 1U) == (wanted | 1U) && name == names + table[i].st_name &&
        table[i].st_shndx != SHN_UNDEF) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      const auto* const found = reinterpret_cast<const void*>(base + table[i].st_value);
      constexpr ElfW(Half) kHidden = 0x8000;  // an older version, for programs built against it
      if (versions == nullptr || (versions[i] & kHidden) == 0) {
        return found;
      }
      older = found;
    }
    if ((hash & 1U) != 0) {
      break;
    }
  }
  return older;
}

template <typename T>
T* pointer(ElfW(Addr) address, ElfW(Addr) base) {
  // The loader has made most of them addresses; some, like the vdso's, are offsets.
  return reinterpret_cast<T*>(address < base ? base + address : address);  // NOLINT
}

Symbols symbols_of(const dl_phdr_info& library) {
  Symbols symbols;
  for (ElfW(Half) i = 0; i < library.dlpi_phnum; ++i) {
    if (library.dlpi_phdr[i].p_type != PT_DYNAMIC) {
      continue;
    }
    const ElfW(Addr) base = library.dlpi_addr;
    const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(  // NOLINT(performance-no-int-to-ptr)
        base + library.dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry) {
      switch (entry->d_tag) {
        case DT_SYMTAB:
          symbols.table = pointer<const ElfW(Sym)>(entry->d_un.d_ptr, base);
          break;
        case DT_STRTAB:
          symbols.names = pointer<const char>(entry->d_un.d_ptr, base);
          break;
        case DT_GNU_HASH:
          symbols.hashes = pointer<const std::uint32_t>(entry->d_un.d_ptr, base);
          break;
        case DT_VERSYM:
          symbols.versions = pointer<const ElfW(Half)>(entry->d_un.d_ptr, base);
          break;
        default:
          break;
      }
    }
  }
  return symbols;
}

struct Search {
  const char* name;
  const void* found = nullptr;
};

// Since glibc 2.34 they are in libc, before that in libdl.
int look_into(dl_phdr_info* library, std::size_t /*bytes*/, void* argument) {
  auto& search = *static_cast<Search*>(argument);
  const std::string_view path(library->dlpi_name == nullptr ? "" : library->dlpi_name);
  const std::string_view file = path.substr(path.rfind('/') + 1);
  if (!file.starts_with("libc.so.") && !file.starts_with("libdl.so.")) {
    return 0;
  }
  const Symbols symbols = symbols_of(*library);
  if (symbols.table != nullptr && symbols.names != nullptr && symbols.hashes != nullptr) {
    search.found = symbols.find(search.name, library->dlpi_addr);
  }
  return search.found != nullptr ? 1 : 0;
}

template <typename Call>
Call found_in_libc(const char* name) {
  Search search{.name = name};
  ::dl_iterate_phdr(look_into, &search);
  if (search.found == nullptr) {
    end_run(
        "cannot find the C library's dlsym, without which this program cannot be run: another C "
        "library than glibc?");
  }
  return std::bit_cast<Call>(search.found);
}

// Constant-initialized: both are asked for before constructors have run.
std::atomic<FindSymbolCall> dlsym_found{nullptr};
std::atomic<FindVersionCall> dlvsym_found{nullptr};

}  // namespace

FindSymbolCall real_dlsym() {
  FindSymbolCall call = dlsym_found.load(std::memory_order_acquire);
  if (call == nullptr) {
    call = found_in_libc<FindSymbolCall>("dlsym");
    dlsym_found.store(call, std::memory_order_release);
  }
  return call;
}

FindVersionCall real_dlvsym() {
  FindVersionCall call = dlvsym_found.load(std::memory_order_acquire);
  if (call == nullptr) {
    call = found_in_libc<FindVersionCall>("dlvsym");
    dlvsym_found.store(call, std::memory_order_release);
  }
  return call;
}

}  // namespace spillway::cuda
