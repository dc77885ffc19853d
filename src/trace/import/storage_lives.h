// Which tensor a storage's id means at a moment: ids come back. Layer: trace.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "base/error.h"
#include "trace/import/assembler.h"

namespace spillway {

// `assembler` must outlive this.
class StorageLives {
 public:
  explicit StorageLives(TraceAssembler& assembler) : assembler_(assembler) {}

  // An operator takes it: one that nobody made was there before the iteration.
  Status is_used(std::uint64_t storage, Bytes bytes) {
    const auto at = lives_.find(storage);
    if (at != lives_.end()) {
      return assembler_.grow(at->second.tensor, bytes);
    }
    return begin(storage, bytes, 0, true);
  }

  // An operator returns it and did not take it. It is a new one, unless an operator inside of that
  // one (that is, at a position that is not smaller) has made it.
  Status is_born(std::uint64_t storage, Bytes bytes, std::uint32_t by) {
    const auto at = lives_.find(storage);
    if (at != lives_.end() && at->second.born_here && at->second.by >= by) {
      return assembler_.grow(at->second.tensor, bytes);
    }
    return begin(storage, bytes, by, false);
  }

  // Of a storage that was used or born.
  [[nodiscard]] TensorId now(std::uint64_t storage) const { return lives_.at(storage).tensor; }

 private:
  struct Life {
    TensorId tensor;
    std::uint32_t by;  // position of the operator that made it
    bool born_here;
  };

  Status begin(std::uint64_t storage, Bytes bytes, std::uint32_t by, bool before) {
    return assembler_.tensor(bytes, before).map([&](const TensorId tensor) {
      lives_.insert_or_assign(storage, Life{tensor, by, !before});
    });
  }

  TraceAssembler& assembler_;
  std::unordered_map<std::uint64_t, Life> lives_;
};

}  // namespace spillway
