// See routes.h.
#include "platform/near/routes.h"

#include <algorithm>
#include <cstring>

namespace spillway::near {

Status Routes::copy(const End& to, const End& from, Bytes bytes) {
  if (from.memory != nullptr) {
    return write(to, from.memory, bytes);
  }
  if (to.memory != nullptr) {
    return read(to.memory, from, bytes);
  }
  if (to.gpu != nullptr && from.gpu != nullptr) {
    return to.gpu->copy_within(to.at, from.at, bytes);
  }
  return copy_staged(to, from, bytes);
}

Status Routes::write(const End& to, const char* from, Bytes bytes) {
  if (to.memory != nullptr) {
    std::memcpy(to.memory, from, bytes);
    return {};
  }
  return to.gpu != nullptr ? to.gpu->copy_in(to.at, from, bytes)
                           : to.storage->write(from, to.at, bytes);
}

Status Routes::read(char* to, const End& from, Bytes bytes) {
  return from.gpu != nullptr ? from.gpu->copy_out(to, from.at, bytes)
                             : from.storage->read(to, from.at, bytes);
}

Status Routes::copy_staged(const End& to, const End& from, Bytes bytes) {
  char* const buffer = buffers_.take();
  if (buffer == nullptr) {
    return make_error(ErrorCode::kNoRoom, "no memory for a buffer of {} between two sides",
                      format_bytes(kBlockBytes));
  }
  Status moved;
  for (Bytes done = 0; done < bytes && moved; done += kBlockBytes) {
    const Bytes part = std::min(bytes - done, kBlockBytes);
    moved = read(buffer, from.behind(done), part);
    if (moved) {
      moved = write(to.behind(done), buffer, part);
    }
    staged_bytes_ += part;
  }
  buffers_.give_back(buffer);
  return moved;
}

}  // namespace spillway::near
