// See held_addresses.h.
#include "interpose/cuda/operands/held_addresses.h"

#include <limits>
#include <numeric>
#include <utility>

namespace spillway::cuda {

bool NamedMemory::put(std::uint64_t allocation, const AddressRange& bytes) {
  const auto [at, is_new] = places_.try_emplace(allocation, all_.size());
  if (is_new) {
    all_.push_back({.allocation = allocation, .bytes = bytes});
    return true;
  }
  AddressRange& there = all_[at->second].bytes;
  const std::uint64_t start = std::min(there.start, bytes.start);
  const std::uint64_t end = std::max(there.start + there.bytes, bytes.start + bytes.bytes);
  const bool grows = end - start > there.bytes;
  there = {.start = start, .bytes = end - start};
  return grows;
}

void HeldAddresses::add(const AddressRange& where, NamedMemory named, std::uint64_t now) {
  insert({.start = where.start,
          .end = where.start + where.bytes,
          .named = std::move(named),
          .added = now});
}

void HeldAddresses::insert(Piece piece) {
  if (piece.named.all().empty()) {
    return;
  }
  const auto behind =
      std::upper_bound(pieces_.begin(), pieces_.end(), piece.start,
                       [](std::uint64_t start, const Piece& it) { return start < it.start; });
  pieces_.insert(behind, std::move(piece));
  if (pieces_.size() > kMostPieces) {
    join_two();
  }
}

void HeldAddresses::Piece::take(const NamedMemory& more) {
  for (const NamedMemory::One& it : more.all()) {
    named.put(it.allocation, it.bytes);
  }
}

void HeldAddresses::read(const AddressRange& where, NamedMemory named, std::uint64_t now) {
  std::erase_if(pieces_, [&](const Piece& it) {
    return it.read && it.start >= where.start && it.end <= where.start + where.bytes;
  });
  insert({.start = where.start,
          .end = where.start + where.bytes,
          .named = std::move(named),
          .added = now,
          .read = true});
}

void HeldAddresses::add_more(const AddressRange& where, const NamedMemory& named,
                             std::uint64_t now) {
  const auto same = std::find_if(pieces_.begin(), pieces_.end(), [&](const Piece& it) {
    return !it.read && it.start == where.start && it.end == where.start + where.bytes;
  });
  if (same == pieces_.end()) {
    add(where, named, now);
  } else {
    same->take(named);
    same->added = now;
  }
}

// Neighbours, those that name least, so that none is moved often.
void HeldAddresses::join_two() {
  std::size_t best = 0;
  std::size_t fewest = std::numeric_limits<std::size_t>::max();
  for (std::size_t i = 0; i + 1 < pieces_.size(); ++i) {
    const std::size_t both = pieces_[i].named.all().size() + pieces_[i + 1].named.all().size();
    if (both < fewest) {
      fewest = both;
      best = i;
    }
  }
  Piece& one = pieces_[best];
  Piece& other = pieces_[best + 1];
  if (one.named.all().size() < other.named.all().size()) {
    std::swap(one.named, other.named);
  }
  one.take(other.named);
  one.end = std::max(one.end, other.end);
  one.added = std::max(one.added, other.added);
  one.read = one.read && other.read;
  pieces_.erase(pieces_.begin() + static_cast<std::ptrdiff_t>(best) + 1);
}

void HeldAddresses::replaced(const AddressRange& where, std::uint64_t then) {
  const std::uint64_t end = where.start + where.bytes;
  bool begins_move = false;
  std::erase_if(pieces_, [&](Piece& it) {
    if (it.added > then || it.end <= where.start || it.start >= end) {
      return false;
    }
    if (it.start >= where.start && it.end <= end) {
      return true;
    }
    if (it.start >= where.start) {
      it.start = end;
      begins_move = true;
    } else if (it.end <= end) {
      it.end = where.start;
    }
    return false;
  });
  if (begins_move) {
    std::stable_sort(pieces_.begin(), pieces_.end(),
                     [](const Piece& one, const Piece& other) { return one.start < other.start; });
  }
}

std::size_t HeldAddresses::size() const {
  return std::accumulate(
      pieces_.begin(), pieces_.end(), std::size_t{0},
      [](std::size_t sum, const Piece& it) { return sum + it.named.all().size(); });
}

}  // namespace spillway::cuda
