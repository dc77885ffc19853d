// What has been given out of one memory, and what of it is in use now. Layer: platform, near.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "platform/near/memory/location.h"

namespace spillway::near {

class Allocations {
 public:
  // `where`: the memory's name, for people.
  explicit Allocations(std::string where) : where_(std::move(where)) {}

  void add(Address start, Bytes bytes);
  // Its bytes. kInvalidInput: no allocation starts there; kBusy: it is held.
  Result<Bytes> remove(Address start);
  // The start of the allocation in which all of these bytes lie. It is not removed before it is
  // released as often as it was held. kInvalidInput: there is none.
  Result<Address> hold(Address first, Bytes bytes);
  void release(Address start);
  // Whether an allocation has this byte.
  [[nodiscard]] bool has(Address address) const;

  [[nodiscard]] const std::string& where() const { return where_; }

 private:
  struct Allocation {
    Bytes bytes = 0;
    std::uint32_t holds = 0;
  };
  std::string where_;
  std::map<Address, Allocation> by_start_;
};

}  // namespace spillway::near
