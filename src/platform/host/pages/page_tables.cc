// See page_tables.h.
#include "platform/host/pages/page_tables.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "platform/common/process/descriptor.h"
#include "platform/common/process/say.h"

namespace spillway::host {
namespace {

constexpr const char* kFile = "/proc/self/pagemap";

}  // namespace

PageTables::PageTables(const void* start, Bytes bytes) : entries_(bytes / kPageBytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(start) / kPageBytes;  // NOLINT: a number
  const Bytes size_bytes = entries_.size() * sizeof entries_.front();
  const Descriptor file(::open(kFile, O_RDONLY | O_CLOEXEC));
  int error = errno;
  ssize_t got = -1;
  if (file.get() >= 0) {
    got = ::pread(file.get(), entries_.data(), size_bytes,
                  static_cast<off_t>(first * sizeof entries_.front()));
    error = errno;
  }
  if (got != static_cast<ssize_t>(size_bytes)) {
    end_run(
        fmt::format("cannot read {}: {}; where the program's memory is cannot be told without it, "
                    "ending it before data is lost",
                    kFile, got < 0 ? std::strerror(error) : "the file ends too early"));
  }
}

bool PageTables::has(std::size_t page) const {
  constexpr std::uint64_t kPresentOrSwapped = std::uint64_t{3} << 62U;
  return (entries_[page] & kPresentOrSwapped) != 0;
}

}  // namespace spillway::host
