// Addresses of the space that the program's host has copied into device memory: arrays of pointers
// for batched and grouped calls. A kernel that is given such an array uses what the array points
// to. Layer: interpose, cuda. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "interpose/cuda/session.h"

namespace spillway::cuda {

// Larger copies are data, and are not scanned.
inline constexpr std::size_t kMostScannedBytes = std::size_t{256} << 10U;
// Addresses that were noted for the same bytes before stay noted. kWhatIsReplaced: note_replaced
// follows and removes them. kWhatWasThere: it does not.
enum class Beside : std::uint8_t { kWhatIsReplaced, kWhatWasThere };
// `count` bytes of host memory are being copied to this address of the device; what cannot be read
// there holds none. Memory that is not the space's, like a module's variables, is within reach of
// any kernel: what it holds addresses of is used by every launch from then on.
void note_copied_in(const Session& session, std::uint64_t to, const void* from, std::size_t count,
                    Beside beside);
// A stream, or a graph, writes this word there, which may be an address.
void note_written(const Session& session, std::uint64_t to, std::uint64_t word);
// Bytes of one allocation are copied to another, with the addresses that they may hold.
void note_copied_within(const Session& session, std::uint64_t to, std::uint64_t from, Bytes bytes);
// The program has had all of these bytes replaced by a call that is put on a stream and not
// captured: what was noted as standing there up to `then` (of tables_now) is forgotten. Launches
// that it issues from now on run behind that, unless it has streams that wait for a value: a call
// that is issued earlier may then run later, and nothing is forgotten any more.
[[nodiscard]] std::uint64_t tables_now();
// Whether there is anything to forget, and it may be.
[[nodiscard]] bool may_forget();
void note_replaced(const Session& session, std::uint64_t to, Bytes bytes, std::uint64_t then);
void note_waits_for_values();
[[nodiscard]] bool order_is_known();
// `words` are what these bytes of one allocation held when they were read. True if there are
// addresses that were not noted for these bytes before.
bool note_read(const Session& session, const AddressRange& bytes,
               std::span<const std::uint64_t> words);
// The allocation is gone, or nothing in it lives any more.
void forget_carried(std::uint64_t start);
// What the allocation that starts there holds addresses of; kEverywhere: memory that is not the
// space's.
inline constexpr std::uint64_t kEverywhere = 0;
// The device has been reset: of what is held everywhere nothing stays that names what is gone.
void forget_carried_everywhere(const Session& session);
// Whether there are any at all.
[[nodiscard]] bool addresses_in_tables();
// Bytes of one allocation at a time.
void for_each_carried(std::uint64_t start, const std::function<void(const AddressRange&)>& visit);
// Of many starts those of allocations that hold some. Costs as much as there are such allocations,
// or starts, whichever are fewer.
[[nodiscard]] std::vector<std::uint64_t> holders_among(
    const std::unordered_map<std::uint64_t, std::size_t>& starts);

}  // namespace spillway::cuda
