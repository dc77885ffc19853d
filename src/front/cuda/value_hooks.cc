// Values that a program's streams write and wait for: how it orders them without events. Layer:
// front, cuda.
#include "front/cuda/stream_work.h"

namespace spillway::cuda {
namespace {

// What the driver's structure of a stream's operation takes.
constexpr Bytes kStreamOperationBytes = 48;

template <typename Call>
CuResult value(CuStream stream, CuAddress word, Bytes bytes, const Call& call) {
  return put(
      CallKind::kOther, "value", stream,
      [&](Operands& operands) { operands.add(word, bytes, AccessMode::kReadWrite); }, call);
}

// The platform hears of a write before the driver does, as of an event (wait_hooks.cc).
template <typename Call>
CuResult write_value(CuStream stream, CuAddress word, Bytes bytes, const Call& call) {
  if (const Session* const here = session(); here != nullptr && !captured(stream)) {
    here->platform->wrote_value(word, stream);
  }
  return value(stream, word, bytes, call);
}

template <typename Call>
CuResult wait_value(CuStream stream, CuAddress word, Bytes bytes, const Call& call) {
  const CuResult result = value(stream, word, bytes, call);
  const Session* const here = session();
  if (here != nullptr && result == CuResult::kSuccess && !captured(stream)) {
    here->platform->waits_for_value(word, stream);
  }
  return result;
}

}  // namespace
}  // namespace spillway::cuda

namespace cuda = spillway::cuda;
using namespace spillway::cuda;  // NOLINT(google-build-using-namespace): its types, in signatures

// One and its twin: `per_thread` tells which.
#define SPILLWAY_VALUE(kind, symbol, type, per_thread)                           \
  CuResult symbol(CuStream stream, CuAddress word, type value, unsigned flags) { \
    return kind(meant(stream, per_thread), word, sizeof(type),                   \
                SPILLWAY_CALL(symbol, stream, word, value, flags));              \
  }
#define SPILLWAY_VALUES(version, suffix_z, per_thread)                                            \
  SPILLWAY_VALUE(write_value, cuStreamWriteValue32##version##suffix_z, std::uint32_t, per_thread) \
  SPILLWAY_VALUE(wait_value, cuStreamWaitValue32##version##suffix_z, std::uint32_t, per_thread)   \
  SPILLWAY_VALUE(write_value, cuStreamWriteValue64##version##suffix_z, std::uint64_t, per_thread) \
  SPILLWAY_VALUE(wait_value, cuStreamWaitValue64##version##suffix_z, std::uint64_t, per_thread)   \
  CuResult cuStreamBatchMemOp##version##suffix_z(CuStream stream, unsigned count,                 \
                                                 void* operations, unsigned flags) {              \
    return put_words(                                                                             \
        CallKind::kOther, "values", meant(stream, per_thread), operations,                        \
        count * kStreamOperationBytes,                                                            \
        SPILLWAY_CALL(cuStreamBatchMemOp##version##suffix_z, stream, count, operations, flags));  \
  }

extern "C" {

SPILLWAY_VALUES(, , false)
SPILLWAY_VALUES(_v2, , false)
SPILLWAY_VALUES(, _ptsz, true)
SPILLWAY_VALUES(_v2, _ptsz, true)

}  // extern "C"
