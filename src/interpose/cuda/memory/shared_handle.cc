// See shared_handle.h.
#include "interpose/cuda/memory/shared_handle.h"

#include <fmt/format.h>

#include <cstring>

namespace spillway::cuda {
namespace {

constexpr char kMark[] = "spillway memory";  // with what ends it

struct Written {
  char mark[sizeof kMark];
  std::uint64_t token;
  std::uint64_t number;
  std::int32_t process;
};
static_assert(sizeof(Written) <= sizeof(CuIpcHandle));

}  // namespace

CuIpcHandle SharedHandle::bytes() const {
  Written written{.mark = {}, .token = token, .number = number, .process = process};
  std::memcpy(written.mark, kMark, sizeof kMark);
  CuIpcHandle bytes{};
  std::memcpy(bytes.bytes, &written, sizeof written);
  return bytes;
}

std::optional<SharedHandle> SharedHandle::from(const CuIpcHandle& bytes) {
  Written written{};
  std::memcpy(&written, bytes.bytes, sizeof written);
  if (std::memcmp(written.mark, kMark, sizeof kMark) != 0) {
    return std::nullopt;
  }
  return SharedHandle{.process = written.process, .token = written.token, .number = written.number};
}

std::string SharedHandle::socket_name() const {
  return fmt::format("spillway-{}-{:016x}", process, token);
}

}  // namespace spillway::cuda
