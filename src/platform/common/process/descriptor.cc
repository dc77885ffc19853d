// See descriptor.h.
#include "platform/common/process/descriptor.h"

#include <unistd.h>

#include <utility>

namespace spillway {

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    const Descriptor old(fd_);
    fd_ = other.release();
  }
  return *this;
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

int Descriptor::release() { return std::exchange(fd_, -1); }

}  // namespace spillway
