// Which tensors lie in the memory beside the GPU and which on NVMe (paper sections 5.2 and 5.3).
// Layer: platform, simulator. It keeps accounts and chooses victims; the caller moves bytes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "platform/sim/near_memory/gpt.h"

namespace spillway::sim::near_memory {

// How parameter tensors are given to channels. Their states and gradients go with them.
enum class Placement : std::uint8_t {
  kRoundRobin,  // paper section 5.2: one after the other, whatever their size
  kBySize,      // to the channel that has the fewest bytes
};

// A parameter or one of its two moments.
enum class Part : std::uint8_t { kParameter, kFirstMoment, kSecondMoment };
inline constexpr std::array<Part, 3> kParts{Part::kParameter, Part::kFirstMoment,
                                            Part::kSecondMoment};
struct Piece {
  std::size_t tensor = 0;
  Part part = Part::kParameter;
};

class Residency {
 public:
  // Everything is put into the memory in the order of `gpt.tensors`, what does not fit on NVMe.
  Residency(const Gpt& gpt, std::uint32_t channels, Bytes channel_bytes, Placement placement);

  [[nodiscard]] std::uint32_t channel_of(std::size_t tensor) const { return channels_[tensor]; }
  [[nodiscard]] bool in_memory(Piece piece) const { return at(piece); }
  [[nodiscard]] Bytes bytes_of(Piece piece) const { return bytes_[piece.tensor]; }
  [[nodiscard]] Bytes free_bytes(std::uint32_t channel) const { return free_[channel]; }

  // Whether a gradient may have memory: the rest must hold the largest tensor with its states,
  // or no update could ever free one.
  [[nodiscard]] bool admits_gradient(std::size_t tensor) const;
  // What is to leave a channel next: what this iteration has updated, the longest ago first; then
  // what will be updated last. Nothing of a tensor that is `kept`, that is being updated. nullopt
  // where nothing may leave.
  [[nodiscard]] std::optional<Piece> victim(std::uint32_t channel) const;
  void keep(std::size_t tensor, bool kept) { kept_[tensor] = kept; }

  // Space must be there (free_bytes). A piece is in memory from the beginning of its way in; it is
  // on NVMe from the beginning of its way out, whose end frees its memory.
  void take_gradient(std::size_t tensor);
  void free_gradient(std::size_t tensor);
  void enters(Piece piece);
  void leaves(Piece piece);
  void left(Piece piece) { free_[channels_[piece.tensor]] += bytes_[piece.tensor]; }

  void updated(std::size_t tensor) { order_.push_back(tensor), is_updated_[tensor] = true; }
  // Also forgets the peak.
  void begin_iteration();

  [[nodiscard]] Bytes storage_bytes() const { return storage_bytes_; }
  [[nodiscard]] Bytes storage_peak_bytes() const { return storage_peak_bytes_; }

 private:
  [[nodiscard]] bool at(Piece piece) const {
    return resident_[piece.tensor][static_cast<std::size_t>(piece.part)];
  }
  void set(Piece piece, bool resident) {
    resident_[piece.tensor][static_cast<std::size_t>(piece.part)] = resident;
  }
  [[nodiscard]] std::optional<Piece> resident_of(std::size_t tensor, std::uint32_t channel) const;

  std::vector<Bytes> bytes_;             // of one part
  std::vector<std::uint32_t> channels_;  // by tensor
  std::vector<std::array<bool, 3>> resident_;
  std::vector<bool> is_updated_;
  std::vector<bool> kept_;
  std::vector<std::size_t> order_;  // of updates
  std::vector<Bytes> free_;         // by channel
  std::vector<Bytes> gradients_;
  std::vector<Bytes> largest_;  // tensor with its states
  std::vector<Bytes> capacity_;
  Bytes storage_bytes_ = 0;
  Bytes storage_peak_bytes_ = 0;
};

}  // namespace spillway::sim::near_memory
