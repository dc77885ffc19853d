// See bypassed_calls.h.
#include "platform/cuda/bypass/bypassed_calls.h"

#include <algorithm>

namespace spillway::cuda {

// What a thread of the program remembers of the last it made calls of: in practice there is one.
struct BypassedCalls::Mine {
  Thread* thread = nullptr;
  std::shared_ptr<Threads> threads;  // so that `thread` stays
  Mine() = default;
  Mine(const Mine&) = delete;
  Mine& operator=(const Mine&) = delete;
  ~Mine();
  void leave() {
    if (thread != nullptr) {
      thread->taken.store(false, std::memory_order_release);
    }
  }
};

namespace {

std::atomic<std::uint64_t> serials{0};
// Destructors of the thread's other objects may still make calls.
constinit thread_local bool remembers_nothing = false;
// What `mine` gave last, and whose that is (0: nothing): at a fixed place of the thread's own,
// where each call of the program looks without asking for the thread's objects.
__attribute__((tls_model("initial-exec"))) constinit thread_local std::uint64_t last_serial = 0;
__attribute__((tls_model("initial-exec"))) constinit thread_local void* last_thread = nullptr;

}  // namespace

BypassedCalls::Mine::~Mine() {
  leave();
  last_serial = 0;
  remembers_nothing = true;
}

bool BypassedCalls::thread_ends() { return remembers_nothing; }

BypassedCalls::BypassedCalls() : serial_(++serials) {}

BypassedCalls::Thread* BypassedCalls::mine() {
  if (last_serial == serial_) {
    return static_cast<Thread*>(last_thread);
  }
  if (remembers_nothing) {
    return nullptr;
  }
  static thread_local Mine here;
  here.leave();
  const MutexLock lock(threads_->mutex);
  const auto left = std::find_if(threads_->all.begin(), threads_->all.end(), [](const Thread& it) {
    return !it.taken.load(std::memory_order_acquire) &&
           it.state.load(std::memory_order_relaxed) == kOut;
  });
  here.thread = left != threads_->all.end() ? &*left : &threads_->all.emplace_back();
  here.thread->taken.store(true, std::memory_order_relaxed);
  here.threads = threads_;
  last_serial = serial_;
  last_thread = here.thread;
  return here.thread;
}

BypassedCalls::Begun BypassedCalls::begin(CuStream stream, CuContext context) {
  Thread* const me = mine();
  // What stands in the record is of this thread's last call; nobody else writes it. Whoever closes
  // bypass mode takes a call for one on that stream, so it must not begin on another.
  if (me == nullptr || me->epoch == 0 || me->stream != stream || me->context != context) {
    return Begun::kTracked;
  }
  me->state.store(kIn, std::memory_order_seq_cst);
  if (open_.load(std::memory_order_seq_cst) == me->epoch) {
    count(*me);
    return Begun::kBypassed;
  }
  // Whoever closed bypass mode may have taken this for a call of it.
  std::uint8_t in = kIn;
  if (!me->state.compare_exchange_strong(in, kOut, std::memory_order_seq_cst)) {
    return Begun::kMarked;
  }
  return Begun::kTracked;
}

bool BypassedCalls::end() {
  std::uint8_t in = kIn;
  return mine()->state.compare_exchange_strong(in, kOut, std::memory_order_seq_cst);
}

void BypassedCalls::begin_seen(CuStream stream, CuContext context, StreamId id) {
  Thread& me = *mine();
  me.stream = stream;
  me.context = context;
  me.id = id;
  me.epoch = epoch_;
  me.state.store(kIn, std::memory_order_seq_cst);
  count(me);
}

void BypassedCalls::close(const std::function<std::uint32_t(StreamId)>& mark) {
  open_.store(0, std::memory_order_seq_cst);
  const MutexLock lock(threads_->mutex);
  for (Thread& thread : threads_->all) {
    std::uint8_t in = kIn;
    // Its thread comes for the mark under the lock that we are called with.
    if (thread.epoch == epoch_ &&
        thread.state.compare_exchange_strong(in, kMarked, std::memory_order_seq_cst)) {
      thread.mark = mark(thread.id);
    }
  }
}

std::uint32_t BypassedCalls::take_mark() {
  Thread& me = *mine();
  me.state.store(kOut, std::memory_order_seq_cst);
  return me.mark;
}

std::uint64_t BypassedCalls::calls() const {
  const MutexLock lock(threads_->mutex);
  std::uint64_t calls = 0;
  for (const Thread& thread : threads_->all) {
    calls += thread.calls.load(std::memory_order_relaxed);
  }
  return calls;
}

}  // namespace spillway::cuda
