#include "heap/heap_pieces.h"

#include "base/spread.h"

namespace spillway {

HeapPieces::Slot HeapPieces::add(std::uint64_t address) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<Slot>(pieces_.size()));
    pieces_.emplace_back();
  }
  const Slot slot = free_slots_.back();
  free_slots_.pop_back();
  pieces_[slot].address = address;
  slots_.emplace(address, slot);
  return slot;
}

void HeapPieces::remove(Slot slot) {
  slots_.erase(pieces_[slot].address);
  pieces_[slot] = {};
  free_slots_.push_back(slot);
}

std::optional<HeapPieces::Slot> HeapPieces::slot_of(std::uint64_t address) const {
  Slot& hint = hints_[spread(address, kHintBits)];
  if (hint < pieces_.size() && pieces_[hint].address == address) {
    return hint;
  }
  const auto found = slots_.find(address);
  if (found == slots_.end()) {
    return std::nullopt;
  }
  return hint = found->second;
}

std::optional<HeapPieces::Slot> HeapPieces::used_at(std::uint64_t address) const {
  const std::optional<Slot> slot = slot_of(address);
  return slot && pieces_[*slot].used ? slot : std::nullopt;
}

std::optional<Bytes> HeapPieces::used_bytes_at(std::uint64_t address) const {
  const std::optional<Slot> slot = used_at(address);
  return slot ? std::optional(pieces_[*slot].bytes) : std::nullopt;
}

}  // namespace spillway
