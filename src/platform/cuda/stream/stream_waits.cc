// See stream_waits.h.
#include "platform/cuda/stream/stream_waits.h"

#include <new>

namespace spillway::cuda {

CuResult StreamWaits::make() {
  void* memory = nullptr;
  const std::size_t words = 2 * kWordsApart * kStreams;
  const CuResult result = driver_->host_alloc(&memory, words * sizeof(Word), kCuHostAllocPortable);
  if (result == CuResult::kSuccess) {
    words_ = new (memory) Word[words]();
  }
  return result;
}

void StreamWaits::give_back() {
  if (words_ != nullptr) {
    (void)driver_->host_free(words_);
    words_ = nullptr;
  }
}

CuResult StreamWaits::put_wait(std::uint32_t stream, std::uint64_t launch, CuStream on) const {
  return driver_->stream_wait_value(on, reinterpret_cast<CuAddress>(&wait_word(stream)), launch,
                                    kCuWaitAtLeast);
}

CuResult StreamWaits::put_marker(std::uint32_t stream, std::uint64_t launch, CuStream on) const {
  return driver_->stream_write_value(on, reinterpret_cast<CuAddress>(&marker_word(stream)), launch,
                                     kCuWriteDefault);
}

}  // namespace spillway::cuda
