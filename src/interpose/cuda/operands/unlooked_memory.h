// Device memory into which addresses may have come that nobody has seen: a kernel that may store
// addresses was given it, or the host has copied more there than is scanned. It also keeps what
// looks have told: who has stored addresses. Those who never do cause no further looks.
// Layer: interpose, cuda. Thread-safe. docs/interposer.md, "Pointer tables".
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "platform/cuda/driver/driver_types.h"
#include "platform/cuda/memory/address_range.h"

namespace spillway::cuda {

// Who may have put addresses somewhere: a kernel, by its hash, or copies into an allocation. A
// kernel counts as two: given memory that holds addresses, and not. One that only moves data stores
// addresses once it is given a table.
class AddressWriter {
 public:
  static AddressWriter kernel(std::uint64_t hash, bool given_addresses) {
    return AddressWriter((hash << 2U) | (given_addresses ? 1U : 0U));
  }
  static AddressWriter copies_to(std::uint64_t allocation) {
    return AddressWriter((allocation << 2U) | 2U);
  }
  [[nodiscard]] std::uint64_t key() const { return key_; }
  [[nodiscard]] bool is_copies() const { return (key_ & 2U) != 0; }
  bool operator==(const AddressWriter&) const = default;

 private:
  explicit AddressWriter(std::uint64_t key) : key_(key) {}
  std::uint64_t key_;
};

// To be looked at.
struct Unlooked {
  std::uint64_t allocation = 0;  // its start
  AddressRange bytes;
  std::vector<AddressWriter> writers;
  std::uint64_t noted = 0;  // by a count of all notes
  // The stream of the kernels among its writers; `several`: not all have the same.
  std::optional<CuStream> stream;
  bool several = false;
  bool is_all = true;  // `bytes` has all that was noted
};

class UnlookedMemory {
 public:
  // The process's.
  static UnlookedMemory& of_program();

  // More at once is data, and is not looked at.
  static constexpr Bytes kMostBytes = Bytes{4} << 20U;
  // After so many looks that have found nothing new.
  static constexpr int kLooks = 3;

  // Quick.
  [[nodiscard]] bool any() const { return count_.load(std::memory_order_relaxed) > 0; }
  // Changes when a note may have been lost: as long as it is the same, noting the same again does
  // nothing.
  [[nodiscard]] std::uint64_t forgotten() const {
    return forgotten_.load(std::memory_order_acquire);
  }

  // Changes with every note.
  [[nodiscard]] std::uint64_t noted() const { return notes_.load(std::memory_order_acquire); }

  // Whether a look may find that it has put addresses somewhere.
  [[nodiscard]] bool may_write(AddressWriter writer) const;
  // `stream`: a kernel's.
  void note(AddressWriter writer, std::uint64_t allocation, const AddressRange& bytes,
            std::optional<CuStream> stream);
  // Bytes have been copied within the device.
  void note_copied(std::uint64_t to, const AddressRange& to_bytes, std::uint64_t from,
                   const AddressRange& from_bytes);
  // Whether something of this allocation is to be looked at.
  [[nodiscard]] bool has(std::uint64_t allocation) const;
  // What of this allocation is to be looked at; `writers` is empty if nothing is.
  [[nodiscard]] Unlooked at(std::uint64_t allocation);
  // Somebody is about to look: what is noted from now on may come too late for that.
  void look_begins() { forgotten_.fetch_add(1, std::memory_order_acq_rel); }
  // It has been looked at on this stream, with all that was noted before `at`, and something new
  // was found, or nothing. What runs on another stream may be still to come, and stays noted.
  void looked(const Unlooked& what, CuStream stream, bool found);
  // The allocation is gone, or dead; or all of these bytes of it have been replaced.
  void forget(std::uint64_t allocation);
  void replaced(std::uint64_t allocation, const AddressRange& bytes);

 private:
  // If several may have stored an address, each gets this many further looks before it counts as
  // harmless.
  static constexpr int kLooksOfSuspects = 16;
  struct Learned {
    int looks = 0;        // that have found nothing new, of kLooks
    int partial = 0;      // looks at a part of what was noted; some of them together count as one
    bool writes = false;  // something was found once, and it was nobody else
  };
  [[nodiscard]] bool may_write_here(AddressWriter writer) const SPILLWAY_REQUIRES(mutex_);
  void note_here(AddressWriter writer, std::uint64_t allocation, const AddressRange& bytes,
                 std::optional<CuStream> stream) SPILLWAY_REQUIRES(mutex_);
  void drop_harmless() SPILLWAY_REQUIRES(mutex_);
  void changed() SPILLWAY_REQUIRES(mutex_);

  mutable SharedMutex mutex_;
  std::unordered_map<std::uint64_t, Unlooked> by_start_ SPILLWAY_GUARDED_BY(mutex_);
  std::unordered_map<std::uint64_t, Learned> learned_ SPILLWAY_GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> notes_{0};  // one at a time
  std::atomic<std::size_t> count_{0};
  std::atomic<std::uint64_t> forgotten_{0};
  std::atomic<bool> copies_known_{false};  // something has been learned of copies
};

}  // namespace spillway::cuda
