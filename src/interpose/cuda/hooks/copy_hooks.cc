// Copies that a program puts on streams: what they use is in their arguments, and the
// driver wants it to have memory when they are issued. Layer: interpose, cuda.
#include <optional>

#include "interpose/cuda/looks.h"
#include "interpose/cuda/operands/host_lists.h"
#include "interpose/cuda/operands/launch_operands.h"
#include "interpose/cuda/operands/pointer_tables.h"
#include "interpose/cuda/stream_work.h"

namespace spillway::cuda {
namespace {

std::uint64_t address(const void* memory) { return reinterpret_cast<std::uint64_t>(memory); }

// Bytes from one place to another; either may be the host's.
template <typename Call>
CuResult copy(const char* name, CuStream stream, std::uint64_t to, std::uint64_t from, Bytes bytes,
              const Call& call) {
  return put(
      CallKind::kCopy, name, stream,
      [&](Operands& operands) {
        operands.add(to, bytes, AccessMode::kWrite);
        operands.add(from, bytes, AccessMode::kRead);
        if (const Session* const here = session(); !operands.empty() && bytes >= sizeof(void*)) {
          note_copied_within(*here, to, from, bytes);
        }
      },
      call);
}

// Where a call does not say on which side an address lies. What the driver does not know is the
// host's.
bool on_device(std::uint64_t address) {
  CuMemoryType type{};
  return real().cuPointerGetAttribute(&type, CuPointerAttribute::kMemoryType, address) ==
             CuResult::kSuccess &&
         type == CuMemoryType::kDevice;
}

// Rows of bytes, from one place to another; one row for what is no rectangle.
struct Rows {
  std::uint64_t to = 0;
  Bytes to_pitch_bytes = 0;
  std::uint64_t from = 0;
  Bytes from_pitch_bytes = 0;
  Bytes row_bytes = 0;
  std::size_t rows = 1;
  // From the first byte that is written to the last.
  [[nodiscard]] Bytes to_bytes() const { return (rows - 1) * to_pitch_bytes + row_bytes; }
};

bool are_scanned(const Rows& copy) { return copy.row_bytes <= kMostScannedBytes / copy.rows; }

// Whether what stood there is forgotten: only where what comes instead is known, all of it. So not
// of what is no host memory, nor of pinned memory, into which a copy on the stream may yet write.
bool replaces(const Session& here, const Rows& copy) {
  constexpr std::size_t kMostRows = 64;
  return here.platform->memory().contains(copy.to) &&
         !here.platform->memory().contains(copy.from) && copy.rows > 0 &&
         (copy.rows <= kMostRows || copy.to_pitch_bytes == copy.row_bytes) &&
         copy.row_bytes % sizeof(std::uint64_t) == 0 && copy.to % sizeof(std::uint64_t) == 0 &&
         are_scanned(copy) && host_list_at(copy.from, true) == 0 && !on_device(copy.from);
}

// What they carry, however the call says where they come from. Of the host's memory, more than may
// be addresses is not looked at.
void note_copied(const Rows& copy, bool is_captured) {
  const Session& here = *session();
  if (copy.row_bytes < sizeof(std::uint64_t) || copy.rows == 0) {
    return;
  }
  if (here.platform->memory().contains(copy.from)) {
    note_copied_within(here, copy.to, copy.from, copy.to_bytes());
  } else if (are_scanned(copy) &&
             (here.platform->memory().contains(copy.to) || on_device(copy.to))) {
    // `replaces` asks the driver: not of each copy of a program that sends no addresses.
    const Beside beside = !is_captured && may_forget() && replaces(here, copy)
                              ? Beside::kWhatIsReplaced
                              : Beside::kWhatWasThere;
    for (std::size_t row = 0; row < copy.rows; ++row) {
      const std::uint64_t from = copy.from + row * copy.from_pitch_bytes;
      // NOLINTNEXTLINE(performance-no-int-to-ptr): the host's, as the program has said
      note_copied_in(here, copy.to + row * copy.to_pitch_bytes, reinterpret_cast<const void*>(from),
                     copy.row_bytes, beside);
    }
  }
}

// The same when the call has been made.
void note_made(const Session& here, const Rows& copy, std::uint64_t then) {
  if (copy.rows == 0 || here.platform->memory().contains(copy.from)) {
    return;
  }
  if (!are_scanned(copy)) {
    note_unscanned(here, {.start = copy.to, .bytes = copy.to_bytes()});
  } else if (may_forget() && replaces(here, copy)) {
    const bool whole = copy.to_pitch_bytes == copy.row_bytes;
    for (std::size_t row = 0; row < (whole ? 1 : copy.rows); ++row) {
      note_replaced(here, copy.to + row * copy.to_pitch_bytes,
                    whole ? copy.to_bytes() : copy.row_bytes, then);
    }
  }
}

// Copies of which each may come from the host: `for_each` calls what it is given with each (a
// Rows). What is captured happens when its graph runs, beside what other nodes do.
template <typename Add, typename ForEach, typename Call>
CuResult copy_noted(const char* name, CuStream stream, const Add& add, const ForEach& for_each,
                    const Call& call) {
  const std::uint64_t then = tables_now();
  return put(
      CallKind::kCopy, name, stream,
      [&](Operands& operands) {
        add(operands);
        const bool is_captured = captured(stream);
        for_each([is_captured](const Rows& rows) { note_copied(rows, is_captured); });
      },
      call,
      [&](const Session& session, const CudaLaunch& what, const auto& driver) {
        const CuResult result = issue(session, what, driver);
        if (result == CuResult::kSuccess) {
          for_each([&](const Rows& rows) { note_made(session, rows, then); });
        }
        return result;
      });
}

// As `copy`, where either side may be the host's.
template <typename Call>
CuResult copy_any(const char* name, CuStream stream, std::uint64_t to, std::uint64_t from,
                  Bytes bytes, const Call& call) {
  return copy_noted(
      name, stream,
      [&](Operands& operands) {
        operands.add(to, bytes, AccessMode::kWrite);
        operands.add(from, bytes, AccessMode::kRead);
      },
      [&](const auto& visit) { visit(Rows{.to = to, .from = from, .row_bytes = bytes}); }, call);
}

std::optional<Rows> rows_of(const CuCopy2d& copy) {
  const auto start = [](const CuCopy2d::Side& side) {
    return (side.type == CuMemoryType::kHost ? address(side.host) : side.device) +
           side.y * side.pitch_bytes + side.x_bytes;
  };
  if (copy.from.type == CuMemoryType::kArray || copy.to.type == CuMemoryType::kArray) {
    return std::nullopt;
  }
  return Rows{.to = start(copy.to),
              .to_pitch_bytes = copy.to.pitch_bytes,
              .from = start(copy.from),
              .from_pitch_bytes = copy.from.pitch_bytes,
              .row_bytes = copy.width_bytes,
              .rows = copy.height};
}
std::optional<Rows> rows_of(const CuCopy3d& /*copy*/) { return {}; }  // docs/interposer.md

template <typename Copy, typename Call>
CuResult copy_rows(const char* name, CuStream stream, const Copy* copy, const Call& call) {
  const std::optional<Rows> rows = copy != nullptr ? rows_of(*copy) : std::nullopt;
  return copy_noted(
      name, stream,
      [&](Operands& operands) {
        if (copy != nullptr) {
          add_copy(operands, *copy);
        }
      },
      [&](const auto& visit) {
        if (rows) {
          visit(*rows);
        }
      },
      call);
}

template <typename Call>
CuResult copy_batch(const char* name, CuStream stream, const CuAddress* to, const CuAddress* from,
                    const std::size_t* bytes, std::size_t count, const Call& call) {
  return copy_noted(
      name, stream,
      [&](Operands& operands) {
        for (std::size_t i = 0; i < count; ++i) {
          operands.add(to[i], bytes[i], AccessMode::kWrite);
          operands.add(from[i], bytes[i], AccessMode::kRead);
        }
      },
      [&](const auto& visit) {
        for (std::size_t i = 0; i < count; ++i) {
          visit(Rows{.to = to[i], .from = from[i], .row_bytes = bytes[i]});
        }
      },
      call);
}

// What the driver's structure of three-dimensional copies takes.
constexpr Bytes kCopyBytes = 112;

}  // namespace
}  // namespace spillway::cuda

