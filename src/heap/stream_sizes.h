// What was asked for in the order of each stream, and whether sizes that are near are one
// (near_sizes.h). Layer: heap.
#pragma once

#include <unordered_map>
#include <utility>

#include "base/units.h"
#include "heap/trim_policy.h"
#include "platform/common/near_sizes.h"
#include "platform/cuda/cuda_platform.h"

namespace spillway {

class StreamSizes {
 public:
  using Stream = cuda::CuStream;

  // What one that asks for so much had better get. Where all fits, or it is not known yet what
  // comes and goes, nobody is given more than it asks for. After that a new high is no reason to
  // give everything another place.
  [[nodiscard]] Bytes better(Stream stream, Bytes asked, const TrimPolicy& room,
                             Bytes budget_bytes) {
    if (!shares_ && !room.may_grow()) {
      shares_ = room.most_used_bytes() > budget_bytes;
    }
    return shares_ ? near_[stream].better(asked) : asked;
  }
  // One that asked for so much is in use, or no longer.
  void born(Stream stream, Bytes asked) { near_[stream].born(asked); }
  void died(Stream stream, Bytes asked) { near_[stream].died(asked); }
  // Nobody will ask in its order again.
  void forget(Stream stream) { near_.erase(stream); }

  // What is known of a stream, to be put back by `restore`.
  [[nodiscard]] const NearSizes& of(Stream stream) { return near_[stream]; }
  void restore(Stream stream, NearSizes before) { near_[stream] = std::move(before); }

 private:
  std::unordered_map<Stream, NearSizes> near_;  // nobody else has what is kept for a stream
  bool shares_ = false;                         // sizes that are near are one
};

}  // namespace spillway
