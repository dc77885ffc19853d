// See channel_memory.h.
#include "platform/near/memory/channel_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "platform/common/process/descriptor.h"

namespace spillway::near {
namespace {

constexpr int kBoth = PROT_READ | PROT_WRITE;

char* map_whole(int file, Bytes bytes) {
  void* const start = ::mmap(nullptr, bytes, kBoth, MAP_SHARED | MAP_NORESERVE, file, 0);
  return start == MAP_FAILED ? nullptr : static_cast<char*>(start);
}

tl::unexpected<Error> no_memory(std::uint32_t channel, Bytes bytes, const char* what) {
  const int error = errno;
  return make_error(ErrorCode::kNoRoom,
                    "near memory, channel {}: {} for {}: {}; ask for less memory a channel",
                    channel, what, format_bytes(bytes), std::strerror(error));
}

}  // namespace

Result<std::unique_ptr<ChannelMemory>> ChannelMemory::make(std::uint32_t channel, Bytes bytes,
                                                           bool check_access) {
  bytes = round_up(bytes, kPageBytes);
  const Descriptor file(::memfd_create("spillway-near", MFD_CLOEXEC));
  if (file.get() < 0 || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    return no_memory(channel, bytes, "no memory file");
  }
  char* const host = map_whole(file.get(), bytes);
  if (host == nullptr) {
    return no_memory(channel, bytes, "no addresses");
  }
  char* const kernel = map_whole(file.get(), bytes);
  if (kernel == nullptr) {
    auto failed = no_memory(channel, bytes, "no second addresses");
    ::munmap(host, bytes);
    return failed;
  }
  return std::unique_ptr<ChannelMemory>(
      new ChannelMemory(channel, host, kernel, bytes, check_access));
}

ChannelMemory::ChannelMemory(std::uint32_t channel, char* host, char* kernel, Bytes bytes,
                             bool check_access)
    : host_(host),
      kernel_(kernel),
      start_(address_of(host)),
      bytes_(bytes),
      free_bytes_(bytes),
      allocations_(fmt::format("near memory, channel {}", channel)) {
  free_pages_.give(0, bytes / kPageBytes);
  if (check_access) {
    watched_ = std::make_unique<WatchedRange>(host, bytes, channel);
  }
}

ChannelMemory::~ChannelMemory() {
  watched_.reset();
  ::munmap(host_, bytes_);
  ::munmap(kernel_, bytes_);
}

Result<char*> ChannelMemory::allocate(Bytes bytes) {
  const Bytes pages = bytes / kPageBytes + (bytes % kPageBytes > 0 ? 1 : 0);
  const std::optional<FreeRanges::Number> first = free_pages_.take(pages);
  if (!first) {
    return make_error(ErrorCode::kNoRoom,
                      "{}: {} asked for in one piece, {} of {} are free; free something there, "
                      "move data to storage or use another channel",
                      allocations_.where(), format_bytes(bytes), format_bytes(free_bytes_),
                      format_bytes(bytes_));
  }
  free_bytes_ -= pages * kPageBytes;
  char* const start = host_ + *first * kPageBytes;
  allocations_.add(address_of(start), bytes);
  return start;
}

Status ChannelMemory::free(Address start) {
  const Result<Bytes> bytes = allocations_.remove(start);
  if (!bytes) {
    return tl::unexpected<Error>(bytes.error());
  }
  const Bytes whole = round_up(*bytes, kPageBytes);
  // The file's pages, seen through a view that is never closed.
  if (::madvise(as_kernel(start), whole, MADV_REMOVE) != 0) {
    std::memset(as_kernel(start), 0, whole);
  }
  free_pages_.give((start - start_) / kPageBytes, whole / kPageBytes);
  free_bytes_ += whole;
  return {};
}

Status ChannelMemory::open_to_host(bool open) {
  if (watched_ != nullptr && ::mprotect(host_, bytes_, open ? kBoth : PROT_NONE) != 0) {
    return make_error(ErrorCode::kIo, "{}: its pages cannot be {} the host: {}",
                      allocations_.where(), open ? "opened to" : "closed to", std::strerror(errno));
  }
  return {};
}

}  // namespace spillway::near
