// Values that a program's streams write and wait for, one by one or in batches: how it orders them
// without events. Layer: interpose, cuda.
#include <algorithm>
#include <span>

#include "interpose/cuda/operands/launch_operands.h"
#include "interpose/cuda/operands/pointer_tables.h"
#include "interpose/cuda/stream_work.h"

namespace spillway::cuda {
namespace {

bool waits(const CuStreamOperation& operation) {
  return operation.type == CuStreamOperationType::kWaitValue32 ||
         operation.type == CuStreamOperationType::kWaitValue64;
}

// In their order: who waits for a value that comes behind another wait waits for both.
void tell(const Session& session, CuStream stream, std::span<const CuStreamOperation> operations) {
  for (const CuStreamOperation& operation : operations) {
    switch (operation.type) {
      case CuStreamOperationType::kWaitValue32:
      case CuStreamOperationType::kWaitValue64:
        session.platform->streams().waits_for_value(operation.address, stream);
        break;
      case CuStreamOperationType::kWriteValue32:
      case CuStreamOperationType::kWriteValue64:
        session.platform->streams().wrote_value(operation.address, stream);
        break;
      default:
        break;  // orders nothing with other streams
    }
  }
}

// A value may be an address, which then stands on the device.
void note_addresses(const Session& session, std::span<const CuStreamOperation> operations) {
  for (const CuStreamOperation& operation : operations) {
    if (operation.type == CuStreamOperationType::kWriteValue64) {
      note_written(session, operation.address, operation.value);
    }
  }
}

// The platform hears of them before the driver does: another thread may wait for a value as soon as
// it is to be written, and to have waited for one that was refused does no harm. But not before
// their own words have memory: what waits for that must not stand behind what they wait for.
template <typename Call>
CuResult put_values(CuStream stream, std::span<const CuStreamOperation> operations,
                    const Call& call) {
  ProgramCall here(CallKind::kOther);
  const Session* const session = here.seen_by();
  if (session == nullptr) {
    return here.driver(call);
  }
  Operands operands(*session);
  for (const CuStreamOperation& operation : operations) {
    add_stream_operation(operands, operation);
  }
  if (captured(stream)) {
    return with_memory(*session, operands.all(), [&] { return here.driver(call); });
  }
  if (std::any_of(operations.begin(), operations.end(), waits)) {
    note_waits_for_values();
    session->platform->streams().will_wait_for_value();
  }
  note_addresses(*session, operations);
  const auto told = [&] {
    tell(*session, stream, operations);
    return here.driver(call);
  };
  if (operands.empty()) {
    const auto in_order = session->platform->streams().in_order(stream);
    return told();
  }
  return issue(*session,
               {.stream = stream,
                .hash = operands.hash(hash_launch("value", {})),
                .name = "value",
                .operands = operands.all(),
                .needs_mapping = true},
               told);
}

template <typename Call>
CuResult put_value(CuStream stream, CuStreamOperationType type, CuAddress word, std::uint64_t value,
                   const Call& call) {
  const CuStreamOperation operation{
      .type = type, .address = word, .value = value, .flags = 0, .reserved = {}};
  return put_values(stream, std::span(&operation, 1), call);
}

}  // namespace
}  // namespace spillway::cuda

namespace cuda = spillway::cuda;
using namespace spillway::cuda;  // NOLINT(google-build-using-namespace): its types, in signatures

// One and its twin: `per_thread` tells which.
#define SPILLWAY_VALUE(kind, symbol, type, per_thread)                                    \
  CuResult symbol(CuStream stream, CuAddress word, type value, unsigned flags) {          \
    return put_value(meant(stream, per_thread), CuStreamOperationType::kind, word, value, \
                     SPILLWAY_CALL(symbol, stream, word, value, flags));                  \
  }
#define SPILLWAY_VALUES(version, suffix_z, per_thread)                                            \
  SPILLWAY_VALUE(kWriteValue32, cuStreamWriteValue32##version##suffix_z, std::uint32_t,           \
                 per_thread)                                                                      \
  SPILLWAY_VALUE(kWaitValue32, cuStreamWaitValue32##version##suffix_z, std::uint32_t, per_thread) \
  SPILLWAY_VALUE(kWriteValue64, cuStreamWriteValue64##version##suffix_z, std::uint64_t,           \
                 per_thread)                                                                      \
  SPILLWAY_VALUE(kWaitValue64, cuStreamWaitValue64##version##suffix_z, std::uint64_t, per_thread) \
  CuResult cuStreamBatchMemOp##version##suffix_z(CuStream stream, unsigned count,                 \
                                                 CuStreamOperation* operations, unsigned flags) { \
    return put_values(                                                                            \
        meant(stream, per_thread), std::span(operations, operations == nullptr ? 0 : count),      \
        SPILLWAY_CALL(cuStreamBatchMemOp##version##suffix_z, stream, count, operations, flags));  \
  }

extern "C" {

SPILLWAY_VALUES(, , false)
SPILLWAY_VALUES(_v2, , false)
SPILLWAY_VALUES(, _ptsz, true)
SPILLWAY_VALUES(_v2, _ptsz, true)

}  // extern "C"
