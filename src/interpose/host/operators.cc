// Operators of PyTorch as launches. Layer: interpose, host.
// PyTorch's CPU builds tell Intel's instrumentation interface (ITT) when an operator begins, once
// emit_itt is on (python/spillway/sitecustomize.py turns it on); this library is what they tell.
// The interface is C and documented by Intel; INTEL_LIBITTNOTIFY64 names this library to it. No
// header of PyTorch, and no compiler on the user's machine.
#include <pthread.h>

#include <atomic>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "interpose/host/announced_operators.h"
#include "interpose/host/itt_handles.h"
#include "interpose/host/session.h"
#include "platform/common/process/current_module.h"
#include "platform/common/process/service_thread.h"
#include "policy/prediction/launch_positions.h"

namespace spillway::preload {
namespace {

// Tasks that are no launches: operators that only describe memory that is there already or allocate
// it, and those that only call others, which arrive by themselves. They touch nothing, so they
// would only take places among the next N. An operator that is in neither list and touches nothing
// costs such a place, no more.
bool touches_memory(std::string_view name) {
  static const std::unordered_set<std::string_view> quiet{"aten::view",
                                                          "aten::_unsafe_view",
                                                          "aten::t",
                                                          "aten::transpose",
                                                          "aten::as_strided",
                                                          "aten::expand",
                                                          "aten::slice",
                                                          "aten::narrow",
                                                          "aten::select",
                                                          "aten::unsqueeze",
                                                          "aten::squeeze",
                                                          "aten::permute",
                                                          "aten::detach",
                                                          "detach",
                                                          "aten::alias",
                                                          "aten::_reshape_alias",
                                                          "aten::split",
                                                          "aten::split_with_sizes",
                                                          "aten::chunk",
                                                          "aten::unbind",
                                                          "aten::resolve_conj",
                                                          "aten::resolve_neg",
                                                          "aten::result_type",
                                                          "aten::set_",
                                                          "aten::diagonal",
                                                          "aten::unfold",
                                                          "aten::movedim",
                                                          "aten::swapaxes",
                                                          "aten::view_as",
                                                          "aten::expand_as",
                                                          "aten::numpy_T",
                                                          "aten::mT",
                                                          "aten::lift_fresh",
                                                          "aten::is_same_size",
                                                          "aten::empty",
                                                          "aten::empty_like",
                                                          "aten::empty_strided",
                                                          "aten::new_empty",
                                                          "aten::new_empty_strided",
                                                          "aten::resize_",
                                                          "aten::reshape",
                                                          "aten::flatten",
                                                          "aten::contiguous",
                                                          "aten::to",
                                                          "aten::_to_copy",
                                                          "aten::linear",
                                                          "aten::matmul",
                                                          "aten::dropout",
                                                          "aten::layer_norm",
                                                          "aten::cross_entropy_loss",
                                                          "aten::nll_loss",
                                                          "aten::nll_loss_nd",
                                                          "aten::log_softmax",
                                                          "aten::softmax",
                                                          "aten::scaled_dot_product_attention",
                                                          "aten::item",
                                                          "PythonDispatchMode"};
  return !quiet.contains(name) && !name.starts_with("autograd::engine::evaluate_function") &&
         !name.starts_with("spillway::");  // python/spillway/autovm
}

// How the Python side hears that operands are wanted of a program that never asks: its interpreter
// calls `callback` soon, between two of its instructions, when `add_pending` (Py_AddPendingCall,
// which any thread may call at any time) has been told to.
class InterpreterWishes {
 public:
  using Callback = int (*)(void*);
  using AddPending = int (*)(Callback, void*);

  void follow(AddPending add_pending, Callback callback) {
    add_pending_ = add_pending;
    callback_ = callback;
  }
  // Not heard if the interpreter has too much to do now; ProgramSpace asks again.
  void wish() {
    const AddPending add_pending = add_pending_;
    const Callback callback = callback_;
    if (add_pending != nullptr && callback != nullptr) {
      (void)add_pending(callback, nullptr);
    }
  }

