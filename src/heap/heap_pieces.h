// The addresses that a heap has of the platform, in use or kept, by slot and by address. Layer:
// heap.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "heap/free_block_index.h"
#include "heap/pool_accounts.h"
#include "platform/cuda/cuda_platform.h"

namespace spillway {

struct HeapPiece {
  std::uint64_t address = 0;
  Bytes bytes = 0;  // as it was asked for
  Bytes size = 0;   // what it has; as it was asked for it would be DeviceHeap::size_of(bytes)
  std::optional<cuda::CuStream> stream;
  std::uint64_t serial = 0;                       // from 1; of who uses it, or did last
  PoolAccounts::Pool pool = PoolAccounts::kNone;  // likewise
  bool used = false;
  bool counted = false;  // StreamSizes know that it is in use
};

class HeapPieces {
 public:
  using Slot = FreeBlockIndex::Slot;

  [[nodiscard]] Slot add(std::uint64_t address);
  void remove(Slot slot);

  [[nodiscard]] HeapPiece& operator[](Slot slot) { return pieces_[slot]; }
  [[nodiscard]] const HeapPiece& operator[](Slot slot) const { return pieces_[slot]; }
  // nullopt: nothing in use begins there.
  [[nodiscard]] std::optional<Slot> used_at(std::uint64_t address) const;
  // As the program asked for them; nullopt likewise.
  [[nodiscard]] std::optional<Bytes> used_bytes_at(std::uint64_t address) const;

  // All slots; those that are nobody's have the address 0.
  [[nodiscard]] auto begin() { return pieces_.begin(); }
  [[nodiscard]] auto end() { return pieces_.end(); }
  [[nodiscard]] auto begin() const { return pieces_.begin(); }
  [[nodiscard]] auto end() const { return pieces_.end(); }

 private:
  static constexpr int kHintBits = 15;
  static constexpr std::size_t kHints = std::size_t{1} << kHintBits;

  [[nodiscard]] std::optional<Slot> slot_of(std::uint64_t address) const;

  std::vector<HeapPiece> pieces_;  // by slot
  // What `slots_` said last, by a part of the address: a line of memory instead of three.
  mutable std::array<Slot, kHints> hints_{};
  std::unordered_map<std::uint64_t, Slot> slots_;  // by address
  std::vector<Slot> free_slots_;
};

}  // namespace spillway
