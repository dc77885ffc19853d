// Addresses that the driver has encoded for the program: tensor maps, which kernels are given by
// value or find in device memory. One whose words do not show the address is known by its bytes.
// Layer: interpose, cuda. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "interpose/cuda/session.h"

namespace spillway::cuda {

// Where maps may begin.
inline constexpr std::size_t kTensorMapAlignment = alignof(CuTensorMap);

// The driver has made this map for this address.
void note_encoded(const Session& session, const CuTensorMap& map, std::uint64_t address);
// Whether there are any that words do not show.
[[nodiscard]] bool addresses_are_encoded();
// Those of maps in these bytes, the first of which may be the first of one.
void for_each_encoded(const void* bytes, std::size_t count,
                      const std::function<void(std::uint64_t)>& visit);

}  // namespace spillway::cuda
