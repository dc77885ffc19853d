// How fast a folder's storage takes and gives blocks, through the same files and requests as
// swapping. See doctor_checks.h.
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/rng.h"
#include "cli/doctor/doctor_checks.h"
#include "platform/common/storage/block_io.h"

namespace spillway {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kDepth = 8;
constexpr Bytes kFileMost = kGiB;
constexpr double kSlowBytesPerS = 1e9;
constexpr std::chrono::seconds kEachWay{1};

// A line that goes again, and only where somebody sees it.
class Doing {
 public:
  explicit Doing(const std::string& what) : shown_(::isatty(STDERR_FILENO) == 1) {
    if (shown_) {
      std::fputs(what.c_str(), stderr);
    }
  }
  ~Doing() {
    if (shown_) {
      std::fputs("\r\033[K", stderr);
    }
  }
  Doing(const Doing&) = delete;
  Doing& operator=(const Doing&) = delete;

 private:
  bool shown_;
};

class Speedometer {
 public:
  explicit Speedometer(const SwapFile& file)
      : memory_(static_cast<char*>(std::aligned_alloc(kBlockBytes, kDepth * kBlockBytes))),
        blocks_(std::max<Bytes>(std::min(file.bytes() / 2, kFileMost) / kBlockBytes, 1)),
        io_(make_block_io(file, kDepth)) {
    // Storage that compresses must not look faster than it is.
    Rng rng(1);
    for (Bytes at = 0; at < kDepth * kBlockBytes; at += sizeof(std::uint64_t)) {
      const std::uint64_t word = rng.next();
      std::memcpy(memory_.get() + at, &word, sizeof(word));
    }
    for (unsigned place = 0; place < kDepth; ++place) {
      free_.push_back(place);
    }
  }

  // Over as many blocks as it gets to, again from the start where that is all; reads only what
  // write() has written. Bytes a second.
  Result<double> write() { return go(true, blocks_); }
  Result<double> read() { return go(false, std::max<Bytes>(written_blocks_, 1)); }

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }  // NOLINT(*-no-malloc): aligned
  };

  Result<double> go(bool write, Bytes blocks) {
    const auto start = Clock::now();
    Bytes count = 0;
    while (Clock::now() - start < kEachWay && error() == 0) {
      const unsigned place = take();
      io_->submit({.write = write,
                   .memory = memory_.get() + place * kBlockBytes,
                   .bytes = kBlockBytes,
                   .offset = count % blocks * kBlockBytes,
                   .done = [this, place](int error) { give_back(place, error); }});
      ++count;
    }
    wait_for_all();
    const std::chrono::duration<double> took = Clock::now() - start;
    if (error() != 0) {
      return make_error(ErrorCode::kIo, "{} failed: {}", write ? "writing" : "reading",
                        std::strerror(error()));
    }
    if (write) {
      written_blocks_ = std::min(count, blocks);
    }
    return static_cast<double>(count * kBlockBytes) / took.count();
  }

  unsigned take() {
    const MutexLock lock(mutex_);
    mutex_.wait(changed_, [&]() SPILLWAY_REQUIRES(mutex_) { return !free_.empty(); });
    const unsigned place = free_.back();
    free_.pop_back();
    return place;
  }
  void give_back(unsigned place, int error) {
    const MutexLock lock(mutex_);
    error_ = error_ == 0 ? error : error_;
    free_.push_back(place);
    changed_.notify_one();
  }
  void wait_for_all() {
    const MutexLock lock(mutex_);
    mutex_.wait(changed_, [&]() SPILLWAY_REQUIRES(mutex_) { return free_.size() == kDepth; });
  }
  int error() {
    const MutexLock lock(mutex_);
    return error_;
  }

  std::unique_ptr<char, Free> memory_;
  Bytes blocks_;
  Bytes written_blocks_ = 0;
  Mutex mutex_;
  std::condition_variable changed_;
  std::vector<unsigned> free_ SPILLWAY_GUARDED_BY(mutex_);
  int error_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<BlockIo> io_;  // last: it calls back into what is above until it is gone
};

Fact speed_fact(const char* key, const char* what, const Result<double>& speed) {
  if (!speed) {
    return {.key = key,
            .mark = Mark::kMissing,
            .text = speed.error().message,
            .advice = "name another folder: `spillway doctor --storage FOLDER`",
            .value = nullptr};
  }
  const bool slow = *speed < kSlowBytesPerS;
  return {.key = key,
          .mark = slow ? Mark::kSlow : Mark::kOk,
          .text = fmt::format("{} {}/s in requests of {}, {} at a time", what,
                              format_bytes(static_cast<Bytes>(*speed)), format_bytes(kBlockBytes),
                              kDepth),
          .advice = slow ? "a folder on an NVMe drive may be faster: `spillway doctor --storage "
                           "FOLDER`"
                         : "",
          .value = *speed};
}

Fact io_uring_fact() {
  const Status support = io_uring_support();
  return {.key = "io_uring",
          .mark = support ? Mark::kOk : Mark::kSlow,
          .text = support ? "requests go through io_uring" : "requests go through threads",
          .advice = support ? "" : support.error().message,
          .value = support.has_value()};
}

bool is_memory(const std::string& folder) {
  struct statfs about {};
  return ::statfs(folder.c_str(), &about) == 0 &&
         (about.f_type == TMPFS_MAGIC || about.f_type == RAMFS_MAGIC);
}

}  // namespace

Status check_storage_folder(const std::string& folder) {
  std::error_code error;
  const auto status = std::filesystem::status(folder, error);
  if (std::filesystem::is_directory(status)) {
    return {};
  }
  if (!std::filesystem::exists(status)) {
    return make_error(ErrorCode::kInvalidInput,
                      "--storage {}: no such folder; name one that exists", folder);
  }
  return make_error(ErrorCode::kInvalidInput,
                    "--storage {}: not a folder; measuring would overwrite it, so name a folder",
                    folder);
}

FactGroup check_storage(const std::string& folder) {
  FactGroup group{.key = "storage", .title = "Storage at " + folder, .facts = {io_uring_fact()}};
  const Result<SwapFile> file = SwapFile::open(folder, 0);
  group.facts.push_back(
      {.key = "direct_io",
       .mark = file ? Mark::kOk : Mark::kMissing,
       .text = file ? fmt::format("{} can be used for swapping, with direct I/O",
                                  format_bytes(file->bytes()))
                    : file.error().message,
       .advice = file ? "" : "try another place: `spillway doctor --storage FOLDER`",
       .value = file.has_value()});
  if (!file) {
    return group;
  }
  if (is_memory(folder)) {
    group.facts.push_back({.key = "kind",
                           .mark = Mark::kMissing,
                           .text = "this folder is memory (tmpfs), not storage: swapping to it "
                                   "frees none",
                           .advice = "try a folder on a disk: `spillway doctor --storage /var/tmp`",
                           .value = "memory"});
  }
  Speedometer speedometer(*file);
  const auto measured = [&](const char* doing, auto measure) {
    const Doing shown(fmt::format("{} {}, about a second ...", doing, folder));
    return measure();
  };
  const Result<double> written = measured("writing to", [&] { return speedometer.write(); });
  group.facts.push_back(speed_fact("write_bytes_per_s", "writes", written));
  if (written) {
    group.facts.push_back(speed_fact("read_bytes_per_s", "reads",
                                     measured("reading from", [&] { return speedometer.read(); })));
  }
  return group;
}

}  // namespace spillway
