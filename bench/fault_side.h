// One way to have blocks of 2 MiB appear at a touch, and the plainest of them: a thread that
// answers userfaultfd with a copy. What fault_round_trip_bench compares.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "bench/measure.h"
#include "platform/host/faults/userfault.h"

namespace spillway::bench {

inline constexpr Bytes kArrayBytes = 128 * kMiB;
inline constexpr std::size_t kBlocks = kArrayBytes / kBlockBytes;

// One way to have memory appear at a touch.
class Side {
 public:
  explicit Side(std::string name) : name_(std::move(name)) {}
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
  virtual ~Side() = default;
  [[nodiscard]] const std::string& name() const { return name_; }
  // The touch of a block that is not there.
  [[nodiscard]] virtual Result<TimeNs> touch(std::size_t block) = 0;
  // After the touch, untimed.
  virtual void settle(std::size_t block) = 0;
  struct Counts {
    std::uint64_t faults = 0;
    Bytes copied_out_bytes = 0;  // to make room
  };
  // Of all touches so far.
  [[nodiscard]] virtual Counts counts() const = 0;

 private:
  std::string name_;
};

// The first word of a block says which one it is.
inline Result<TimeNs> timed_touch(char* block, std::size_t number, bool writes) {
  auto* const word = static_cast<volatile std::uint64_t*>(static_cast<void*>(block));
  const TimeNs begin_ns = now_ns();
  if (writes) {
    word[1] = number;
  }
  const std::uint64_t found = word[0];
  const TimeNs end_ns = now_ns();
  if (found != number) {
    return make_error(ErrorCode::kDefect, "block {} holds {}", number, found);
  }
  return end_ns - begin_ns;
}

// A thread that polls the descriptor and answers with UFFDIO_COPY from memory that stays resident,
// in huge pages where there are any, as the host tier's.
class Bare final : public Side {
 public:
  static Result<std::unique_ptr<Side>> open() {
    Result<host::Userfault> userfault = host::Userfault::open();
    if (!userfault) {
      return tl::unexpected<Error>(userfault.error());
    }
    auto bare = std::unique_ptr<Bare>(new Bare(std::move(*userfault)));
    for (Mapping* mapping : {&bare->range_, &bare->source_}) {
      if (const Status mapped = map(*mapping); !mapped) {
        return tl::unexpected<Error>(mapped.error());
      }
    }
    ::madvise(bare->range_.blocks, kArrayBytes, MADV_NOHUGEPAGE);
    ::madvise(bare->source_.blocks, kArrayBytes, MADV_HUGEPAGE);
    for (std::size_t block = 0; block < kBlocks; ++block) {
      char* const start = bare->source_.blocks + block * kBlockBytes;
      std::memset(start, 1, kBlockBytes);
      const std::uint64_t number = block;
      std::memcpy(start, &number, sizeof(number));
    }
    if (const Status watched = bare->userfault_.watch(bare->range_.blocks, kArrayBytes); !watched) {
      return tl::unexpected<Error>(watched.error());
    }
    bare->server_ = std::thread([server = bare.get()] { server->serve(); });
    return bare;
  }

  ~Bare() override {
    if (server_.joinable()) {
      const std::uint64_t one = 1;
      [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof(one));
      server_.join();
    }
    for (const Mapping& mapping : {range_, source_}) {
      if (mapping.start != nullptr) {
        ::munmap(mapping.start, kArrayBytes + kBlockBytes);
      }
    }
  }

  Result<TimeNs> touch(std::size_t block) override {
    return timed_touch(range_.blocks + block * kBlockBytes, block, false);
  }
  void settle(std::size_t block) override {
    ::madvise(range_.blocks + block * kBlockBytes, kBlockBytes, MADV_DONTNEED);
  }
  [[nodiscard]] Counts counts() const override { return {.faults = faults_}; }

 private:
  struct Mapping {
    void* start = nullptr;
    char* blocks = nullptr;  // the first address that is a multiple of 2 MiB
  };

  explicit Bare(host::Userfault userfault)
      : Side("bare userfaultfd"),
        userfault_(std::move(userfault)),
        stop_(::eventfd(0, EFD_CLOEXEC)) {}

  static Status map(Mapping& mapping) {
    void* const start = ::mmap(nullptr, kArrayBytes + kBlockBytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) {
      return make_error(ErrorCode::kUnsupported, "mmap: {}", std::strerror(errno));
    }
    void* aligned = start;
    std::size_t space = kArrayBytes + kBlockBytes;
    mapping = {start, static_cast<char*>(std::align(kBlockBytes, kArrayBytes, aligned, space))};
    return {};
  }

  void serve() {
    std::array<pollfd, 2> waits{pollfd{.fd = userfault_.fd(), .events = POLLIN, .revents = 0},
                                pollfd{.fd = stop_.get(), .events = POLLIN, .revents = 0}};
    std::array<uffd_msg, 1> event{};
    const auto start = reinterpret_cast<std::uint64_t>(range_.blocks);  // NOLINT: kernel's type
    while (::poll(waits.data(), waits.size(), -1) >= 0 && (waits[1].revents & POLLIN) == 0) {
      if (userfault_.read(event) == 0 || event[0].event != UFFD_EVENT_PAGEFAULT) {
        continue;
      }
      ++faults_;
      const Bytes offset = (event[0].arg.pagefault.address - start) / kBlockBytes * kBlockBytes;
      // An error leaves the byte missing: the thread faults again.
      [[maybe_unused]] const int error = userfault_.copy(
          range_.blocks + offset, source_.blocks + offset, kBlockBytes, /*writable=*/true);
      userfault_.wake(range_.blocks + offset, kBlockBytes);
    }
  }

  host::Userfault userfault_;
  Descriptor stop_;
  Mapping range_;
  Mapping source_;
  std::atomic<std::uint64_t> faults_{0};
  std::thread server_;
};

}  // namespace spillway::bench
