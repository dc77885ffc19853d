// What an address means in memory that the program maps itself, where PyTorch's allocator has told
// which tensors live (docs/interposer.md). Layer: interpose, cuda. Thread-safe.
#pragma once

#include <cstdint>

#include "interpose/cuda/session.h"

namespace spillway::cuda {

// What lies at the address itself.
template <typename Visit>
void visit_meant(const Session& session, std::uint64_t address, const Segments::Meant& meant,
                 const Visit& visit) {
  if (meant.in.bytes > 0) {
    visit(meant.in);
    return;
  }
  for (const AddressRange& range :
       session.platform->placed().allocations_beside(address, meant.between)) {
    visit(range);
  }
}

// Visits (a AddressRange each) the tensor in which it lies, and, unless pointers are known
// to be where tensors `begin`, the one of which it is the end. Where no tensor is known to live,
// the pieces that lie side by side there and have bytes that are no known tensor's. False: it is
// no such memory, and nothing was visited.
template <typename Visit>
bool for_each_meant(const Session& session, std::uint64_t address, bool begins,
                    const Visit& visit) {
  if (!session.platform->placed().has_reserved()) {
    return false;
  }
  const std::optional<Segments::Meant> meant = session.segments->meant_by(address);
  if (!meant) {
    return false;
  }
  if (meant->ends.bytes > 0 && !begins) {
    visit(meant->ends);
  }
  visit_meant(session, address, *meant, visit);
  return true;
}

// The same of every address of these bytes, as one where a tensor begins.
template <typename Visit>
bool for_each_meant_in(const Session& session, const AddressRange& bytes, const Visit& visit) {
  if (!session.platform->placed().has_reserved()) {
    return false;
  }
  bool any = false;
  const std::uint64_t end = bytes.start + bytes.bytes;
  for (std::uint64_t at = bytes.start; at < end; any = true) {
    const std::optional<Segments::Meant> meant = session.segments->meant_by(at);
    if (!meant) {
      break;
    }
    visit_meant(session, at, *meant, visit);
    const AddressRange& here = meant->in.bytes > 0 ? meant->in : meant->between;
    at = here.start + here.bytes;
  }
  return any;
}

}  // namespace spillway::cuda
