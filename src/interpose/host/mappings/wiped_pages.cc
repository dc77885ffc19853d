// See wiped_pages.h.
#include "interpose/host/mappings/wiped_pages.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "interpose/host/mappings/pages.h"
#include "interpose/host/next.h"
#include "interpose/host/process/bare_call.h"

namespace spillway::preload {
namespace {

constexpr int kNewPages = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

std::vector<LargeHeap::Part> plain_parts;
// Their protection has to stay. They reside, so nobody has anything of them but this process.
std::vector<LargeHeap::Part> protected_parts;

}  // namespace

void note_wiped_pages(LargeHeap& heap) {
  plain_parts = heap.parts(PageMarks::kWiped, PageMarks::kGone | PageMarks::kProtected);
  protected_parts = heap.parts(PageMarks::kWiped | PageMarks::kProtected, PageMarks::kGone);
}

// The kernel's from now on, which wipes them for the child's own children.
void wipe_pages_of_child() {
  for (const LargeHeap::Part& part : plain_parts) {
    real_mmap(part.start, part.bytes, kReadWrite, kNewPages | MAP_FIXED, -1, 0);
    real_madvise(part.start, part.bytes, MADV_WIPEONFORK);
  }
  for (const LargeHeap::Part& part : protected_parts) {
    real_madvise(part.start, part.bytes, MADV_DONTNEED);
    real_madvise(part.start, part.bytes, MADV_WIPEONFORK);
  }
  plain_parts.clear();
  protected_parts.clear();
}

// What is still with the parent comes first: it would give that to a grandchild as well.
int wipe_inherited_pages(void* start, std::size_t bytes) {
  void* const own = real_mmap(nullptr, bytes, kReadWrite, kNewPages, -1, 0);
  if (own == MAP_FAILED) {
    return -1;
  }
  std::size_t done = 0;
  while (done < bytes) {
    const iovec here{.iov_base = static_cast<char*>(own) + done, .iov_len = bytes - done};
    const iovec there{.iov_base = static_cast<char*>(start) + done, .iov_len = bytes - done};
    const long some = bare_call(SYS_process_vm_readv, ::getpid(), &here, 1, &there, 1, 0);
    if (some <= 0) {  // protected from reading
      real_munmap(own, bytes);
      errno = EINVAL;
      return -1;
    }
    done += static_cast<std::size_t>(some);
  }
  real_mremap(own, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, start);
  return real_madvise(start, bytes, MADV_WIPEONFORK);
}

}  // namespace spillway::preload
