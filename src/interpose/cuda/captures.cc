// See captures.h.
#include "interpose/cuda/captures.h"

#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "interpose/cuda/hooks/hook_table.h"
#include "interpose/cuda/operands/pointer_tables.h"

namespace spillway::cuda {
namespace detail {

constinit std::atomic<int> captures{0};

bool stream_is_captured(CuStream stream) {
  CuCaptureStatus status = CuCaptureStatus::kNone;
  return real().cuStreamIsCapturing(stream, &status) == CuResult::kSuccess &&
         status != CuCaptureStatus::kNone;
}

}  // namespace detail

class Capture {
 public:
  explicit Capture(const Session& session) : session_(session) {}
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture();

  std::optional<std::uint64_t> take_freed(Bytes size, CuStream stream);
  void add(std::uint64_t address, Bytes size, CuStream stream) {
    memory_[address] = {.size = size, .stream = stream, .freed = false};
  }
  // It was there before, and the program has freed it here: a kernel before that may use it.
  void add_freed(std::uint64_t address) { memory_[address].freed = true; }
  void forget_memory() {
    memory_.clear();
    freed_.clear();
  }
  // `again`: an allocation on this stream may have it, since the graph keeps the stream's order.
  void free(std::uint64_t address, std::optional<CuStream> again);

