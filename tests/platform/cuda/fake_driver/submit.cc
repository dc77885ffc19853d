// How an operation gets onto a stream. Fake driver.
#include <cstring>
#include <thread>

#include "world.h"

namespace fake_cuda {

CuResult World::find_stream(Caller& caller, CuStream handle, std::shared_ptr<Stream>* found) {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  if (number == 0 || number == kCuStreamLegacy) {
    *found = caller.context->null_stream;
    return CuResult::kSuccess;
  }
  if (number == kCuStreamPerThread) {
    std::shared_ptr<Stream>& mine = caller.context->thread_streams[std::this_thread::get_id()];
    if (mine == nullptr) {
      mine = make_stream(caller.context, new_handle<CuStream>(), true);
    }
    *found = mine;
    return CuResult::kSuccess;
  }
  const auto it = streams.find(handle);
  if (it == streams.end()) {
    report.violation(FAKE_CUDA_BAD_HANDLE, "{}: there is no stream {}", caller.call, shown(handle));
    return CuResult::kInvalidHandle;
  }
  *found = it->second;
  return CuResult::kSuccess;
}

CuResult World::submit(Caller& caller, CuStream handle, Op op, bool waits) {
  std::shared_ptr<Stream> stream;
  CuResult result = find_stream(caller, handle, &stream);
  if (result != CuResult::kSuccess) {
    return result;
  }
  Context& context = *caller.context;
  if (stream->context.get() != &context) {
    report.violation(FAKE_CUDA_WRONG_CONTEXT, "{}: the stream belongs to another context",
                     caller.call);
    return CuResult::kInvalidHandle;
  }
  if (stream->captured_into != nullptr) {
    if (waits) {
      return CuResult::kNotPermitted;  // a call that waits cannot be captured
    }
    if (op.recording != nullptr) {
      op.recording->captured_in = stream->captured_into;
    }
    stream->captured_into->ops.push_back(std::move(op));
    return CuResult::kSuccess;
  }
  result = wait_for_lock(caller, context);
  if (result != CuResult::kSuccess) {
    return result;
  }
  Context* const locks = stream->null_stream() ? &context : nullptr;
  while (op.kind == OpKind::kKernel && stream->launches >= config.launches_ahead) {
    // The queue is full: until its first operation has ended.
    result = wait_for(caller, {{stream, stream->ended + 1}}, locks);
    if (result != CuResult::kSuccess || context.error != CuResult::kSuccess) {
      return result != CuResult::kSuccess ? result : context.error;
    }
  }
  if (op.copies() && happens(Chance::kCopyRefused, config.copy_refused)) {
    return CuResult::kUnknown;
  }
  op.breaks = op.copies() && happens(Chance::kCopyBreaks, config.copy_breaks);
  op.slower_ns = op.copies() && happens(Chance::kCopySlow, config.copy_slow) ? config.slow_ns : 0;
  op.stands_ns = happens(Chance::kStreamStands, config.stream_stands) ? config.slow_ns : 0;
  // The null stream is behind everything before it, and everything after it behind the null stream.
  if (stream->null_stream()) {
    for (const auto& other : alive) {
      if (other->context.get() == &context && other != stream && other->blocking &&
          !other->idle()) {
        op.after.push_back({other, other->issued});
      }
    }
  } else if (stream->blocking && !context.null_stream->idle()) {
    op.after.push_back({context.null_stream, context.null_stream->issued});
  }
  op.number = ++stream->issued;
  if (op.recording != nullptr) {
    op.recording->point = {stream, op.number};
  }
  const Point mine{stream, op.number};
  stream->launches += op.kind == OpKind::kKernel ? 1 : 0;
  stream->queue.push_back(std::move(op));
  stream->wake.notify_all();
  if (waits) {
    result = wait_for(caller, {mine}, locks);
  }
  return result != CuResult::kSuccess ? result : context.error;
}

}  // namespace fake_cuda
