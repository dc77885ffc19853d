// See encoded_addresses.h.
#include "interpose/cuda/operands/encoded_addresses.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "base/mutex.h"

namespace spillway::cuda {
namespace {

struct BytesOrder {
  bool operator()(const CuTensorMap& a, const CuTensorMap& b) const {
    return std::memcmp(&a, &b, sizeof a) < 0;
  }
};
// Programs make the same maps again and again; those of memory that is gone are dropped once there
// are many.
struct Encoded {
  SharedMutex mutex;
  std::map<CuTensorMap, std::uint64_t, BytesOrder> addresses SPILLWAY_GUARDED_BY(mutex);
  std::size_t most SPILLWAY_GUARDED_BY(mutex) = 4096;
};
Encoded& encoded() {
  static auto* const all = new Encoded;  // threads of the program may run until the very end
  return *all;
}
std::atomic<bool> any_encoded{false};  // most drivers' maps show their addresses

bool shows(const Session& session, const CuTensorMap& map, const AddressRange& range) {
  return std::any_of(std::begin(map.words), std::end(map.words), [&](std::uint64_t word) {
    const auto found = session.platform->memory().allocation_of(word);
    return found && found->start == range.start;
  });
}

}  // namespace

void note_encoded(const Session& session, const CuTensorMap& map, std::uint64_t address) {
  const std::optional<AddressRange> range = session.platform->memory().allocation_of(address);
  if (!range || shows(session, map, *range)) {
    return;
  }
  const MutexLock lock(encoded().mutex);
  auto& addresses = encoded().addresses;
  if (addresses.size() >= encoded().most) {
    std::erase_if(addresses, [&](const auto& it) {
      return !session.platform->memory().allocation_of(it.second).has_value();
    });
    encoded().most = std::max(encoded().most, 2 * addresses.size());
  }
  addresses[map] = address;
  any_encoded.store(true, std::memory_order_release);
}

bool addresses_are_encoded() { return any_encoded.load(std::memory_order_acquire); }

void for_each_encoded(const void* bytes, std::size_t count,
                      const std::function<void(std::uint64_t)>& visit) {
  std::vector<std::uint64_t> found;
  {
    const SharedLock lock(encoded().mutex);
    CuTensorMap map{};
    for (std::size_t at = 0; at + sizeof map <= count; at += kTensorMapAlignment) {
      std::memcpy(&map, static_cast<const char*>(bytes) + at, sizeof map);
      if (const auto it = encoded().addresses.find(map); it != encoded().addresses.end()) {
        found.push_back(it->second);
      }
    }
  }
  std::for_each(found.begin(), found.end(), visit);
}

}  // namespace spillway::cuda