 private:
  struct Memory {
    Bytes size = 0;
    CuStream stream = nullptr;
    bool freed = false;
  };
  const Session& session_;
  std::unordered_map<std::uint64_t, Memory> memory_;
  std::multimap<std::pair<CuStream, Bytes>, std::uint64_t> freed_;
};

namespace {

// Everything about captures, which are rare.
struct All {
  Mutex mutex;
  // By the driver's number: those under way, each with its stream's context, and of those with
  // memory what it is.
  std::unordered_map<std::uint64_t, CuContext> contexts SPILLWAY_GUARDED_BY(mutex);
  std::unordered_map<std::uint64_t, std::shared_ptr<Capture>> under_way SPILLWAY_GUARDED_BY(mutex);
  // By address.
  std::unordered_map<std::uint64_t, std::weak_ptr<Capture>> owners SPILLWAY_GUARDED_BY(mutex);
  std::unordered_map<CuGraph, Captures> graphs SPILLWAY_GUARDED_BY(mutex);
};
All& all() {
  static auto* const it = new All;  // threads of the program may run until the very end
  return *it;
}
std::atomic<bool> any_owner{false};

std::shared_ptr<Capture> under_way_on(const Session& session, CuStream stream)
    SPILLWAY_REQUIRES(all().mutex) {
  CuCaptureStatus status = CuCaptureStatus::kNone;
  std::uint64_t id = 0;
  (void)real().cuStreamGetCaptureInfo(stream, &status, &id);
  std::shared_ptr<Capture>& capture = all().under_way[id];
  if (capture == nullptr) {
    capture = std::make_shared<Capture>(session);
  }
  return capture;
}

}  // namespace

// With the lock of all captures held.
std::optional<std::uint64_t> Capture::take_freed(Bytes size, CuStream stream) {
  const auto found = freed_.find({stream, size});
  if (found == freed_.end()) {
    return std::nullopt;
  }
  const std::uint64_t address = found->second;
  freed_.erase(found);
  memory_[address].freed = false;
  return address;
}

void Capture::free(std::uint64_t address, std::optional<CuStream> again) {
  Memory& memory = memory_[address];
  if (std::exchange(memory.freed, true)) {
    return;
  }
  if (again && *again == memory.stream && memory.size > 0) {
    freed_.emplace(std::pair(memory.stream, memory.size), address);
  }
}

Capture::~Capture() {
  for (const auto& [address, memory] : memory_) {
    all().owners.erase(address);
    if (memory.freed) {
      forget_carried(address);
      session_.heap->free(address, std::nullopt);
    }
  }
}

void capture_begins() { detail::captures.fetch_add(1); }

void capture_refused() { detail::captures.fetch_sub(1); }

void capture_begun(CuStream stream) {
  const EndingCapture begun = capture_to_end(stream);
  if (!begun.under_way) {  // another thread has ended it already
    capture_refused();
    return;
  }
  CuContext context = nullptr;
  if (real().cuStreamGetCtx(stream, &context) != CuResult::kSuccess) {
    (void)real().cuCtxGetCurrent(&context);
  }
  const MutexLock lock(all().mutex);
  all().contexts[begun.id] = context;
}

EndingCapture capture_to_end(CuStream stream) {
  CuCaptureStatus status = CuCaptureStatus::kNone;
  EndingCapture capture;
  if (real().cuStreamGetCaptureInfo(stream, &status, &capture.id) == CuResult::kSuccess) {
    capture.under_way = status != CuCaptureStatus::kNone;
  }
  return capture;
}

void capture_ended(const EndingCapture& capture, CuStream stream, CuGraph graph) {
  if (!capture.under_way || detail::stream_is_captured(stream)) {
    return;
  }
  const MutexLock lock(all().mutex);
  if (all().contexts.erase(capture.id) > 0) {
    detail::captures.fetch_sub(1);
  }
  auto ended = all().under_way.extract(capture.id);
  if (!ended.empty() && graph != nullptr) {
    all().graphs[graph].push_back(std::move(ended.mapped()));
  }
}

void end_captures_of(CuContext context) {
  const MutexLock lock(all().mutex);
  std::erase_if(all().contexts, [&](const auto& capture) SPILLWAY_REQUIRES(all().mutex) {
    const bool its = capture.second == context;
    if (its) {
      all().under_way.erase(capture.first);
      detail::captures.fetch_sub(1);
    }
    return its;
  });
}

Result<std::uint64_t> allocate_captured(const Session& session, Bytes bytes, CuStream stream) {
  const MutexLock lock(all().mutex);
  const std::shared_ptr<Capture> capture = under_way_on(session, stream);
  const Bytes size = DeviceHeap::size_of(bytes);
  if (const std::optional<std::uint64_t> freed = capture->take_freed(size, stream)) {
    return *freed;
  }
  Result<std::uint64_t> address = session.heap->allocate(size, std::nullopt);
  if (address) {
    capture->add(*address, size, stream);
    all().owners[*address] = capture;
    any_owner = true;
  }
  return address;
}

bool free_captured(const Session& session, std::uint64_t address, std::optional<CuStream> stream) {
  if (!stream && !any_owner.load(std::memory_order_relaxed)) {
    return false;
  }
  const MutexLock lock(all().mutex);
  if (const auto owner = all().owners.find(address); owner != all().owners.end()) {
    if (const std::shared_ptr<Capture> capture = owner->second.lock()) {
      capture->free(address, stream);
      return true;
    }
  }
  if (!stream || !session.heap->bytes_of(address)) {
    return false;
  }
  const std::shared_ptr<Capture> capture = under_way_on(session, *stream);
  capture->add_freed(address);
  all().owners[address] = capture;
  any_owner = true;
  return true;
}

void forget_captured_memory() {
  const MutexLock lock(all().mutex);
  for (const auto& [address, owner] : all().owners) {
    if (const std::shared_ptr<Capture> capture = owner.lock()) {
      capture->forget_memory();
    }
  }
  all().owners.clear();
}

Captures captures_of(CuGraph graph) {
  const MutexLock lock(all().mutex);
  const auto found = all().graphs.find(graph);
  return found == all().graphs.end() ? Captures() : found->second;
}

void set_captures(CuGraph graph, Captures captures) {
  const MutexLock lock(all().mutex);
  all().graphs[graph] = std::move(captures);
}

void forget_graph(CuGraph graph) {
  const MutexLock lock(all().mutex);
  all().graphs.erase(graph);
}

void give_up(Captures captures) {
  const MutexLock lock(all().mutex);
  captures.clear();
}

}  // namespace spillway::cuda
