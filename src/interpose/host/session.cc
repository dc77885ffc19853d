// See session.h.
#include "interpose/host/session.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "interpose/host/itt_handles.h"
#include "interpose/host/mappings/direct_io.h"
#include "interpose/host/mappings/limits.h"
#include "interpose/host/mappings/wiped_pages.h"
#include "interpose/host/next.h"
#include "interpose/host/process/ending.h"
#include "interpose/host/process/fork_order.h"
#include "interpose/host/process/last_thread.h"
#include "platform/common/process/own_descriptors.h"
#include "platform/common/process/say.h"
#include "platform/common/process/service_thread.h"
#include "runtime/record/own_record.h"

namespace spillway::preload {
namespace {

constexpr std::size_t kDefaultThreshold = kMiB;
// Of addresses, that the space may take beside those that it begins with.
constexpr std::size_t kLaterBytes = 256 * kMiB;

// Never destroyed: threads of the program may run until the very end.
struct Everything {
  std::unique_ptr<ProgramSpace> space;
  std::unique_ptr<LargeHeap> heap;
  std::unique_ptr<RunRecorder> recorder;
  Session session;
};

Mutex making;
std::atomic<Everything*> made{nullptr};
std::atomic<bool> forked_child{false};
pid_t owner = 0;
std::atomic<bool> frames_are_kept{true};
std::atomic<bool> pins_are_expected{false};

// The space that this process has; nullptr in the child of a fork, which sees its parent's.
Everything* own() {
  Everything* const everything = made.load();
  // A child that a bare system call has made, or vfork, has been told nothing.
  return everything == nullptr || forked_child.load(std::memory_order_relaxed) ||
                 owner != ::getpid()
             ? nullptr
             : everything;
}

// Until this library has been set up, the C library's memory is good enough for everything.
std::atomic<std::size_t> threshold{~std::size_t{0}};

__attribute__((constructor)) void set_up() {
  const InService inside;
  watch_main_thread();
  look_for_allocators();
  find_next_functions();
  register_fork_handlers();
  const char* const text = std::getenv("SPILLWAY_THRESHOLD");
  const Result<Bytes> bytes = parse_bytes(text == nullptr ? "" : text);
  threshold = bytes ? std::max<std::size_t>(*bytes, kPageBytes) : kDefaultThreshold;
}

// Of the program's table; -1: none.
std::atomic<int> kept_descriptor{-1};

void tell(ProgramPlatform& platform) {
  if (!frames_are_kept) {
    platform.process().keep_no_frames();
  }
  if (pins_are_expected) {
    platform.process().expect_pins();
  }
}

std::unique_ptr<Everything> make_here() {
  const MemoryRoom room = MemoryLimits().room();
  Result<SpaceOptions> options = space_options_from_environment(host_defaults(room));
  if (options) {
    // `spillway run` has done so: others may have taken memory since.
    if (const std::string lowered = fit_into(room, *options); !lowered.empty()) {
      say(lowered);
    }
  }
  Result<std::unique_ptr<ProgramSpace>> space =
      options ? ProgramSpace::open(*options) : tl::unexpected<Error>(options.error());
  if (!space) {
    end_run(space.error().message);
  }
  auto everything = std::make_unique<Everything>();
  everything->space = std::move(*space);
  everything->heap = std::make_unique<LargeHeap>(everything->space->platform());
  everything->recorder = std::make_unique<RunRecorder>(*everything->space, own_live_file());
  everything->session = {.space = everything->space.get(), .heap = everything->heap.get()};
  prepare_ending(
      [made_here = everything.get()] { made_here->space->platform().process().before_end(); },
      [made_here = everything.get()] {
        if (IterationCapture* const capture = made_here->space->capture()) {
          capture->finish();
        }
        write_own_record(*made_here->recorder);
      });
  return everything;
}

Everything* make() {
  const InService inside;
  note_open_descriptors();
  const std::size_t mapped_before = mapped_bytes();
  std::unique_ptr<Everything> everything;
  std::vector<int> shared;
  with_own_descriptors([&] {
    everything = make_here();
    shared = everything->space->platform().process().descriptors();
    return shared;
  });
  kept_descriptor = shared.empty() ? -1 : shared.front();
  owner = ::getpid();
  space_takes(mapped_bytes() - mapped_before + kLaterBytes);
  return everything.release();
}

__attribute__((destructor)) void at_exit() { before_end(); }

}  // namespace

// A fork is made with the locks held, if there is anything yet that has them: clang does not follow
// them from one of these to the other.
void before_fork() SPILLWAY_NO_THREAD_SAFETY_ANALYSIS {
  const InService inside;
  hold_handles_for_fork();
  making.lock();
  if (Everything* const everything = own()) {
    note_wiped_pages(*everything->heap);
    everything->heap->before_fork();
    everything->space->platform().process().before_fork();
  }
}

void after_fork() SPILLWAY_NO_THREAD_SAFETY_ANALYSIS {
  const InService inside;
  if (Everything* const everything = own()) {
    everything->space->platform().process().after_fork();
    everything->heap->after_fork();
  }
  making.unlock();
  let_handles_go();
}

// The child sees the space's memory, and its parent answers its faults; nothing else of the space
// is there: neither its threads nor its frames. New memory is the C library's. If there was no
// space yet, the child makes one as any program does.
void in_child() SPILLWAY_NO_THREAD_SAFETY_ANALYSIS {
  const InService inside;
  forget_service_threads();
  watch_main_thread_of_child();
  Everything* const everything = made.load();
  if (everything != nullptr) {
    const bool of_a_child = forked_child.exchange(true);
    everything->space->platform().process().in_child();
    wipe_pages_of_child();
    if (!of_a_child) {
      everything->heap->after_fork();
    }
  }
  making.unlock();
  let_handles_go();
}

std::size_t threshold_bytes() { return threshold.load(std::memory_order_relaxed); }

Session* session(bool wanted) {
  if (made.load() != nullptr || !wanted) {
    Everything* const everything = own();
    return everything == nullptr ? nullptr : &everything->session;
  }
  const InService inside;
  const MutexLock lock(making);
  Everything* everything = made.load(std::memory_order_acquire);
  if (everything == nullptr) {
    everything = make();
    made.store(everything);
    tell(everything->space->platform());  // what was set before it could be told
  }
  return &everything->session;
}

RunRecord record_so_far() {
  if (Everything* const everything = own()) {
    return everything->recorder->so_far();
  }
  RunRecord record;
  record.pid = static_cast<std::uint64_t>(::getpid());
  return record;
}

void make_no_space() { threshold = ~std::size_t{0}; }

void keep_no_frames() {
  frames_are_kept = false;
  if (Session* const here = session(false)) {
    tell(here->space->platform());
  }
}

void expect_pins() {
  pins_are_expected = true;
  if (Session* const here = session(false)) {
    tell(here->space->platform());
  }
}

bool may_promise(std::size_t bytes) {
  if (bytes < threshold_bytes() || in_service()) {
    return true;
  }
  Session* const here = session(true);
  if (here == nullptr) {
    return true;
  }
  const InService inside;
  ProgramPlatform& platform = here->space->platform();
  Bytes room_bytes = 0;
  for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kStorage}) {
    room_bytes += platform.capacity_bytes(tier);
  }
  return bytes <= room_bytes / 2;
}

int kept_from_program() {
  const int fd = kept_descriptor.load(std::memory_order_relaxed);
  return fd < 0 || own() == nullptr ? -1 : fd;
}

std::size_t usable_bytes(void* start) {
  const InService inside;
  const Everything* const everything = made.load(std::memory_order_acquire);
  return everything == nullptr ? 0 : everything->heap->usable_bytes(start);
}

bool in_space(const void* address) {
  const Everything* const everything = made.load(std::memory_order_acquire);
  return everything != nullptr && everything->space->platform().contains(address);
}

}  // namespace spillway::preload
