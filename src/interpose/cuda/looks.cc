// See looks.h.
#include "interpose/cuda/looks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "interpose/cuda/issue.h"
#include "platform/common/process/clock.h"

namespace spillway::cuda {
namespace {

// A thread that waits while nothing ends on the device may wait for itself: what is on the stream
// may wait for something that the program does next.
constexpr TimeNs kNothingEndsNs = 2 * kNsPerS;
// So often one after the other, then nothing is looked at any more.
constexpr int kMostStopped = 2;

// Held while one looks: another thread's launch must not pass it without what it finds.
struct Looking {
  Mutex mutex;
  // Pinned; nullptr: not there yet, or a copy may still come to the last.
  std::uint64_t* words SPILLWAY_GUARDED_BY(mutex) = nullptr;
  CuContext context SPILLWAY_GUARDED_BY(mutex) = nullptr;  // in which they are
  int stopped SPILLWAY_GUARDED_BY(mutex) = 0;
};
Looking& looking() {
  static auto* const all = new Looking;  // threads of the program may run until the very end
  return *all;
}

// False where that may never be.
bool ends_while_others_do(const Session& session, CuStream stream) {
  const TimeNs start_ns = now_ns();
  session.platform->streams().before_wait(stream);
  CuResult result = real().cuStreamQuery(stream);
  for (TimeNs last_ns = start_ns; result == CuResult::kNotReady;
       result = real().cuStreamQuery(stream)) {
    constexpr TimeNs kBusyNs = 200'000;
    constexpr auto kPause = std::chrono::microseconds(50);
    constexpr TimeNs kSeldomNs = 10'000'000;
    if (now_ns() - start_ns < kBusyNs) {
      std::this_thread::yield();
      continue;
    }
    std::this_thread::sleep_for(kPause);
    if (now_ns() - last_ns > kSeldomNs) {
      last_ns = now_ns();
      session.platform->streams().after_wait(stream);
      if (last_ns - std::max(start_ns, session.platform->streams().last_end_ns()) >
          kNothingEndsNs) {
        break;
      }
    }
  }
  session.platform->streams().after_wait(stream);
  return result == CuResult::kSuccess;
}

Bytes taken_by(const Unlooked& what) { return round_up(what.bytes.bytes, sizeof(std::uint64_t)); }

enum class Came : std::uint8_t { kAll, kRefused, kNothingEnds };

// What is looked at together. kRefused: nothing will be written to `words`.
Came copy_out(const Session& session, CuStream stream, std::span<const Unlooked> all,
              std::uint64_t* words) {
  std::vector<CudaOperand> operands;
  operands.reserve(all.size());
  for (const Unlooked& it : all) {
    operands.push_back(
        {.address = it.bytes.start, .bytes = it.bytes.bytes, .mode = AccessMode::kRead});
  }
  const CudaLaunch what{.stream = stream,
                        .hash = hash_of(hash_launch("look", {}), operands),
                        .name = "look at addresses",
                        .operands = operands,
                        .needs_mapping = true};
  bool some_are_issued = false;
  const CuResult result = issue(session, what, [&] {
    CuResult copied = CuResult::kSuccess;
    for (const Unlooked& it : all) {
      if (copied == CuResult::kSuccess) {
        copied = real().cuMemcpyDtoHAsync_v2(words, it.bytes.start, it.bytes.bytes, stream);
        some_are_issued |= copied == CuResult::kSuccess;
      }
      words += taken_by(it) / sizeof words[0];
    }
    return copied;
  });
  if (!some_are_issued) {
    return Came::kRefused;
  }
  return ends_while_others_do(session, stream) && result == CuResult::kSuccess ? Came::kAll
                                                                               : Came::kNothingEnds;
}

// Another thread may begin to capture meanwhile, and would be refused what this one does.
class OutOfCaptures {
 public:
  OutOfCaptures() { exchange(); }
  OutOfCaptures(const OutOfCaptures&) = delete;
  OutOfCaptures& operator=(const OutOfCaptures&) = delete;
  ~OutOfCaptures() { exchange(); }

