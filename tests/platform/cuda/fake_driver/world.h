// All of the fake driver's state, and what every call begins and ends with. Fake driver.
// One mutex guards everything; it is let go while a stream works and while a call waits.
#pragma once

#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device_memory.h"
#include "host_memory.h"
#include "platform/cuda/driver/driver_calls.h"
#include "program_calls.h"
#include "report.h"
#include "stream.h"

// The exported calls have the signatures of the table, or do not compile.
#define FAKE_CUDA_DECLARE(field, symbol, since, parameters) \
  extern "C" spillway::cuda::CuResult symbol parameters;
namespace fake_cuda {
using namespace spillway::cuda;  // NOLINT(google-build-using-namespace): all of its types are used
SPILLWAY_CUDA_CALLS(FAKE_CUDA_DECLARE)
#define FAKE_CUDA_DECLARE_MORE(symbol, since, parameters) \
  extern "C" spillway::cuda::CuResult symbol parameters;
FAKE_PROGRAM_CALLS(FAKE_CUDA_DECLARE_MORE)
#undef FAKE_CUDA_DECLARE_MORE
}  // namespace fake_cuda
#undef FAKE_CUDA_DECLARE

namespace fake_cuda {

enum class Chance {
  kCreate,
  kHostMemory,
  kCopyRefused,
  kCopyBreaks,
  kCopySlow,
  kStreamStands,
  kAccess
};
inline constexpr std::size_t kChances = 7;

enum class Needs { kNothing, kInit, kContext };

// Who calls, for as long as the call lasts.
struct Caller {
  const char* call;
  std::unique_lock<std::mutex>& lock;
  std::shared_ptr<Context> context{};  // the current one; may be nullptr
  bool opens_gates = false;
};

// What runs at this moment.
struct Running {
  const Op* op;
  std::vector<Range> ranges;
  std::int64_t until_ns = 0;  // when it is to end
};

std::int64_t now_ns();

struct MemoryPool {
  CuLocation location{.type = CuLocationType::kDevice, .id = 0};
  std::uint64_t release_threshold_bytes = 0;
};

class World {
 public:
  World();

  std::mutex mutex;
  std::condition_variable progress;  // an operation has ended, or something like it

  FakeCudaConfig config{};
  std::int64_t access_passes = -1;  // fake_cuda_let_access
  int access_stands = 0;
  Report report;
  std::unique_ptr<DeviceMemory> memory;
  std::unique_ptr<HostMemory> host;
  bool initialized = false;
  bool stopping = false;
  std::uint64_t generation = 1;  // counts resets
  std::int64_t ended_ns = 0;     // when the last operation did
  std::map<int, int> attributes;
  std::map<const void*, std::uint64_t> opaque;  // arrays and imports -> handles of their memory
  std::uint64_t unseen_bytes = 0;               // fake_cuda_use_unseen

  std::shared_ptr<Context> primary;
  std::map<CuContext, std::shared_ptr<Context>> contexts;
  std::map<CuStream, std::shared_ptr<Stream>> streams;  // those with a handle
  std::vector<std::shared_ptr<Stream>> alive;           // all that have a thread
  std::map<CuEvent, std::shared_ptr<Event>> events;
  std::vector<std::unique_ptr<Kernel>> kernels;
  std::unordered_map<const void*, const Kernel*> kernel_handles;
  std::map<std::uint64_t, std::uint64_t> allocated;  // by cuMemAlloc: address -> bytes
  std::map<std::uint64_t, CuAllocationProperties> handle_properties;  // by cuMemCreate, ever
  std::map<std::uint64_t, const Context*> owners;  // of those; what is a pool's has none
  std::list<Running> running;
  std::map<CuGraph, std::shared_ptr<Graph>> graphs;
  std::map<CuGraphExec, std::shared_ptr<Graph>> executables;
  std::uint64_t captures = 0;  // so far
  MemoryPool default_pool;
  CuMemPool default_pool_handle = nullptr;  // nullptr: the first one
  std::map<CuMemPool, MemoryPool> pools;    // of the program's own
  CuMemPool current_pool = nullptr;         // nullptr: the default one

  // --- world.cc
  void reset(const FakeCudaConfig& to);
  [[nodiscard]] CuResult begin(Caller& caller, Needs needs);
  void end(const Caller& caller, CuResult result, const std::string& arguments);
  [[nodiscard]] bool happens(Chance kind, double rate);
  [[nodiscard]] int connections() const;
  [[nodiscard]] std::uint64_t free_device_bytes() const;
  template <typename Handle>
  Handle new_handle() {
    return reinterpret_cast<Handle>(next_handle_ += 16);  // NOLINT(performance-no-int-to-ptr)
  }

  // --- memory_calls.cc
  void forget_memory(std::uint64_t address);
  // What this context has allocated; nullptr: pools.
  void forget_memory_of(const Context* context);

  // --- contexts.cc
  std::shared_ptr<Context> make_context(bool is_primary, unsigned flags);
  void end_context(Context& context);

  // --- streams.cc: its thread.
  std::shared_ptr<Stream> make_stream(std::shared_ptr<Context> context, CuStream handle,
                                      bool blocking);
  void run(const std::shared_ptr<Stream>& stream);
  // Something has changed that streams or calls may wait for.
  void moved();
  [[nodiscard]] bool value_holds(const Op& op) const;
  // Whether stream waits on other streams hold it up.
  [[nodiscard]] bool no_connection(const Stream& stream, const Op& op) const;

