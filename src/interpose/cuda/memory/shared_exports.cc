// This process as one whose memory others use. See shared_memory.h.
#include <sys/random.h>
#include <unistd.h>

#include <atomic>

#include "base/mutex.h"
#include "interpose/cuda/issue.h"
#include "interpose/cuda/memory/shared_memory.h"
#include "interpose/cuda/real_symbols.h"
#include "platform/common/process/descriptor_server.h"
#include "platform/common/process/say.h"

namespace spillway::cuda {
namespace {

std::atomic<std::uint64_t> shared_token{0};

std::optional<SharedDescriptor> piece_of(const Session& session, std::uint64_t number,
                                         std::uint32_t place) {
  Result<ExportedPiece> piece = session.platform->exports().exported_piece(number, place);
  if (!piece) {
    return std::nullopt;
  }
  return SharedDescriptor{.descriptor = std::move(piece->memory),
                          .words = {piece->bytes, piece->all_bytes, piece->offset_bytes}};
}

// From the first export on.
Status serve_exports(const Session& session) {
  static Mutex starting;
  const MutexLock lock(starting);
  if (shared_token.load() != 0) {
    return {};
  }
  std::uint64_t random = 0;
  while (random == 0) {
    if (::getrandom(&random, sizeof random, 0) != sizeof random) {
      return make_error(ErrorCode::kIo, "the system has no random numbers");
    }
  }
  const SharedHandle own{.process = ::getpid(), .token = random, .number = 0};
  const auto begin = [] { stay_out_of_captures(own_driver()); };
  if (Status serves = serve_descriptors(own.socket_name(), begin,
                                        [&session](std::uint64_t number, std::uint32_t place) {
                                          return piece_of(session, number, place);
                                        });
      !serves) {
    return serves;
  }
  shared_token = random;
  return {};
}

CuResult no_room(const Error& error) {
  say(error.message);
  return CuResult::kOutOfMemory;
}

}  // namespace

const Driver& own_driver() {
  static const Driver driver = [] {
    const Result<Driver> opened = open_driver({}, real_dlsym());
    if (!opened) {
      end_run(opened.error().message);
    }
    return *opened;
  }();
  return driver;
}

std::uint64_t own_token() { return shared_token.load(); }

bool can_be_shared(const Session& session, std::uint64_t start) {
  return session.platform->exports().is_possible() && session.heap->is_on_no_stream(start);
}

CuResult share(const Session& session, const AddressRange& range, CuIpcHandle& handle) {
  CudaPlatform& platform = *session.platform;
  std::optional<std::uint64_t> number = platform.exports().exported(range.start);
  if (!number) {
    if (const Status serves = serve_exports(session); !serves) {
      return no_room(serves.error());
    }
    if (const Status room = platform.exports().may_export(range.start); !room) {
      return no_room(room.error());
    }
    const CudaOperand all{
        .address = range.start, .bytes = range.bytes, .mode = AccessMode::kReadWrite};
    const CuResult result = with_memory(session, {&all, 1}, [&] {
      const Result<std::uint64_t> exported = platform.exports().export_memory(range.start);
      if (!exported) {
        return no_room(exported.error());
      }
      number = *exported;
      return CuResult::kSuccess;
    });
    if (result != CuResult::kSuccess) {
      return result;
    }
    session.segments->keep_whole(range.start);
  }
  const std::uint64_t known = number.value_or(0);  // never 0 here
  handle = SharedHandle{.process = ::getpid(), .token = own_token(), .number = known}.bytes();
  return CuResult::kSuccess;
}

}  // namespace spillway::cuda