 private:
  void exchange() {
    if (real().cuThreadExchangeStreamCaptureMode != nullptr) {
      (void)real().cuThreadExchangeStreamCaptureMode(&mode_);
    }
  }
  unsigned mode_ = kCuCaptureRelaxed;
};

// The stream may be another's than the context in which the program launches.
class InContextOf {
 public:
  explicit InContextOf(CuStream stream) {
    CuContext current = nullptr;
    CuContext context = nullptr;
    pushed_ = real().cuCtxGetCurrent(&current) == CuResult::kSuccess &&
              real().cuStreamGetCtx(stream, &context) == CuResult::kSuccess && context != current &&
              real().cuCtxPushCurrent_v2(context) == CuResult::kSuccess;
  }
  InContextOf(const InContextOf&) = delete;
  InContextOf& operator=(const InContextOf&) = delete;
  ~InContextOf() {
    if (CuContext popped = nullptr; pushed_) {
      (void)real().cuCtxPopCurrent_v2(&popped);
    }
  }

 private:
  bool pushed_ = false;
};

// Nullopt: it has not been looked at. Otherwise whether something new was found.
std::optional<bool> look_together(const Session& session, CuStream stream,
                                  std::span<const Unlooked> all)
    SPILLWAY_REQUIRES(looking().mutex) {
  const InContextOf its_context(stream);
  const OutOfCaptures relaxed;
  if (looking().words == nullptr) {
    void* memory = nullptr;
    if (real().cuMemHostAlloc(&memory, UnlookedMemory::kMostBytes, kCuHostAllocPortable) ==
        CuResult::kSuccess) {
      looking().words = static_cast<std::uint64_t*>(memory);
      (void)real().cuCtxGetCurrent(&looking().context);
    }
  }
  const Came came =
      looking().words == nullptr ? Came::kRefused : copy_out(session, stream, all, looking().words);
  if (came == Came::kRefused) {
    return std::nullopt;
  }
  if (came == Came::kNothingEnds) {
    looking().words = nullptr;
    if (++looking().stopped == kMostStopped) {
      static std::atomic<bool> told{false};
      say_once(told, fmt::format("device memory is no longer searched for addresses that kernels "
                                 "have stored: twice nothing ended on the device for {} s. Kernels "
                                 "that follow such addresses may fail with an illegal access (700)",
                                 kNothingEndsNs / kNsPerS));
    }
    return std::nullopt;
  }
  looking().stopped = 0;
  bool found = false;
  const std::uint64_t* words = looking().words;
  for (const Unlooked& it : all) {
    const std::size_t count = it.bytes.bytes / sizeof words[0];
    const bool found_here = note_read(session, it.bytes, std::span(words, count));
    UnlookedMemory::of_program().looked(it, stream, found_here);
    found |= found_here;
    words += taken_by(it) / sizeof words[0];
  }
  return found;
}

// In what of the space an operand lies; where it lies in several allocations, the first.
std::optional<AddressRange> holder_of(const Session& session, const CudaOperand& operand) {
  return session.platform->memory().allocation_of(operand.address);
}

AddressRange within(const AddressRange& bytes, const AddressRange& allocation) {
  const std::uint64_t start = std::max(bytes.start, allocation.start);
  const std::uint64_t end =
      std::min(bytes.start + bytes.bytes, allocation.start + allocation.bytes);
  return {.start = start, .bytes = end > start ? end - start : 0};
}

// Launches with whose operands this thread is done.
class Noted {
 public:
  // True if it was there, as these counts are.
  bool put(const LaunchHash& launch, std::uint64_t one_count, std::uint64_t other_count) {
    constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15ULL;
    One& one = all_[(launch.first * kOdd) >> (64U - kBits)];
    const One now{.first = launch.first,
                  .second = launch.second,
                  .one_count = one_count,
                  .other_count = other_count,
                  .is_there = true};
    return std::exchange(one, now) == now;
  }

