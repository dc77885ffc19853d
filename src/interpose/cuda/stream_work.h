// What a program puts on a stream besides kernels: what it uses is in its arguments, and the driver
// wants it to have memory when it is issued. Layer: interpose, cuda.
#pragma once

#include "interpose/cuda/captures.h"
#include "interpose/cuda/illegal_access.h"
#include "interpose/cuda/issue.h"
#include "interpose/cuda/libraries/library_calls.h"
#include "interpose/cuda/operands/operands.h"

// The driver's own call.
#define SPILLWAY_CALL(symbol, ...) [&] { return cuda::real().symbol(__VA_ARGS__); }

namespace spillway::cuda {

// Where the thread's own default stream is meant by no stream at all.
[[nodiscard]] inline CuStream no_stream(bool per_thread) { return meant(nullptr, per_thread); }

// Within a call of a library, as far as that may be wanted.
inline void note_in_library(const Fill* fill) {
  LibraryCall* const library = LibraryCall::current();
  if (library != nullptr && fill != nullptr) {
    library->fills(*fill);
  } else if (library != nullptr) {
    library->launches();
  }
}

// `add` names what is used; `issue` is told of the launch and puts it on the stream with the
// driver's call, which it is given. One that is captured is only looked at by the driver, and done
// when its graph runs.
template <typename Add, typename Call, typename Issue>
CuResult put(CallKind kind, const char* name, CuStream stream, const Add& add, const Call& call,
             const Issue& issue, const Fill* fill = nullptr) {
  note_in_library(fill);
  ProgramCall here(kind);
  const auto driver = [&] { return here.driver(call); };
  const Session* const session = here.seen_by();
  if (session == nullptr) {
    return driver();
  }
  // A memset carries no addresses, so where nobody is told nothing else is looked at.
  if (fill != nullptr && session->platform->memory().contains(fill->to) && !captures_under_way()) {
    if (const Bypassed bypassed(*session, stream); bypassed) {
      return driver();
    }
  }
  Operands operands(*session);
  add(operands);
  if (operands.empty()) {
    return driver();
  }
  if (captured(stream)) {
    return with_memory(*session, operands.all(), driver);
  }
  const CuResult result = issue(*session,
                                CudaLaunch{.stream = stream,
                                           .hash = operands.hash(hash_launch(name, {})),
                                           .name = name,
                                           .operands = operands.all(),
                                           .needs_mapping = true},
                                driver);
  note_result(*session, result);
  return result;
}

template <typename Add, typename Call>
CuResult put(CallKind kind, const char* name, CuStream stream, const Add& add, const Call& call) {
  return put(kind, name, stream, add, call,
             [](const Session& session, const CudaLaunch& what, const auto& driver) {
               return issue(session, what, driver);
             });
}

// Words of structures that may be addresses of the space: each brings its whole allocation.
template <typename Call>
CuResult put_words(CallKind kind, const char* name, CuStream stream, const void* words, Bytes bytes,
                   const Call& call) {
  return put(
      kind, name, stream, [&](Operands& operands) { operands.add_pointers_in(words, bytes); },
      call);
}

}  // namespace spillway::cuda
