// Device memory of ours that launches need which are put on a stream again: a workspace, and copies
// of small operands, which programs give up long before what was made of them. Layer: interpose,
// cuda. docs/cuda.md. A stream has its own: what uses it is in the stream's order. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "interpose/cuda/session.h"

namespace spillway::cuda {

// Of one stream.
class CopyPlaces;

// A place for a copy, as long as it lives.
class SmallCopy {
 public:
  SmallCopy(std::shared_ptr<CopyPlaces> of, std::size_t first, std::size_t count, CuAddress address)
      : of_(std::move(of)), first_(first), count_(count), address_(address) {}
  SmallCopy(const SmallCopy&) = delete;
  SmallCopy& operator=(const SmallCopy&) = delete;
  ~SmallCopy();
  [[nodiscard]] CuAddress address() const { return address_; }

 private:
  std::shared_ptr<CopyPlaces> of_;
  std::size_t first_;
  std::size_t count_;
  CuAddress address_;
};

// At least as large; 0: there is none. For whatever the stream does next.
[[nodiscard]] CuAddress own_workspace(const Session& session, CuStream stream, Bytes bytes);
// nullptr: there is none.
[[nodiscard]] std::shared_ptr<SmallCopy> place_for_copy(const Session& session, CuStream stream,
                                                        Bytes bytes);
// The stream ends. Another may have its handle next, and not be ordered behind it.
void forget_kept_memory(CuStream stream);

}  // namespace spillway::cuda