 private:
  static constexpr unsigned kBits = 7;
  struct One {
    std::uint64_t first = 0;
    std::uint64_t second = 0;
    std::uint64_t one_count = 0;
    std::uint64_t other_count = 0;
    bool is_there = false;
    bool operator==(const One&) const = default;
  };
  std::array<One, std::size_t{1} << kBits> all_{};
};

}  // namespace

void forget_looks_of(CuContext context) {
  const MutexLock lock(looking().mutex);
  if (looking().context == context) {
    looking().words = nullptr;
  }
}

bool look_at(const Session& session, CuStream stream, const LaunchHash& launch,
             std::span<const CudaOperand> operands) {
  static thread_local Noted clean;
  UnlookedMemory& unlooked = UnlookedMemory::of_program();
  if (const std::uint64_t noted = unlooked.noted(); clean.put(launch, noted, 0)) {
    return false;
  }
  const bool none = std::none_of(operands.begin(), operands.end(), [&](const CudaOperand& it) {
    const auto holder = holder_of(session, it);
    return holder && unlooked.has(holder->start);
  });
  if (none) {
    return false;
  }
  const MutexLock lock(looking().mutex);
  if (looking().stopped >= kMostStopped) {
    return false;
  }
  clean = {};
  unlooked.look_begins();
  bool any = false;
  std::vector<Unlooked> together;
  Bytes bytes = 0;
  const auto look = [&]() SPILLWAY_REQUIRES(looking().mutex) {
    // What has been learned meanwhile may have made some of it needless.
    std::erase_if(together, [](const Unlooked& it) {
      return !UnlookedMemory::of_program().has(it.allocation);
    });
    const std::optional<bool> found =
        together.empty() ? false : look_together(session, stream, together);
    any |= found.value_or(false);
    together.clear();
    bytes = 0;
    return found.has_value();
  };
  for (const CudaOperand& operand : operands) {
    const auto holder = holder_of(session, operand);
    if (!holder || std::any_of(together.begin(), together.end(), [&](const Unlooked& it) {
          return it.allocation == holder->start;
        })) {
      continue;
    }
    Unlooked what = UnlookedMemory::of_program().at(holder->start);
    what.bytes = within(what.bytes, *holder);
    if (what.writers.empty() || what.bytes.bytes == 0) {
      continue;
    }
    constexpr std::size_t kMostTogether = 16;
    if ((bytes + taken_by(what) > UnlookedMemory::kMostBytes || together.size() >= kMostTogether) &&
        !look()) {
      return any;
    }
    bytes += taken_by(what);
    together.push_back(std::move(what));
  }
  (void)look();
  return any;
}

void note_given(const Session& session, CuStream stream, std::uint64_t kernel,
                const LaunchHash& launch, std::span<const CudaOperand> operands) {
  static thread_local Noted noted;
  UnlookedMemory& unlooked = UnlookedMemory::of_program();
  if (noted.put(launch, unlooked.forgotten(), tables_now())) {
    return;
  }
  if (!unlooked.may_write(AddressWriter::kernel(kernel, false)) &&
      !unlooked.may_write(AddressWriter::kernel(kernel, true))) {
    return;
  }
  std::vector<std::pair<std::uint64_t, AddressRange>> given;  // by allocation
  std::unordered_map<std::uint64_t, std::size_t> starts;
  for (const CudaOperand& operand : operands) {
    if (const auto holder = holder_of(session, operand)) {
      starts.emplace(holder->start, 0);
      if (writes(operand.mode)) {
        given.emplace_back(holder->start,
                           within({.start = operand.address, .bytes = operand.bytes}, *holder));
      }
    }
  }
  const AddressWriter writer = AddressWriter::kernel(kernel, !holders_among(starts).empty());
  for (const auto& [allocation, bytes] : given) {
    unlooked.note(writer, allocation, bytes, stream);
  }
}

void note_unscanned(const Session& session, const AddressRange& bytes) {
  if (bytes.bytes <= UnlookedMemory::kMostBytes) {
    if (const auto holder = session.platform->memory().allocation_of(bytes.start)) {
      UnlookedMemory::of_program().note(AddressWriter::copies_to(holder->start), holder->start,
                                        within(bytes, *holder), std::nullopt);
    }
  }
}

}  // namespace spillway::cuda
