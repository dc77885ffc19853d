// Calls about streams and events. Fake driver.
#include "world.h"

namespace fake_cuda {
namespace {

CuResult find_event(World& w, const Caller& caller, CuEvent handle, std::shared_ptr<Event>* event) {
  const auto found = w.events.find(handle);
  if (found == w.events.end()) {
    w.report.violation(FAKE_CUDA_BAD_HANDLE, "{}: there is no event {}", caller.call,
                       shown(handle));
    return CuResult::kInvalidHandle;
  }
  *event = found->second;
  return CuResult::kSuccess;
}

// What a wait for a stream waits for.
std::vector<Point> end_of(const World& w, const std::shared_ptr<Stream>& stream) {
  if (!stream->null_stream()) {
    return {{stream, stream->issued}};
  }
  std::vector<Point> points = w.all_of(*stream->context);
  std::erase_if(points, [](const Point& it) { return !it.stream->blocking; });
  return points;
}

}  // namespace

CuResult cuStreamCreateWithPriority(CuStream* stream, unsigned flags, int priority) {
  return call("cuStreamCreateWithPriority", Needs::kContext, text("{}, {}", flags, priority),
              [&](World& w, Caller& caller) {
                if (flags > kCuStreamNonBlocking) {
                  return CuResult::kInvalidValue;
                }
                *stream = w.new_handle<CuStream>();
                w.streams.emplace(
                    *stream, w.make_stream(caller.context, *stream, flags == kCuStreamDefault));
                ++w.report.counters.streams;
                return CuResult::kSuccess;
              });
}

CuResult cuStreamDestroy_v2(CuStream handle) {
  return call("cuStreamDestroy_v2", Needs::kContext, text("{}", shown(handle)),
              [&](World& w, Caller& caller) {
                std::shared_ptr<Stream> stream;
                const CuResult result = w.find_stream(caller, handle, &stream);
                if (result != CuResult::kSuccess || stream->null_stream()) {
                  return CuResult::kInvalidHandle;
                }
                // What is on it will still be done.
                stream->closing = true;
                stream->wake.notify_all();
                w.streams.erase(handle);
                --w.report.counters.streams;
                return CuResult::kSuccess;
              });
}

CuResult cuStreamGetFlags(CuStream handle, unsigned* flags) {
  return call("cuStreamGetFlags", Needs::kContext, text("{}", shown(handle)),
              [&](World& w, Caller& caller) {
                std::shared_ptr<Stream> stream;
                const CuResult result = w.find_stream(caller, handle, &stream);
                if (result == CuResult::kSuccess) {
                  *flags = stream->blocking ? kCuStreamDefault : kCuStreamNonBlocking;
                }
                return result;
              });
}

CuResult cuStreamGetCtx(CuStream handle, CuContext* context) {
  return call("cuStreamGetCtx", Needs::kContext, text("{}", shown(handle)),
              [&](World& w, Caller& caller) {
                std::shared_ptr<Stream> stream;
                const CuResult result = w.find_stream(caller, handle, &stream);
                if (result == CuResult::kSuccess) {
                  *context = stream->context->handle;
                }
                return result;
              });
}

CuResult cuStreamSynchronize(CuStream handle) {
  return call("cuStreamSynchronize", Needs::kContext, text("{}", shown(handle)),
              [&](World& w, Caller& caller) {
                std::shared_ptr<Stream> stream;
                CuResult result = w.find_stream(caller, handle, &stream);
                if (result != CuResult::kSuccess) {
                  return result;
                }
                const std::shared_ptr<Context> context = stream->context;
                result = w.wait_for(caller, end_of(w, stream));
                return result != CuResult::kSuccess ? result : context->error;
              });
}

CuResult cuStreamQuery(CuStream handle) {
  return call("cuStreamQuery", Needs::kContext, text("{}", shown(handle)),
              [&](World& w, Caller& caller) {
                std::shared_ptr<Stream> stream;
                const CuResult result = w.find_stream(caller, handle, &stream);
                if (result != CuResult::kSuccess) {
                  return result;
                }
                for (const Point& point : end_of(w, stream)) {
                  if (!point.passed()) {
                    return CuResult::kNotReady;
                  }
                }
                return stream->context->error;
              });
}

CuResult cuStreamWaitEvent(CuStream stream, CuEvent handle, unsigned flags) {
  return call("cuStreamWaitEvent", Needs::kContext,
              text("{}, {}, {}", shown(stream), shown(handle), flags),
              [&](World& w, Caller& caller) {
                std::shared_ptr<Event> event;
                const CuResult result = find_event(w, caller, handle, &event);
                if (result != CuResult::kSuccess) {
                  return result;
                }
                Op op{.kind = OpKind::kWaitEvent};
                if (event->last != nullptr && event->last->captured_in != nullptr) {
                  // A stream that waits for what is captured is captured from then on.
                  std::shared_ptr<Stream> joins;
                  const CuResult joined = w.find_stream(caller, stream, &joins);
                  if (joined == CuResult::kSuccess) {
                    joins->captured_into = event->last->captured_in;
                  }
                  return joined;
                }
                // The last recording at this moment; none is no wait.
                if (event->last != nullptr && !event->last->done) {
                  op.after.push_back(event->last->point);
                }
                return w.submit(caller, stream, std::move(op));
              });
}

CuResult cuEventCreate(CuEvent* handle, unsigned flags) {
  return call("cuEventCreate", Needs::kContext, text("{}", flags), [&](World& w, Caller& caller) {
    *handle = w.new_handle<CuEvent>();
    w.events.emplace(*handle,
                     std::make_shared<Event>(Event{.context = caller.context,
                                                   .timing = (flags & kCuEventDisableTiming) == 0,
                                                   .last = nullptr}));
    ++w.report.counters.events;
    return CuResult::kSuccess;
  });
}

CuResult cuEventDestroy_v2(CuEvent handle) {
  return call("cuEventDestroy_v2", Needs::kContext, text("{}", shown(handle)),
              [&](World& w, Caller& caller) {
                std::shared_ptr<Event> event;
                const CuResult result = find_event(w, caller, handle, &event);
                w.report.counters.events -= w.events.erase(handle);
                return result;
              });
}

CuResult cuEventRecord(CuEvent handle, CuStream stream) {
  return call("cuEventRecord", Needs::kContext, text("{}, {}", shown(handle), shown(stream)),
              [&](World& w, Caller& caller) {
                std::shared_ptr<Event> event;
                CuResult result = find_event(w, caller, handle, &event);
                if (result != CuResult::kSuccess) {
                  return result;
                }
                if (event->context != caller.context) {
                  w.report.violation(FAKE_CUDA_WRONG_CONTEXT,
                                     "cuEventRecord: the event belongs to another context");
                  return CuResult::kInvalidHandle;
                }
                const auto recording = std::make_shared<Recording>();
                Op op{.kind = OpKind::kRecord};
                op.recording = recording;
                result = w.submit(caller, stream, std::move(op));
                if (result == CuResult::kSuccess) {
                  event->last = recording;
                }
                return result;
              });
}

CuResult cuEventQuery(CuEvent handle) {
  return call("cuEventQuery", Needs::kInit, text("{}", shown(handle)),
              [&](World& w, Caller& caller) {
                std::shared_ptr<Event> event;
                const CuResult result = find_event(w, caller, handle, &event);
                if (result != CuResult::kSuccess) {
                  return result;
                }
                if (event->last != nullptr && !event->last->done) {
                  return CuResult::kNotReady;
                }
                return event->context->error;
              });
}

CuResult cuEventSynchronize(CuEvent handle) {
  return call("cuEventSynchronize", Needs::kInit, text("{}", shown(handle)),
              [&](World& w, Caller& caller) {
                std::shared_ptr<Event> event;
                CuResult result = find_event(w, caller, handle, &event);
                if (result == CuResult::kSuccess && event->last != nullptr) {
                  result = w.wait_for(caller, {event->last->point});
                }
                return result != CuResult::kSuccess ? result : event->context->error;
              });
}

CuResult cuEventElapsedTime(float* milliseconds, CuEvent from, CuEvent to) {
  return call("cuEventElapsedTime", Needs::kInit, text("{}, {}", shown(from), shown(to)),
              [&](World& w, Caller& caller) {
                std::shared_ptr<Event> first;
                std::shared_ptr<Event> second;
                CuResult result = find_event(w, caller, from, &first);
                if (result == CuResult::kSuccess) {
                  result = find_event(w, caller, to, &second);
                }
                if (result != CuResult::kSuccess) {
                  return result;
                }
                if (!first->timing || !second->timing || first->last == nullptr ||
                    second->last == nullptr) {
                  return CuResult::kInvalidHandle;
                }
                if (!first->last->done || !second->last->done) {
                  return CuResult::kNotReady;
                }
                *milliseconds =
                    static_cast<float>(second->last->done_ns - first->last->done_ns) * 1e-6F;
                return CuResult::kSuccess;
              });
}

}  // namespace fake_cuda