 private:
  std::atomic<AddPending> add_pending_{nullptr};
  std::atomic<Callback> callback_{nullptr};
};

InterpreterWishes& interpreter_wishes() {
  static InterpreterWishes wishes;
  return wishes;
}

// What one thread launches. Operators that say what they use arrive twice: NAME, in it
// PythonDispatchMode, in that NAME again, and that second one is no launch.
class Stream {
 public:
  void begin(std::string_view name) {
    const bool again = name == repeated_;
    if (name == "PythonDispatchMode" && depth_ > 0) {
      repeated_ = open_[depth_ - 1].name;
    } else if (again) {
      repeated_.clear();
    }
    if (depth_ == open_.size()) {
      open_.emplace_back();
    }
    const bool launches = !again && touches_memory(name);
    open_launches_ += launches ? 1U : 0U;
    open_[depth_].name = name;
    open_[depth_++].launches = launches;
    if (!launches) {
      return;
    }
    const LaunchHash hash = positions_.next(name, name.starts_with("Optimizer.step#"));
    current_ = hash.first;
    allocations_ = 0;
    if (Session* const here = session(false)) {
      IterationCapture* const capture = here->space->capture();
      if (capture != nullptr) {
        capture->launched(name, told_.launch_begins());
      }
      if (const std::uint64_t before = positions_.found_after();
          before > 0 && here->space->iteration_found(before)) {
        interpreter_wishes().wish();
      }
      here->space->platform().mark_launch(hash, name, here->space->watches());
      if (capture != nullptr) {
        mark(*here, told_.take());
      }
    }
  }
  void end() {
    if (depth_ > 0) {
      open_launches_ -= open_[--depth_].launches ? 1U : 0U;
    }
  }
  // While an iteration is captured, operands go to the launches that use them.
  void tell(Session& session, AnnouncedOperators::Operands operands) {
    constexpr std::size_t kItself = 2;  // in which PythonDispatchMode is open
    const bool launched = depth_ >= kItself && open_[depth_ - kItself].launches;
    mark(session, told_.begin(launched, std::move(operands)));
  }
  void tell_results(Session& session, AnnouncedOperators::Operands operands) {
    mark(session, told_.end(std::move(operands)));
  }
  static void mark(Session& session, std::span<const spillway_operand> operands) {
    for (const spillway_operand& operand : operands) {
      session.space->platform().mark_access(operand.address, operand.bytes, operand.writes != 0);
    }
  }
  // Outside of all operators nobody knows who asks, nor what will be written.
  [[nodiscard]] LargeHeap::Asker next_asker() {
    constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15ULL;
    if (current_ == 0 || depth_ == 0) {
      return {};
    }
    return {.place = current_ + ++allocations_ * kOdd, .writes_all = open_launches_ > 0};
  }

 private:
  LaunchPositions positions_;
  AnnouncedOperators told_;
  struct Task {
    std::string name;
    bool launches = false;
  };
  std::vector<Task> open_;         // the tasks that are open, and room for more
  std::size_t open_launches_ = 0;  // how many are
  std::size_t depth_ = 0;
  std::string repeated_;
  std::uint64_t current_ = 0;      // of the latest launch
  std::uint64_t allocations_ = 0;  // since it began
};

// The launches of one thread are told, the first that launches anything: one stream, as on a
// device. nullptr for all others, and before that.
Stream* stream(bool launches = false) {
  static Stream the_stream;
  static std::atomic<bool> taken{false};
  __attribute__((tls_model("initial-exec"))) static thread_local bool ours = false;
  if (!ours && launches && !taken.load(std::memory_order_relaxed)) {
    ours = !taken.exchange(true);
  }
  return ours ? &the_stream : nullptr;
}

// A recording that wants to know what operators use.
struct Recorded {
  Session& session;
  Stream& stream;
  IterationCapture& capture;
};

// Where none does, the next launch is marked with the operands, for the policy. Nothing at all
// where the program uses no memory of ours.
std::optional<Recorded> record_or_mark(std::span<const spillway_operand> operands) {
  Session* const here = session(false);
  Stream* const own = stream();
  if (here == nullptr || own == nullptr) {
    return std::nullopt;
  }
  IterationCapture* const capture = here->space->capture();
  if (capture == nullptr || !capture->wants_operands()) {
    here->space->operands_told();
    Stream::mark(*here, operands);
    return std::nullopt;
  }
  return Recorded{.session = *here, .stream = *own, .capture = *capture};
}

}  // namespace

LargeHeap::Asker asker() {
  Stream* const here = stream();
  return here == nullptr ? LargeHeap::Asker() : here->next_asker();
}

}  // namespace spillway::preload

