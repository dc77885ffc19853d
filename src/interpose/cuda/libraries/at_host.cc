// Updates next to their data, for libspillway_near: near/at_host.h. Layer: interpose, cuda.
#include "near/at_host.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "interpose/cuda/session.h"
#include "near/at_host_answers.h"
#include "platform/common/process/service_thread.h"

// Who asks is no call of the program's: what we put on streams for it is not followed.
extern "C" {

int spillway_at_host_begin(const spillway_at_host_operand* operands, std::size_t count,
                           std::size_t parts, void* stream, std::uint64_t* updates) {
  const spillway::InService inside;
  const spillway::cuda::Session* const session = spillway::cuda::session();
  if (session == nullptr) {
    return 0;
  }
  std::vector<std::vector<spillway::ProgramOperand>> all;
  for (std::size_t i = 0; i < parts; ++i) {
    all.push_back(spillway::near::named(operands + i * count, count));
  }
  const std::vector<spillway::UpdateId> begun = session->platform->updates().begin_updates(
      all, static_cast<spillway::cuda::CuStream>(stream));
  std::copy(begun.begin(), begun.end(), updates);
  return begun.empty() ? 0 : 1;
}

int spillway_at_host_takes() {
  const spillway::InService inside;
  const spillway::cuda::Session* const session = spillway::cuda::session();
  return session != nullptr && session->platform->updates().takes_updates() ? 1 : 0;
}

std::uint64_t spillway_at_host_next() {
  const spillway::InService inside;
  const spillway::cuda::Session* const session = spillway::cuda::session();
  return session == nullptr ? 0 : session->platform->updates().next_update().value_or(0);
}

std::size_t spillway_at_host_extents(std::uint64_t update, std::size_t operand,
                                     spillway_at_host_extent* to, std::size_t most) {
  const spillway::InService inside;
  return spillway::near::known_extents().tell(update, operand, to, most, [&] {
    return spillway::cuda::session()->platform->updates().update_extents(update);
  });
}

void spillway_at_host_end(std::uint64_t update) {
  const spillway::InService inside;
  spillway::near::known_extents().forget(update);
  spillway::cuda::session()->platform->updates().end_update(update);
}

void spillway_at_host_send(const void* start, std::size_t bytes) {
  const spillway::InService inside;
  if (const spillway::cuda::Session* const session = spillway::cuda::session()) {
    session->platform->hints().send_to_host(reinterpret_cast<std::uintptr_t>(start), bytes);
  }
}

}  // extern "C"
