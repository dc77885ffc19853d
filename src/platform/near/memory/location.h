// Where bytes lie that the near device copies, and the ways between them. Layer: platform, near.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace spillway::near {

enum class Side : std::uint8_t {
  kHost = 0,     // memory of the process that is not the device's
  kNear = 1,     // a channel's memory
  kGpu = 2,      // an address of the GPU
  kStorage = 3,  // a number that the device has given out for a place on storage
};
inline constexpr std::size_t kSides = 4;
[[nodiscard]] constexpr std::size_t index_of(Side side) { return static_cast<std::size_t>(side); }

// What is behind an address may be reached by adding to it, on every side.
using Address = std::uint64_t;
struct Location {
  Side side = Side::kHost;
  Address address = 0;
};

[[nodiscard]] inline Address address_of(const void* pointer) {
  return std::bit_cast<Address>(pointer);
}
[[nodiscard]] inline char* pointer_to(Address address) { return std::bit_cast<char*>(address); }

[[nodiscard]] inline Location at_host(const void* pointer) {
  return {Side::kHost, address_of(pointer)};
}
[[nodiscard]] inline Location at_near(const void* pointer) {
  return {Side::kNear, address_of(pointer)};
}
[[nodiscard]] inline Location at_gpu(Address address) { return {Side::kGpu, address}; }
[[nodiscard]] inline Location at_storage(Address place) { return {Side::kStorage, place}; }

}  // namespace spillway::near
