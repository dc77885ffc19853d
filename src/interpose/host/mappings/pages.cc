// See pages.h.
#include "interpose/host/mappings/pages.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "interpose/host/mappings/wiped_pages.h"
#include "interpose/host/next.h"
#include "interpose/host/process/bare_call.h"
#include "interpose/host/session.h"
#include "platform/common/process/memory_advice.h"
#include "platform/common/process/say.h"
#include "platform/common/process/service_thread.h"

namespace spillway::preload {
namespace {

using Part = LargeHeap::Part;

bool starts_page(const void* start) {
  return reinterpret_cast<std::uintptr_t>(start) % kPageBytes == 0;  // NOLINT(*-reinterpret-cast)
}

int refused(int error) {
  errno = error;
  return -1;
}

bool sizes_fit(const void* start, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(start) + bytes + kPageBytes >= bytes;  // NOLINT
}

// All of it is one allocation's, and still the program's.
bool all_there(LargeHeap& heap, void* start, std::size_t bytes, Part& pages) {
  const InService inside;
  const auto part = heap.first_part(start, bytes);
  if (!part || part->start != start || part->bytes != bytes || !heap.has_all(*part)) {
    return false;
  }
  pages = *part;
  return true;
}

// In the child of a fork: other pages in their place.
int replace_pages(void* start, std::size_t bytes, int protection) {
  constexpr int kFixed = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  return real_mmap(start, bytes, protection, kFixed, -1, 0) == MAP_FAILED ? -1 : 0;
}

void zero_pages(LargeHeap& heap, const Part& pages) {
  LargeHeap::Uncleared left;
  {
    const InService inside;
    left = heap.clear(pages);
  }
  for (const Part& part : left.held) {
    real_madvise(part.start, part.bytes, MADV_DONTNEED);
  }
  for (const Part& part : left.parts) {
    std::memset(part.start, 0, part.bytes);  // by the program's thread, which may fault
  }
}

// Advice that says how memory will be used changes nothing that a program can see.
bool only_a_hint(int advice) {
  switch (advice) {
    case MADV_NORMAL:
    case MADV_RANDOM:
    case MADV_SEQUENTIAL:
    case MADV_WILLNEED:
    case MADV_MERGEABLE:
    case MADV_UNMERGEABLE:
    case MADV_HUGEPAGE:
    case MADV_NOHUGEPAGE:
    case MADV_DONTDUMP:
    case MADV_DODUMP:
    case MADV_DONTFORK:  // a child that gets it all the same
    case MADV_DOFORK:
    case MADV_COLD:
    case MADV_PAGEOUT:
    case MADV_FREE:  // the kernel need not ever do it
    case kCollapse:
      return true;
    default:
      return false;
  }
}

// As if each page had been used.
void touch(const Part& pages, bool write) {
  for (Bytes at = 0; at < pages.bytes; at += kPageBytes) {
    auto* const byte = reinterpret_cast<std::uint8_t*>(pages.start + at);  // NOLINT
    if (write) {
      __atomic_fetch_or(byte, std::uint8_t{0}, __ATOMIC_RELAXED);
    } else {
      (void)*static_cast<volatile std::uint8_t*>(byte);
    }
  }
}

}  // namespace

bool meets_space(const void* start, std::size_t bytes) {
  if (in_service()) {
    return false;
  }
  const char* const last = static_cast<const char*>(start) + (bytes > 0 ? bytes - 1 : 0);
  return in_space(start) || in_space(last);
}

int unmap_pages(void* start, std::size_t bytes) {
  if (!starts_page(start) || bytes == 0 || !sizes_fit(start, bytes)) {
    return refused(EINVAL);
  }
  bytes = round_up(bytes, kPageBytes);
  Session* const here = session(false);
  if (here == nullptr) {
    return replace_pages(start, bytes, PROT_NONE);
  }
  char* from = static_cast<char*>(start);
  char* const to = from + bytes;
  while (from < to) {
    const InService inside;
    const auto part = here->heap->first_part(from, static_cast<Bytes>(to - from));
    if (!part) {
      break;
    }
    here->heap->give_up(*part);
    from = part->start + part->bytes;
  }
  return 0;
}

int protect_pages(void* start, std::size_t bytes, int protection) {
  if (!starts_page(start)) {
    return refused(EINVAL);
  }
  bytes = round_up(bytes, kPageBytes);
  Session* const here = session(false);
  if (here == nullptr || bytes == 0) {
    return static_cast<int>(bare_call(SYS_mprotect, start, bytes, protection));
  }
  Part pages;
  if (!all_there(*here->heap, start, bytes, pages)) {
    return refused(ENOMEM);
  }
  const InService inside;
  if (protection == kReadWrite) {
    const int answer = static_cast<int>(bare_call(SYS_mprotect, start, bytes, protection));
    here->heap->release(pages, PageMarks::kProtected);
    return answer;
  }
  if (!here->heap->hold(pages, PageMarks::kProtected)) {
    end_run(fmt::format(
        "the program changes the protection of {} of a large allocation (mprotect), which then has "
        "to stay resident, and there is no room for that; raise --device-memory, or --threshold "
        "above the size of that allocation",
        format_bytes(bytes)));
  }
  return static_cast<int>(bare_call(SYS_mprotect, start, bytes, protection));
}

int advise_pages(void* start, std::size_t bytes, int advice) {
  if (!starts_page(start) || !sizes_fit(start, bytes)) {
    return refused(EINVAL);
  }
  bytes = round_up(bytes, kPageBytes);
  const bool needless = advice == MADV_DONTNEED || advice == kDontNeedLocked;
  const bool populates = advice == kPopulateRead || advice == kPopulateWrite;
  const bool for_children = advice == MADV_WIPEONFORK || advice == MADV_KEEPONFORK;
  if (!needless && !populates && !for_children && !only_a_hint(advice)) {
    return refused(EINVAL);  // as a kernel that does not know it
  }
  Session* const here = session(false);
  if (bytes == 0 || (here == nullptr && only_a_hint(advice))) {
    return 0;
  }
  if (here == nullptr && advice == MADV_WIPEONFORK) {
    return wipe_inherited_pages(start, bytes);
  }
  if (here == nullptr) {
    return needless ? replace_pages(start, bytes, kReadWrite) : real_madvise(start, bytes, advice);
  }
  Part pages;
  if (!all_there(*here->heap, start, bytes, pages)) {
    return refused(ENOMEM);
  }
  if (needless) {
    zero_pages(*here->heap, pages);
  } else if (populates) {
    touch(pages, advice == kPopulateWrite);
  } else if (advice == MADV_WIPEONFORK) {
    const InService inside;
    here->heap->note(pages, PageMarks::kWiped);
  } else if (advice == MADV_KEEPONFORK) {
    const InService inside;
    here->heap->release(pages, PageMarks::kWiped);
  } else if (advice == MADV_WILLNEED) {
    const InService inside;
    here->space->platform().prefetch(pages.start, pages.bytes);
  }
  return 0;
}

bool wiped_in_children(const void* start) {
  Session* const here = session(false);
  const InService inside;
  return here != nullptr && here->heap->has_mark(start, PageMarks::kWiped);
}

int lock_pages(void* start, std::size_t bytes) {
  auto* const from =
      static_cast<char*>(start) - reinterpret_cast<std::uintptr_t>(start) % kPageBytes;  // NOLINT
  bytes = round_up(bytes + static_cast<std::size_t>(static_cast<char*>(start) - from), kPageBytes);
  Session* const here = session(false);
  if (here == nullptr || bytes == 0) {
    return static_cast<int>(bare_call(SYS_mlock, from, bytes));
  }
  Part pages;
  if (!all_there(*here->heap, from, bytes, pages)) {
    return refused(ENOMEM);
  }
  const InService inside;
  return here->heap->hold(pages, PageMarks::kLocked) ? 0 : refused(ENOMEM);
}

int unlock_pages(void* start, std::size_t bytes) {
  Session* const here = session(false);
  if (here == nullptr) {
    return static_cast<int>(bare_call(SYS_munlock, start, bytes));
  }
  const InService inside;
  const auto part = here->heap->first_part(start, std::max<std::size_t>(bytes, 1));
  if (!part) {
    return refused(ENOMEM);
  }
  here->heap->release(*part, PageMarks::kLocked);
  return 0;
}

void unlock_all_pages() {
  if (Session* const here = session(false)) {
    const InService inside;
    here->heap->release_all(PageMarks::kLocked);
  }
}

int renew_pages(void* start, std::size_t bytes, int protection) {
  if (!starts_page(start)) {
    return refused(EINVAL);
  }
  bytes = round_up(bytes, kPageBytes);
  Session* const here = session(false);
  if (here == nullptr) {
    return replace_pages(start, bytes, protection);
  }
  Part pages;
  if (!all_there(*here->heap, start, bytes, pages)) {
    end_run(
        fmt::format("the program maps {} over addresses of which it has given back a part "
                    "before (MAP_FIXED); that cannot be carried out: keep that memory out with "
                    "--threshold",
                    format_bytes(bytes)));
  }
  if (protect_pages(start, bytes, kReadWrite) != 0) {
    return -1;
  }
  zero_pages(*here->heap, pages);
  {
    const InService inside;
    here->heap->release(pages, PageMarks::kWiped);
  }
  return protection == kReadWrite ? 0 : protect_pages(start, bytes, protection);
}

}  // namespace spillway::preload