namespace cuda = spillway::cuda;
using namespace spillway::cuda;  // NOLINT(google-build-using-namespace): its types, in signatures

// One and its twin: `per_thread` tells which.

#define SPILLWAY_COPIES(suffix_s, suffix_z, per_thread)                                            \
  CuResult cuMemcpy##suffix_s(CuAddress to, CuAddress from, std::size_t bytes) {                   \
    return copy_any("copy", no_stream(per_thread), to, from, bytes,                                \
                    SPILLWAY_CALL(cuMemcpy##suffix_s, to, from, bytes));                           \
  }                                                                                                \
  CuResult cuMemcpyAsync##suffix_z(CuAddress to, CuAddress from, std::size_t bytes,                \
                                   CuStream stream) {                                              \
    return copy_any("copy", meant(stream, per_thread), to, from, bytes,                            \
                    SPILLWAY_CALL(cuMemcpyAsync##suffix_z, to, from, bytes, stream));              \
  }                                                                                                \
  CuResult cuMemcpyHtoD_v2##suffix_s(CuAddress to, const void* from, std::size_t bytes) {          \
    return copy_any("copy in", no_stream(per_thread), to, address(from), bytes,                    \
                    SPILLWAY_CALL(cuMemcpyHtoD_v2##suffix_s, to, from, bytes));                    \
  }                                                                                                \
  CuResult cuMemcpyHtoDAsync_v2##suffix_z(CuAddress to, const void* from, std::size_t bytes,       \
                                          CuStream stream) {                                       \
    return copy_any("copy in", meant(stream, per_thread), to, address(from), bytes,                \
                    SPILLWAY_CALL(cuMemcpyHtoDAsync_v2##suffix_z, to, from, bytes, stream));       \
  }                                                                                                \
  CuResult cuMemcpyDtoH_v2##suffix_s(void* to, CuAddress from, std::size_t bytes) {                \
    return copy("copy out", no_stream(per_thread), address(to), from, bytes,                       \
                SPILLWAY_CALL(cuMemcpyDtoH_v2##suffix_s, to, from, bytes));                        \
  }                                                                                                \
  CuResult cuMemcpyDtoHAsync_v2##suffix_z(void* to, CuAddress from, std::size_t bytes,             \
                                          CuStream stream) {                                       \
    return copy("copy out", meant(stream, per_thread), address(to), from, bytes,                   \
                SPILLWAY_CALL(cuMemcpyDtoHAsync_v2##suffix_z, to, from, bytes, stream));           \
  }                                                                                                \
  CuResult cuMemcpyDtoD_v2##suffix_s(CuAddress to, CuAddress from, std::size_t bytes) {            \
    return copy("copy within", no_stream(per_thread), to, from, bytes,                             \
                SPILLWAY_CALL(cuMemcpyDtoD_v2##suffix_s, to, from, bytes));                        \
  }                                                                                                \
  CuResult cuMemcpyDtoDAsync_v2##suffix_z(CuAddress to, CuAddress from, std::size_t bytes,         \
                                          CuStream stream) {                                       \
    return copy("copy within", meant(stream, per_thread), to, from, bytes,                         \
                SPILLWAY_CALL(cuMemcpyDtoDAsync_v2##suffix_z, to, from, bytes, stream));           \
  }                                                                                                \
  CuResult cuMemcpyPeer##suffix_s(CuAddress to, CuContext to_context, CuAddress from,              \
                                  CuContext from_context, std::size_t bytes) {                     \
    return copy("copy", no_stream(per_thread), to, from, bytes,                                    \
                SPILLWAY_CALL(cuMemcpyPeer##suffix_s, to, to_context, from, from_context, bytes)); \
  }                                                                                                \
  CuResult cuMemcpyPeerAsync##suffix_z(CuAddress to, CuContext to_context, CuAddress from,         \
                                       CuContext from_context, std::size_t bytes,                  \
                                       CuStream stream) {                                          \
    return copy("copy", meant(stream, per_thread), to, from, bytes,                                \
                SPILLWAY_CALL(cuMemcpyPeerAsync##suffix_z, to, to_context, from, from_context,     \
                              bytes, stream));                                                     \
  }                                                                                                \
  CuResult cuMemcpyDtoA_v2##suffix_s(CuArray to, std::size_t at, CuAddress from,                   \
                                     std::size_t bytes) {                                          \
    return copy("copy to array", no_stream(per_thread), 0, from, bytes,                            \
                SPILLWAY_CALL(cuMemcpyDtoA_v2##suffix_s, to, at, from, bytes));                    \
  }                                                                                                \
  CuResult cuMemcpyAtoD_v2##suffix_s(CuAddress to, CuArray from, std::size_t at,                   \
                                     std::size_t bytes) {                                          \
    return copy("copy from array", no_stream(per_thread), to, 0, bytes,                            \
                SPILLWAY_CALL(cuMemcpyAtoD_v2##suffix_s, to, from, at, bytes));                    \
  }                                                                                                \
  CuResult cuMemcpy2D_v2##suffix_s(const CuCopy2d* rows) {                                         \
    return copy_rows("copy of rows", no_stream(per_thread), rows,                                  \
                     SPILLWAY_CALL(cuMemcpy2D_v2##suffix_s, rows));                                \
  }                                                                                                \
  CuResult cuMemcpy2DUnaligned_v2##suffix_s(const CuCopy2d* rows) {                                \
    return copy_rows("copy of rows", no_stream(per_thread), rows,                                  \
                     SPILLWAY_CALL(cuMemcpy2DUnaligned_v2##suffix_s, rows));                       \
  }                                                                                                \
  CuResult cuMemcpy2DAsync_v2##suffix_z(const CuCopy2d* rows, CuStream stream) {                   \
    return copy_rows("copy of rows", meant(stream, per_thread), rows,                              \
                     SPILLWAY_CALL(cuMemcpy2DAsync_v2##suffix_z, rows, stream));                   \
  }                                                                                                \
  CuResult cuMemcpy3D_v2##suffix_s(const CuCopy3d* rows) {                                         \
    return copy_rows("copy of rows", no_stream(per_thread), rows,                                  \
                     SPILLWAY_CALL(cuMemcpy3D_v2##suffix_s, rows));                                \
  }                                                                                                \
  CuResult cuMemcpy3DAsync_v2##suffix_z(const CuCopy3d* rows, CuStream stream) {                   \
    return copy_rows("copy of rows", meant(stream, per_thread), rows,                              \
                     SPILLWAY_CALL(cuMemcpy3DAsync_v2##suffix_z, rows, stream));                   \
  }                                                                                                \
  CuResult cuMemcpy3DPeer##suffix_s(const CuCopy3d* rows) {                                        \
    return copy_rows("copy of rows", no_stream(per_thread), rows,                                  \
                     SPILLWAY_CALL(cuMemcpy3DPeer##suffix_s, rows));                               \
  }                                                                                                \
  CuResult cuMemcpy3DPeerAsync##suffix_z(const CuCopy3d* rows, CuStream stream) {                  \
    return copy_rows("copy of rows", meant(stream, per_thread), rows,                              \
                     SPILLWAY_CALL(cuMemcpy3DPeerAsync##suffix_z, rows, stream));                  \
  }                                                                                                \
  CuResult cuMemcpyBatchAsync##suffix_z(CuAddress* to, CuAddress* from, std::size_t* bytes,        \
                                        std::size_t count, void* attributes,                       \
                                        std::size_t* attribute_of, std::size_t attribute_count,    \
                                        std::size_t* failed, CuStream stream) {                    \
    return copy_batch("copies", meant(stream, per_thread), to, from, bytes, count,                 \
                      SPILLWAY_CALL(cuMemcpyBatchAsync##suffix_z, to, from, bytes, count,          \
                                    attributes, attribute_of, attribute_count, failed, stream));   \
  }                                                                                                \
  CuResult cuMemcpyBatchAsync_v2##suffix_z(                                                        \
      CuAddress* to, CuAddress* from, std::size_t* bytes, std::size_t count, void* attributes,     \
      std::size_t* attribute_of, std::size_t attribute_count, CuStream stream) {                   \
    return copy_batch("copies", meant(stream, per_thread), to, from, bytes, count,                 \
                      SPILLWAY_CALL(cuMemcpyBatchAsync_v2##suffix_z, to, from, bytes, count,       \
                                    attributes, attribute_of, attribute_count, stream));           \
  }                                                                                                \
  CuResult cuMemcpy3DBatchAsync##suffix_z(std::size_t count, void* copies, std::size_t* failed,    \
                                          unsigned long long flags, CuStream stream) {             \
    return put_words(                                                                              \
        CallKind::kCopy, "copies of rows", meant(stream, per_thread), copies, count * kCopyBytes,  \
        SPILLWAY_CALL(cuMemcpy3DBatchAsync##suffix_z, count, copies, failed, flags, stream));      \
  }                                                                                                \
  CuResult cuMemcpy3DBatchAsync_v2##suffix_z(std::size_t count, void* copies,                      \
                                             unsigned long long flags, CuStream stream) {          \
    return put_words(                                                                              \
        CallKind::kCopy, "copies of rows", meant(stream, per_thread), copies, count * kCopyBytes,  \
        SPILLWAY_CALL(cuMemcpy3DBatchAsync_v2##suffix_z, count, copies, flags, stream));           \
  }

extern "C" {

SPILLWAY_COPIES(, , false)
SPILLWAY_COPIES(_ptds, _ptsz, true)

}  // extern "C"
