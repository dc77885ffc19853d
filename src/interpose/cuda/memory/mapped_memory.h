// Memory that the program maps itself: reservations, handles and mappings, as it knows them.
// Layer: interpose, cuda. Thread-safe. docs/interposer.md, "Memory that programs map themselves".
//
// A handle of ours has no memory. When it is mapped, an allocation of the space lies at that
// address; while it is mapped nowhere, that is hidden and keeps its bytes. What only the driver can
// do with a handle (mapped twice, given to other processes, to a multicast object) makes it real:
// it has memory of the driver's from then on, which counts as taken past the budget.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "interpose/cuda/session.h"

namespace spillway::cuda {

class MappedMemory {
 public:
  // The program's.
  [[nodiscard]] static MappedMemory& of_program();

  // Each as the driver's call of that name. nullopt: that is the driver's to answer, and nothing
  // has been done. `caller`: the code that calls.
  using Answer = std::optional<CuResult>;
  Answer reserve(const Session& session, CuAddress* address, Bytes bytes, Bytes alignment,
                 const void* caller);
  Answer free_reserved(const Session& session, CuAddress address, Bytes bytes);
  Answer create(const Session& session, CuMemHandle* handle, Bytes bytes,
                const CuAllocationProperties& properties, const void* caller);
  Answer release(const Session& session, CuMemHandle handle);
  Answer map(const Session& session, CuAddress address, Bytes bytes, Bytes offset,
             CuMemHandle handle);
  Answer unmap(const Session& session, CuAddress address, Bytes bytes);
  Answer set_access(const Session& session, CuAddress address, Bytes bytes,
                    const std::vector<CuAccessDescription>& descriptions);
  Answer retain(CuMemHandle* handle, CuAddress address);
  Answer properties_of(CuAllocationProperties* properties, CuMemHandle handle);

  // The driver has made this handle itself, of memory of the device that is served.
  void made_by_driver(CuMemHandle handle, Bytes bytes, const void* caller);
  // What the driver knows a handle by; one of ours is made real for it (`error`: why it cannot be).
  [[nodiscard]] CuMemHandle real_handle(const Session& session, CuMemHandle handle,
                                        CuResult& error);
  // All of ours that are mapped in these bytes are made real.
  CuResult make_real(const Session& session, CuAddress address, Bytes bytes);

  // Who may use what is mapped there, of ours; nullopt: nothing is.
  [[nodiscard]] std::optional<CuAccess> access_of(CuAddress address, int device);
  // The reservation in which something of ours is mapped at this address.
  [[nodiscard]] std::optional<AddressRange> reservation_of(CuAddress address);
  // The kinds of handles that were asked for it; 0 as well where nothing of ours is mapped there.
  [[nodiscard]] std::uint32_t exported_as(CuAddress address);
  // Of all handles that have no memory of the driver's.
  [[nodiscard]] Bytes bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // Each mapping of ours: its address and bytes.
  template <typename Visit>
  void for_each(const Visit& visit) {
    const MutexLock lock(mutex_);
    for (const auto& [address, mapping] : mappings_) {
      if (!mapping.real) {
        visit(address, mapping.bytes);
      }
    }
  }

 private:
  struct Handle {
    Bytes bytes = 0;
    CuAllocationProperties properties = {};
    std::uint32_t references = 1;  // the program's
    std::uint32_t mappings = 0;
    CuAddress at = 0;      // of ours: where its allocation lies, mapped or hidden; 0: there is none
    CuMemHandle real = 0;  // the driver's
    const void* caller = nullptr;
    bool fills = false;  // the caller takes for granted that no reservation is ever full
  };
  struct Reservation {
    Bytes bytes = 0;
    bool stays_open = false;  // likewise
    Bytes mapped_bytes = 0;
  };
  struct Mapping {
    Bytes bytes = 0;
    CuMemHandle handle = 0;
    bool real = false;
    std::map<int, CuAccess> access = {};  // by device
  };
  using Reservations = std::map<CuAddress, Reservation>;
  using Mappings = std::map<CuAddress, Mapping>;
  [[nodiscard]] Handle* known(CuMemHandle handle) SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] Reservations::iterator reservation_at(CuAddress address) SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] bool in_reservation(CuAddress address, Bytes bytes) SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] Mappings::iterator mapping_at(CuAddress address) SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] std::optional<std::vector<CuAddress>> whole_mappings(CuAddress address,
                                                                     Bytes bytes) const
      SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] CuResult move_away(const Session& session, CuAddress address, Bytes bytes,
                                   CuMemHandle but) SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] CuResult map_ours(const Session& session, CuAddress address, CuMemHandle name,
                                  Handle& handle) SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] CuResult make_real(const Session& session, CuMemHandle name, Handle& handle)
      SPILLWAY_REQUIRES(mutex_);
  void end_allocation(const Session& session, CuMemHandle name, Handle& handle)
      SPILLWAY_REQUIRES(mutex_);
  void forget_if_unused(CuMemHandle name) SPILLWAY_REQUIRES(mutex_);
  void is_mapped(CuAddress address, const Mapping& mapping) SPILLWAY_REQUIRES(mutex_);
  void is_unmapped(CuAddress address, const Mapping& mapping) SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] Status leaves_reservations_open(Bytes bytes) const SPILLWAY_REQUIRES(mutex_);

  Mutex mutex_;
  Reservations reservations_ SPILLWAY_GUARDED_BY(mutex_);  // ours
  std::unordered_map<CuMemHandle, Handle> handles_ SPILLWAY_GUARDED_BY(mutex_);
  Mappings mappings_ SPILLWAY_GUARDED_BY(mutex_);  // in our reservations, and of known handles
  // By where its allocation lies.
  std::map<CuAddress, CuMemHandle> hidden_ SPILLWAY_GUARDED_BY(mutex_);
  std::uint64_t last_number_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  std::atomic<Bytes> bytes_{0};
  // Of handles that `fill`, and are mapped nowhere.
  Bytes may_fill_bytes_ SPILLWAY_GUARDED_BY(mutex_) = 0;
};

}  // namespace spillway::cuda
