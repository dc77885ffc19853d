// See mapped_memory.h.
#include "interpose/cuda/memory/mapped_memory.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "interpose/cuda/hooks/hook_table.h"
#include "interpose/cuda/memory/handle_memory.h"
#include "interpose/cuda/memory/out_of_memory.h"
#include "interpose/cuda/memory/past_budget.h"
#include "interpose/cuda/operands/pointer_tables.h"
#include "interpose/cuda/recording.h"

namespace spillway::cuda {
namespace {

constexpr Bytes kHostPageBytes = 4096;  // what the driver wants reservations to be multiples of
// Handles of the driver's are addresses of the host, or small: no such number.
constexpr CuMemHandle kOurs = CuMemHandle{0x5b17} << 48U;
constexpr CuMemHandle kNumber = (CuMemHandle{1} << 48U) - 1;

bool is_ours(CuMemHandle handle) { return (handle & ~kNumber) == kOurs; }

}  // namespace

MappedMemory& MappedMemory::of_program() {
  static auto* const all = new MappedMemory;  // threads of the program may run until the very end
  return *all;
}

// --- Reservations -------------------------------------------------------------------------------

MappedMemory::Answer MappedMemory::reserve(const Session& session, CuAddress* address, Bytes bytes,
                                           Bytes alignment, const void* caller) {
  if (bytes == 0 || bytes % kHostPageBytes != 0 || alignment % kHostPageBytes != 0 ||
      (alignment & (alignment - 1)) != 0 || bytes > (Bytes{1} << 60U)) {
    return std::nullopt;  // refused
  }
  const MutexLock lock(mutex_);
  const std::optional<std::uint64_t> run = session.platform->placed().reserve(
      round_up(bytes, kBlockBytes), std::max<Bytes>(alignment, kBlockBytes));
  if (!run) {
    return std::nullopt;  // the driver may have addresses left
  }
  reservations_.emplace(*run,
                        Reservation{.bytes = bytes, .stays_open = fills_reservations(caller)});
  *address = *run;
  return CuResult::kSuccess;
}

MappedMemory::Reservations::iterator MappedMemory::reservation_at(CuAddress address) {
  const auto after = reservations_.upper_bound(address);
  return after != reservations_.begin() &&
                 address - std::prev(after)->first < std::prev(after)->second.bytes
             ? std::prev(after)
             : reservations_.end();
}

bool MappedMemory::in_reservation(CuAddress address, Bytes bytes) {
  const auto found = reservation_at(address);
  return found != reservations_.end() && bytes <= found->second.bytes - (address - found->first);
}

MappedMemory::Answer MappedMemory::free_reserved(const Session& session, CuAddress address,
                                                 Bytes bytes) {
  const MutexLock lock(mutex_);
  const auto found = reservations_.find(address);
  if (found == reservations_.end()) {
    return in_reservation(address, 0) ? Answer(CuResult::kInvalidValue) : std::nullopt;
  }
  const auto first = mappings_.lower_bound(address);
  if (found->second.bytes != bytes ||
      (first != mappings_.end() && first->first < address + bytes)) {
    return CuResult::kInvalidValue;
  }
  reservations_.erase(found);
  session.segments->addresses_ended(address, bytes);
  session.platform->placed().give_back_reserved(address);
  return CuResult::kSuccess;
}

// --- Handles ------------------------------------------------------------------------------------

MappedMemory::Handle* MappedMemory::known(CuMemHandle handle) {
  const auto found = handles_.find(handle);
  return found == handles_.end() || found->second.references == 0 ? nullptr : &found->second;
}

// Whether none that has to stay open can be filled by all that is mapped nowhere, with so much
// more.
Status MappedMemory::leaves_reservations_open(Bytes bytes) const {
  for (const auto& [start, it] : reservations_) {
    if (it.stays_open && it.mapped_bytes + may_fill_bytes_ + bytes >= it.bytes) {
      return make_error(ErrorCode::kUnsupported,
                        "out of memory: {} asked for; an expandable segment of PyTorch's has {} of "
                        "{} in use, and is never full, however large the tiers are; take "
                        "expandable_segments out of PYTORCH_ALLOC_CONF",
                        format_bytes(bytes), format_bytes(it.mapped_bytes), format_bytes(it.bytes));
    }
  }
  return {};
}

// Nothing is allocated, but there will be room for it.
MappedMemory::Answer MappedMemory::create(const Session& session, CuMemHandle* handle, Bytes bytes,
                                          const CuAllocationProperties& properties,
                                          const void* caller) {
  std::size_t unit_bytes = 0;
  if (properties.type != CuAllocationType::kPinned ||
      properties.location.type != CuLocationType::kDevice ||
      properties.location.id != session.device || properties.flags.usage != 0 ||
      gives_memory_away(caller) || bytes == 0 || bytes % kBlockBytes != 0 ||
      bytes > (Bytes{1} << 60U) ||
      real().cuMemGetAllocationGranularity(&unit_bytes, &properties, CuGranularity::kMinimum) !=
          CuResult::kSuccess ||
      unit_bytes == 0 || bytes % unit_bytes != 0) {
    return std::nullopt;
  }
  if (const CuResult possible = try_properties(properties); possible != CuResult::kSuccess) {
    return possible;
  }
  session.segments->tell_deaths();
  const MutexLock lock(mutex_);
  const bool fills = fills_reservations(caller);
  if (fills) {
    if (const Status stays_open = leaves_reservations_open(bytes); !stays_open) {
      say_out_of_memory(stays_open.error(), bytes);
      return CuResult::kOutOfMemory;
    }
  }
  if (const Status promised = session.platform->placed().promise(bytes); !promised) {
    say_out_of_memory(promised.error(), bytes);
    return CuResult::kOutOfMemory;
  }
  *handle = kOurs | (++last_number_ & kNumber);
  handles_.emplace(
      *handle, Handle{.bytes = bytes, .properties = properties, .caller = caller, .fills = fills});
  bytes_ += bytes;
  may_fill_bytes_ += fills ? bytes : 0;
  return CuResult::kSuccess;
}

void MappedMemory::made_by_driver(CuMemHandle handle, Bytes bytes, const void* caller) {
  {
    const MutexLock lock(mutex_);
    handles_.insert_or_assign(handle, Handle{.bytes = bytes, .real = handle, .caller = caller});
  }
  took_past_budget("cuMemCreate", bytes, caller);
}

void MappedMemory::end_allocation(const Session& session, CuMemHandle name, Handle& handle) {
  if (handle.at == 0) {
    session.platform->placed().take_back_promise(handle.bytes);
    return;
  }
  if (const auto it = hidden_.find(handle.at); it != hidden_.end() && it->second == name) {
    hidden_.erase(it);
  }
  forget_carried(handle.at);
  if (Recording* const recorded = recording()) {
    recorded->freed(handle.at);
  }
  session.platform->memory().free(std::exchange(handle.at, 0));
}

MappedMemory::Answer MappedMemory::release(const Session& session, CuMemHandle name) {
  const MutexLock lock(mutex_);
  Handle* const handle = known(name);
  if (handle == nullptr) {
    return is_ours(name) ? Answer(CuResult::kInvalidValue) : std::nullopt;
  }
  if (handle->real == name) {  // each of its references is the driver's
    const CuResult released = real().cuMemRelease(name);
    if (released != CuResult::kSuccess) {
      return released;
    }
    --handle->references;
  } else if (--handle->references == 0) {
    if (handle->real != 0) {
      (void)real().cuMemRelease(handle->real);
    } else if (handle->mappings == 0) {
      end_allocation(session, name, *handle);
    }
  }
  forget_if_unused(name);
  return CuResult::kSuccess;
}

// Mapped memory stays when its handle is released, until it is unmapped.
void MappedMemory::forget_if_unused(CuMemHandle name) {
  const auto found = handles_.find(name);
  if (found == handles_.end() || found->second.references > 0 || found->second.mappings > 0) {
    return;
  }
  if (found->second.real != 0) {
    gave_back_past_budget("cuMemCreate", found->second.bytes);
  } else {
    bytes_ -= found->second.bytes;
  }
  may_fill_bytes_ -= found->second.fills ? found->second.bytes : 0;
  handles_.erase(found);
}

MappedMemory::Answer MappedMemory::retain(CuMemHandle* name, CuAddress address) {
  const MutexLock lock(mutex_);
  const auto mapping = mapping_at(address);
  if (mapping == mappings_.end() || !is_ours(mapping->second.handle)) {
    return std::nullopt;
  }
  ++handles_.at(mapping->second.handle).references;
  *name = mapping->second.handle;
  return CuResult::kSuccess;
}

MappedMemory::Answer MappedMemory::properties_of(CuAllocationProperties* properties,
                                                 CuMemHandle name) {
  const MutexLock lock(mutex_);
  const Handle* const handle = known(name);
  if (!is_ours(name)) {
    return std::nullopt;
  }
  if (handle == nullptr) {
    return CuResult::kInvalidValue;
  }
  *properties = handle->properties;
  return CuResult::kSuccess;
}

// --- Handles of ours that become the driver's ---------------------------------------------------

CuMemHandle MappedMemory::real_handle(const Session& session, CuMemHandle name, CuResult& error) {
  error = CuResult::kSuccess;
  if (!is_ours(name)) {
    return name;
  }
  const MutexLock lock(mutex_);
  Handle* const handle = known(name);
  error = handle == nullptr ? CuResult::kInvalidValue : make_real(session, name, *handle);
  return error == CuResult::kSuccess ? handle->real : 0;
}

CuResult MappedMemory::make_real(const Session& session, CuAddress address, Bytes bytes) {
  const MutexLock lock(mutex_);
  for (const auto& [at, mapping] : mappings_) {
    if (mapping.real || at >= address + bytes || address >= at + mapping.bytes) {
      continue;
    }
    const CuMemHandle name = mapping.handle;
    if (const CuResult made = make_real(session, name, handles_.at(name));
        made != CuResult::kSuccess) {
      return made;
    }
  }
  return CuResult::kSuccess;
}

CuResult MappedMemory::make_real(const Session& session, CuMemHandle name, Handle& handle) {
  if (handle.real != 0) {
    return CuResult::kSuccess;
  }
  CuResult result = real().cuMemCreate(&handle.real, handle.bytes, &handle.properties, 0);
  if (result != CuResult::kSuccess) {
    handle.real = 0;
    return result;
  }
  const CuAddress at = handle.at;
  if (at != 0 && handle.mappings == 0) {
    session.platform->placed().show(at);
  } else if (at != 0) {
    session.segments->unmapped(at);
  }
  if (at != 0) {
    result = copy_to_driver(session, handle.real, at, handle.bytes);
  }
  if (result != CuResult::kSuccess) {
    if (handle.mappings == 0) {
      session.platform->placed().hide(at);
    }
    (void)real().cuMemRelease(std::exchange(handle.real, 0));
    return result;
  }
  end_allocation(session, name, handle);
  bytes_ -= handle.bytes;
  took_past_budget("cuMemCreate", handle.bytes, handle.caller);
  if (handle.mappings == 0) {
    return CuResult::kSuccess;
  }
  // It is mapped once, or it would be real.
  Mapping& mapping = mappings_.at(at);
  mapping.real = true;
  session.platform->placed().wait_until_free(at, handle.bytes);
  return map_driver_memory(at, handle.bytes, handle.real, mapping.access);
}

// --- Mappings -----------------------------------------------------------------------------------

MappedMemory::Mappings::iterator MappedMemory::mapping_at(CuAddress address) {
  const auto after = mappings_.upper_bound(address);
  return after != mappings_.begin() &&
                 address - std::prev(after)->first < std::prev(after)->second.bytes
             ? std::prev(after)
             : mappings_.end();
}

// nullopt: they are not side by side, or more than these bytes.
std::optional<std::vector<CuAddress>> MappedMemory::whole_mappings(CuAddress address,
                                                                   Bytes bytes) const {
  std::vector<CuAddress> found;
  const CuAddress end = address + bytes;
  CuAddress at = address;
  for (auto it = mappings_.find(address); it != mappings_.end() && it->first == at && at < end;
       ++it) {
    found.push_back(at);
    at += it->second.bytes;
  }
  return at == end && bytes > 0 ? std::optional(std::move(found)) : std::nullopt;
}

// What is hidden there.
CuResult MappedMemory::move_away(const Session& session, CuAddress address, Bytes bytes,
                                 CuMemHandle but) {
  std::vector<CuAddress> there;
  for (const auto& [at, name] : hidden_) {
    const Handle& handle = handles_.at(name);
    if (at < address + bytes && address < at + handle.bytes && (name != but || at != address)) {
      there.push_back(at);
    }
  }
  for (const CuAddress at : there) {
    const Result<std::uint64_t> away = session.platform->placed().move(at, std::nullopt);
    if (!away) {
      return CuResult::kOutOfMemory;
    }
    const CuMemHandle name = hidden_.extract(at).mapped();
    handles_.at(name).at = *away;
    hidden_[*away] = name;
  }
  return CuResult::kSuccess;
}

CuResult MappedMemory::map_ours(const Session& session, CuAddress address, CuMemHandle name,
                                Handle& handle) {
  if (const CuResult moved = move_away(session, address, handle.bytes, name);
      moved != CuResult::kSuccess) {
    return moved;
  }
  if (handle.at == 0) {
    if (const Status made = session.platform->placed().allocate_at(address, handle.bytes); !made) {
      say_out_of_memory(made.error(), handle.bytes);
      return CuResult::kOutOfMemory;
    }
    if (Recording* const recorded = recording()) {
      recorded->allocated(address);
    }
  } else {
    if (handle.at != address) {
      if (const Result<std::uint64_t> moved = session.platform->placed().move(handle.at, address);
          !moved) {
        say_out_of_memory(moved.error(), handle.bytes);
        return CuResult::kOutOfMemory;
      }
    }
    hidden_.erase(handle.at);
    session.platform->placed().show(address);
  }
  handle.at = address;
  session.segments->mapped(address, handle.bytes);
  return CuResult::kSuccess;
}

MappedMemory::Answer MappedMemory::map(const Session& session, CuAddress address, Bytes bytes,
                                       Bytes offset, CuMemHandle name) {
  const MutexLock lock(mutex_);
  Handle* const handle = known(name);
  const bool here = in_reservation(address, 0);
  if (handle == nullptr && !here) {
    return is_ours(name) ? Answer(CuResult::kInvalidValue) : std::nullopt;
  }
  if (handle != nullptr && is_ours(name) && (offset != 0 || bytes != handle->bytes)) {
    const bool within = offset < handle->bytes && bytes <= handle->bytes - offset && bytes > 0;
    return within ? CuResult::kNotSupported : CuResult::kInvalidValue;
  }
  const auto next = mappings_.lower_bound(address);
  if (here && (address % kBlockBytes != 0 || bytes == 0 || !in_reservation(address, bytes) ||
               mapping_at(address) != mappings_.end() ||
               (next != mappings_.end() && next->first < address + bytes))) {
    return CuResult::kInvalidValue;
  }
  Mapping mapping{.bytes = bytes, .handle = name};
  CuResult result = CuResult::kSuccess;
  if (handle != nullptr && handle->real == 0 && here && handle->mappings == 0) {
    result = map_ours(session, address, name, *handle);
  } else {
    mapping.real = true;
    if (handle != nullptr) {
      result = make_real(session, name, *handle);
    }
    if (result == CuResult::kSuccess && here) {
      result = move_away(session, address, bytes, 0);
      session.platform->placed().wait_until_free(address, bytes);
    }
    if (result == CuResult::kSuccess) {
      result = real().cuMemMap(address, bytes, offset, handle != nullptr ? handle->real : name, 0);
    }
  }
  if (result == CuResult::kSuccess) {
    is_mapped(address, mapping);
    mappings_.insert_or_assign(address, std::move(mapping));
  }
  return result;
}

void MappedMemory::is_mapped(CuAddress address, const Mapping& mapping) {
  if (const auto found = reservation_at(address); found != reservations_.end()) {
    found->second.mapped_bytes += mapping.bytes;
  }
  if (const auto found = handles_.find(mapping.handle); found != handles_.end()) {
    Handle& handle = found->second;
    may_fill_bytes_ -= handle.mappings++ == 0 && handle.fills ? handle.bytes : 0;
  }
}

void MappedMemory::is_unmapped(CuAddress address, const Mapping& mapping) {
  if (const auto found = reservation_at(address); found != reservations_.end()) {
    found->second.mapped_bytes -= mapping.bytes;
  }
  if (const auto found = handles_.find(mapping.handle); found != handles_.end()) {
    Handle& handle = found->second;
    may_fill_bytes_ += --handle.mappings == 0 && handle.fills ? handle.bytes : 0;
  }
}

MappedMemory::Answer MappedMemory::unmap(const Session& session, CuAddress address, Bytes bytes) {
  const MutexLock lock(mutex_);
  const bool here = in_reservation(address, 0);
  const std::optional<std::vector<CuAddress>> all = whole_mappings(address, bytes);
  if (!all) {
    return here ? Answer(CuResult::kInvalidValue) : std::nullopt;
  }
  for (const CuAddress at : *all) {
    const Mapping& mapping = mappings_.at(at);
    if (mapping.real) {
      if (const CuResult unmapped = real().cuMemUnmap(at, mapping.bytes);
          unmapped != CuResult::kSuccess) {
        return unmapped;
      }
    }
    const CuMemHandle name = mapping.handle;
    const bool real = mapping.real;
    is_unmapped(at, mapping);
    mappings_.erase(at);
    const auto found = handles_.find(name);
    if (found == handles_.end()) {
      continue;
    }
    Handle& handle = found->second;
    if (!real) {
      session.segments->unmapped(at);
    }
    if (!real && handle.references == 0) {
      end_allocation(session, name, handle);
    } else if (!real) {
      session.platform->placed().hide(at);
      hidden_[at] = name;
    }
    forget_if_unused(name);
  }
  return CuResult::kSuccess;
}

// On the own device all of it may be used in any way, whatever is asked for.
MappedMemory::Answer MappedMemory::set_access(
    const Session& session, CuAddress address, Bytes bytes,
    const std::vector<CuAccessDescription>& descriptions) {
  std::vector<int> others;
  {
    const MutexLock lock(mutex_);
    if (!in_reservation(address, 0)) {
      return std::nullopt;
    }
    const std::optional<std::vector<CuAddress>> all = whole_mappings(address, bytes);
    if (!all || descriptions.empty()) {
      return CuResult::kInvalidValue;
    }
    for (const CuAccessDescription& it : descriptions) {
      if (it.location.type != CuLocationType::kDevice) {
        return CuResult::kNotSupported;
      }
      if (it.location.id != session.device && it.access != CuAccess::kNone) {
        others.push_back(it.location.id);
      }
    }
    for (const CuAddress at : *all) {
      Mapping& mapping = mappings_.at(at);
      if (mapping.real) {
        const CuResult given =
            real().cuMemSetAccess(at, mapping.bytes, descriptions.data(), descriptions.size());
        if (given != CuResult::kSuccess) {
          return given;
        }
      }
      for (const CuAccessDescription& it : descriptions) {
        mapping.access[it.location.id] = it.access;
      }
    }
  }
  for (const int device : others) {
    share_with(device);
  }
  return CuResult::kSuccess;
}

std::optional<CuAccess> MappedMemory::access_of(CuAddress address, int device) {
  const MutexLock lock(mutex_);
  const auto mapping = mapping_at(address);
  if (mapping == mappings_.end() || mapping->second.real) {
    return std::nullopt;
  }
  const auto found = mapping->second.access.find(device);
  return found == mapping->second.access.end() ? CuAccess::kNone : found->second;
}

std::optional<AddressRange> MappedMemory::reservation_of(CuAddress address) {
  const MutexLock lock(mutex_);
  const auto mapping = mapping_at(address);
  if (mapping == mappings_.end() || mapping->second.real) {
    return std::nullopt;
  }
  const auto& [start, reservation] = *reservation_at(address);
  return AddressRange{.start = start, .bytes = reservation.bytes};
}

std::uint32_t MappedMemory::exported_as(CuAddress address) {
  const MutexLock lock(mutex_);
  const auto mapping = mapping_at(address);
  return mapping == mappings_.end() || mapping->second.real
             ? 0
             : static_cast<std::uint32_t>(
                   handles_.at(mapping->second.handle).properties.exported_as);
}

}  // namespace spillway::cuda