namespace pre = spillway::preload;

// The structures of the interface, as far as its callers look into them, and its functions.
// NOLINTBEGIN(bugprone-reserved-identifier): the names are Intel's
extern "C" {

struct IttDomain {
  volatile int flags;  // zero: nobody listens
  const char* name;
  void* wide_name;
  int extra1;
  void* extra2;
  IttDomain* next;
};
struct IttId {
  unsigned long long d1, d2, d3;
};

const char* __itt_api_version() { return "3.0"; }

IttDomain* __itt_domain_create(const char* name) {
  static IttDomain domain{.flags = 1,
                          .name = name,
                          .wide_name = nullptr,
                          .extra1 = 0,
                          .extra2 = nullptr,
                          .next = nullptr};
  return &domain;
}

// PyTorch asks for a handle with each task; others (oneDNN) keep theirs, while `name` may go.
pre::IttHandle* __itt_string_handle_create(const char* name) {
  const spillway::InService inside;
  return pre::kept_handle(name);
}

void __itt_task_begin(const IttDomain* /*domain*/, IttId /*task*/, IttId /*parent*/,
                      pre::IttHandle* handle) {
  const spillway::InService inside;
  if (pre::Stream* const stream = pre::stream(true); stream != nullptr && handle != nullptr) {
    stream->begin(handle->name);
  }
}

void __itt_task_end(const IttDomain* /*domain*/) {
  if (pre::Stream* const stream = pre::stream()) {
    stream->end();
  }
}
// NOLINTEND(bugprone-reserved-identifier)

// What python/spillway/modules.py calls.
void spillway_module(const char* name) {
  const spillway::InService inside;
  spillway::set_current_module(name == nullptr ? std::string_view() : name);
}

// What python/spillway/operands.py calls.
int spillway_wants_operands() {
  const spillway::InService inside;
  const pre::Session* const here = pre::session(false);
  return pre::stream() != nullptr && here != nullptr && here->space->iteration_ended() ? 1 : 0;
}

int spillway_forward_wants_operands() {
  const spillway::InService inside;
  const pre::Session* const here = pre::session(false);
  return here != nullptr && here->space->wants_operands() ? 1 : 0;
}

// As Python's ctypes declares them. Without a callback nobody is to be called any more.
void spillway_on_wish(pre::InterpreterWishes::AddPending add_pending,
                      pre::InterpreterWishes::Callback callback) {
  pre::interpreter_wishes().follow(add_pending, callback);
}

int spillway_operator(const char* /*name*/, const spillway_operand* operands, std::size_t count) {
  const spillway::InService inside;
  const std::span told(operands, count);
  const std::optional<pre::Recorded> recorded = pre::record_or_mark(told);
  if (!recorded) {
    return 0;
  }
  recorded->capture.operands_told(true);
  pre::AnnouncedOperators::Operands uses(told.begin(), told.end());
  for (const spillway_operand& operand : told) {
    if (operand.writes != 0) {  // what it changes it may change in part
      uses.push_back({.address = operand.address, .bytes = operand.bytes, .writes = 0});
    }
  }
  recorded->stream.tell(recorded->session, std::move(uses));
  return 0;
}

int spillway_operator_done(const char* /*name*/, const spillway_operand* operands,
                           std::size_t count) {
  const spillway::InService inside;
  const std::span told(operands, count);
  if (const std::optional<pre::Recorded> recorded = pre::record_or_mark(told)) {
    recorded->stream.tell_results(recorded->session, {told.begin(), told.end()});
  }
  return 0;
}
}
