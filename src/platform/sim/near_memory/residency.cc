// Accounts. See residency.h.
#include "platform/sim/near_memory/residency.h"

#include <algorithm>
#include <cassert>

namespace spillway::sim::near_memory {

Residency::Residency(const Gpt& gpt, std::uint32_t channels, Bytes channel_bytes,
                     Placement placement)
    : resident_(gpt.tensors.size(), {false, false, false}),
      is_updated_(gpt.tensors.size(), false),
      kept_(gpt.tensors.size(), false),
      free_(channels, channel_bytes),
      gradients_(channels, 0),
      largest_(channels, 0),
      capacity_(channels, channel_bytes) {
  std::vector<Bytes> given(channels, 0);
  for (std::size_t i = 0; i < gpt.tensors.size(); ++i) {
    const Bytes bytes = gpt.tensors[i].bytes();
    const auto least = std::min_element(given.begin(), given.end()) - given.begin();
    const auto channel = placement == Placement::kRoundRobin
                             ? static_cast<std::uint32_t>(i % channels)
                             : static_cast<std::uint32_t>(least);
    given[channel] += bytes;
    largest_[channel] = std::max(largest_[channel], kParts.size() * bytes);
    bytes_.push_back(bytes);
    channels_.push_back(channel);
    for (const Part part : kParts) {
      storage_bytes_ += bytes;
      if (free_[channel] >= bytes) {
        enters({i, part});
      }
    }
  }
  storage_peak_bytes_ = storage_bytes_;
}

bool Residency::admits_gradient(std::size_t tensor) const {
  const std::uint32_t channel = channels_[tensor];
  return gradients_[channel] == 0 ||
         gradients_[channel] + bytes_[tensor] + largest_[channel] <= capacity_[channel];
}

std::optional<Piece> Residency::resident_of(std::size_t tensor, std::uint32_t channel) const {
  if (channels_[tensor] != channel || kept_[tensor]) {
    return std::nullopt;
  }
  for (const Part part : kParts) {
    if (at({tensor, part})) {
      return Piece{tensor, part};
    }
  }
  return std::nullopt;
}

std::optional<Piece> Residency::victim(std::uint32_t channel) const {
  for (const std::size_t tensor : order_) {
    if (const auto piece = resident_of(tensor, channel)) {
      return piece;
    }
  }
  for (std::size_t tensor = 0; tensor < bytes_.size(); ++tensor) {
    if (is_updated_[tensor]) {
      continue;
    }
    if (const auto piece = resident_of(tensor, channel)) {
      return piece;
    }
  }
  return std::nullopt;
}

void Residency::take_gradient(std::size_t tensor) {
  const std::uint32_t channel = channels_[tensor];
  assert(free_[channel] >= bytes_[tensor]);
  free_[channel] -= bytes_[tensor];
  gradients_[channel] += bytes_[tensor];
}

void Residency::free_gradient(std::size_t tensor) {
  const std::uint32_t channel = channels_[tensor];
  free_[channel] += bytes_[tensor];
  gradients_[channel] -= bytes_[tensor];
}

void Residency::enters(Piece piece) {
  const std::uint32_t channel = channels_[piece.tensor];
  assert(!at(piece) && free_[channel] >= bytes_[piece.tensor]);
  set(piece, true);
  free_[channel] -= bytes_[piece.tensor];
  storage_bytes_ -= bytes_[piece.tensor];
}

void Residency::leaves(Piece piece) {
  assert(at(piece));
  set(piece, false);
  storage_bytes_ += bytes_[piece.tensor];
  storage_peak_bytes_ = std::max(storage_peak_bytes_, storage_bytes_);
}

void Residency::begin_iteration() {
  order_.clear();
  std::fill(is_updated_.begin(), is_updated_.end(), false);
  storage_peak_bytes_ = storage_bytes_;
}

}  // namespace spillway::sim::near_memory
