// Memsets. One in one piece whose memory is not there yet is put on its stream as a kernel of ours,
// behind a stream wait, so that the program's thread need not wait for it. Layer: interpose, cuda.
#include <optional>

#include "interpose/cuda/kernels/fill_kernel.h"
#include "interpose/cuda/operands/pointer_tables.h"
#include "interpose/cuda/stream_work.h"

namespace spillway::cuda {
namespace {

// A kernel that writes beyond its memory ends the context, where the driver refuses a memset.
bool within_one_allocation(const Session& session, const Fill& fill) {
  const std::optional<AddressRange> range = session.platform->memory().allocation_of(fill.to);
  return range && fill.bytes <= range->bytes - (fill.to - range->start);
}

// `driver` is the memset itself.
template <typename Call>
CuResult issue_fill(const Session& session, CudaLaunch what, const Fill& fill, const Call& driver) {
  if (!has_fill_kernel() || !within_one_allocation(session, fill)) {
    return issue(session, what, driver);
  }
  what.needs_mapping = false;
  const CuResult result = issue_as(session, what, [&](std::uint64_t launch) {
    return session.platform->launches().is_held(launch) ? launch_fill(fill, what.stream) : driver();
  });
  // A stream of another context takes no kernel of this one.
  what.needs_mapping = true;
  return result == CuResult::kSuccess ? result : issue(session, what, driver);
}

// In one piece; `fill` is nullopt where the driver is to refuse it.
template <typename Call>
CuResult set(CuStream stream, CuAddress to, Bytes bytes, const std::optional<Fill>& fill,
             const Call& call) {
  const std::uint64_t then = tables_now();
  const bool replaces = then != 0 && !captured(stream);
  const CuResult result = put(
      CallKind::kMemset, "memset", stream,
      [&](Operands& operands) { operands.add(to, bytes, AccessMode::kWrite); }, call,
      [&](const Session& session, const CudaLaunch& what, const auto& driver) {
        return fill ? issue_fill(session, what, *fill, driver) : issue(session, what, driver);
      },
      fill ? &*fill : nullptr);
  if (const Session* const here = session();
      replaces && here != nullptr && result == CuResult::kSuccess) {
    note_replaced(*here, to, bytes, then);
  }
  return result;
}

// Rows of elements.
template <typename Call>
CuResult set_rows(CuStream stream, CuAddress to, Bytes pitch_bytes, Bytes row_bytes,
                  std::size_t rows, const Call& call) {
  return put(
      CallKind::kMemset, "memset", stream,
      [&](Operands& operands) {
        if (rows > 0 && row_bytes > 0) {
          operands.add(to, (rows - 1) * pitch_bytes + row_bytes, AccessMode::kWrite);
        }
      },
      call);
}

}  // namespace
}  // namespace spillway::cuda

namespace cuda = spillway::cuda;
using namespace spillway::cuda;  // NOLINT(google-build-using-namespace): its types, in signatures

// One and its twin: `per_thread` tells which.
#define SPILLWAY_MEMSETS(bits, type, suffix_s, suffix_z, per_thread)                             \
  CuResult cuMemsetD##bits##_v2##suffix_s(CuAddress to, type value, std::size_t count) {         \
    return set(no_stream(per_thread), to, count * sizeof(type), fill_of(to, value, count),       \
               SPILLWAY_CALL(cuMemsetD##bits##_v2##suffix_s, to, value, count));                 \
  }                                                                                              \
  CuResult cuMemsetD##bits##Async##suffix_z(CuAddress to, type value, std::size_t count,         \
                                            CuStream stream) {                                   \
    return set(meant(stream, per_thread), to, count * sizeof(type), fill_of(to, value, count),   \
               SPILLWAY_CALL(cuMemsetD##bits##Async##suffix_z, to, value, count, stream));       \
  }                                                                                              \
  CuResult cuMemsetD2D##bits##_v2##suffix_s(CuAddress to, std::size_t pitch_bytes, type value,   \
                                            std::size_t width, std::size_t height) {             \
    return set_rows(                                                                             \
        no_stream(per_thread), to, pitch_bytes, width * sizeof(type), height,                    \
        SPILLWAY_CALL(cuMemsetD2D##bits##_v2##suffix_s, to, pitch_bytes, value, width, height)); \
  }                                                                                              \
  CuResult cuMemsetD2D##bits##Async##suffix_z(CuAddress to, std::size_t pitch_bytes, type value, \
                                              std::size_t width, std::size_t height,             \
                                              CuStream stream) {                                 \
    return set_rows(meant(stream, per_thread), to, pitch_bytes, width * sizeof(type), height,    \
                    SPILLWAY_CALL(cuMemsetD2D##bits##Async##suffix_z, to, pitch_bytes, value,    \
                                  width, height, stream));                                       \
  }

extern "C" {

SPILLWAY_MEMSETS(8, unsigned char, , , false)
SPILLWAY_MEMSETS(8, unsigned char, _ptds, _ptsz, true)
SPILLWAY_MEMSETS(16, unsigned short, , , false)
SPILLWAY_MEMSETS(16, unsigned short, _ptds, _ptsz, true)
SPILLWAY_MEMSETS(32, unsigned, , , false)
SPILLWAY_MEMSETS(32, unsigned, _ptds, _ptsz, true)

}  // extern "C"