  // --- execute.cc: an operation, at the front of its stream.
  void execute(std::unique_lock<std::mutex>& lock, Stream& stream, Op& op);
  // Why a value cannot be there; empty if it can.
  [[nodiscard]] std::string value_problem(std::uint64_t address) const;

  // --- waits.cc: calls that wait.
  // Waits until all have been passed. With a context, other threads' work on it is stuck meanwhile.
  [[nodiscard]] CuResult wait_for(Caller& caller, const std::vector<Point>& points,
                                  Context* locks = nullptr);
  // The same for one that waits for everything, or for nothing but a pending stream wait anywhere.
  [[nodiscard]] CuResult drain(Caller& caller, Context& context, bool locks);
  // Whether who waits since then has seen no operation end for `stuck_after_ns`.
  [[nodiscard]] bool nothing_ends(std::int64_t began_ns) const;
  // Until no other thread holds the context's lock.
  [[nodiscard]] CuResult wait_for_lock(Caller& caller, Context& context);
  // Until nothing runs there; that something does is reported.
  void wait_until_unused(Caller& caller, const Range& range);
  // Whether it will not be passed before somebody satisfies a stream wait.
  [[nodiscard]] bool gated(const Point& point) const;
  [[nodiscard]] std::vector<Point> all_of(const Context& context) const;

  // --- graph_calls.cc
  // A call that may wait for the device, or change its addresses: refused beside captures, as their
  // modes and the thread's say, and such a capture is spoilt.
  [[nodiscard]] CuResult unsafe_beside_captures();
  // The same for one that waits for all streams of a context.
  [[nodiscard]] CuResult waits_beside_captures(const Context& context);

  // --- submit.cc
  [[nodiscard]] CuResult find_stream(Caller& caller, CuStream handle,
                                     std::shared_ptr<Stream>* found);
  // Puts the operation on the stream; with `waits` returns when it has ended.
  [[nodiscard]] CuResult submit(Caller& caller, CuStream stream, Op op, bool waits = false);

 private:
  // What is known already; true while it is being found out, so that what waits for itself waits.
  using Seen = std::map<std::pair<const Stream*, std::uint64_t>, bool>;
  [[nodiscard]] bool gated(const Stream& stream, std::uint64_t number, Seen& seen) const;
  [[nodiscard]] bool to_be_written(const Op& wait, Seen& seen) const;
  [[nodiscard]] bool may_start(Stream& stream, Op& op, std::int64_t now);
  void stand(std::unique_lock<std::mutex>& lock, Stream& stream, const Op& op, std::int64_t now);
  [[nodiscard]] std::vector<Range> ranges_of(const Op& op) const;

  std::uint64_t next_handle_ = 0x10000;
  std::uint64_t drawn_[kChances] = {};
};

World& world();

// Memory that is mapped from its allocation to its free, which may wait for everything.
// memory_calls.cc
[[nodiscard]] CuResult allocate(World& w, CuAddress* address, std::size_t bytes);
[[nodiscard]] CuResult free(World& w, Caller& caller, CuAddress address, bool waits);

// A kernel with its parameters, to be put somewhere. work_calls.cc
[[nodiscard]] CuResult kernel_op(World& w, const Caller& caller, CuFunction function,
                                 const CuLaunchConfig& config, void** parameters, void** extra,
                                 Op* op);
// graph_calls.cc: nodes are addresses of operations.
[[nodiscard]] CuResult find_graph(World& w, const Caller& caller, CuGraph handle,
                                  std::shared_ptr<Graph>* graph);
[[nodiscard]] CuGraphNode node_of(const Op& op);
[[nodiscard]] Op& op_of(CuGraphNode node);
// What runs when the graph does; a copy for others to change.
[[nodiscard]] std::shared_ptr<Graph> executable(const Graph& graph);
[[nodiscard]] std::shared_ptr<Graph> clone(const Graph& graph);

// Of this thread.
struct ThreadState {
  std::uint64_t generation = 0;
  std::vector<std::shared_ptr<Context>> current;  // the last one counts
  bool opens_gates = false;
  bool never_opens_gates = false;
  bool runs_a_stream = false;
  unsigned capture_mode = 0;
};
ThreadState& this_thread();  // after a reset as if it were new

// What every exported call consists of. `arguments` makes their text, `body` the result.
template <typename Arguments, typename Body>
CuResult call(const char* name, Needs needs, const Arguments& arguments, const Body& body) {
  World& w = world();
  std::unique_lock lock(w.mutex);
  Caller caller{name, lock};
  CuResult result = w.begin(caller, needs);
  if (result == CuResult::kSuccess) {
    result = body(w, caller);
  }
  w.end(caller, result, w.config.log_calls != 0 ? arguments() : std::string());
  return result;
}

// The arguments' text, made when it is needed.
template <typename... Args>
auto text(fmt::format_string<Args...> format, Args... args) {
  return [of = fmt::string_view(format), args...] {
    return fmt::vformat(of, fmt::make_format_args(args...));
  };
}

template <typename T>
const void* shown(T* handle) {
  return handle;
}

}  // namespace fake_cuda
