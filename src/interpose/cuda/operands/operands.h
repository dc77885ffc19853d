// What a call of the program uses of the space: allocations, each once, and how. Found in the words
// of a parameter block or said by a copy's arguments. No allocation for as many as calls have.
// Layer: interpose, cuda.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "interpose/cuda/operands/pointer_tables.h"
#include "interpose/cuda/session.h"
#include "policy/prediction/launch_hash.h"

namespace spillway::cuda {

// Whether two launches are the same: this kernel's hash on these operands.
[[nodiscard]] LaunchHash hash_of(LaunchHash kernel, std::span<const CudaOperand> operands);

// Of something that is used in both ways.
[[nodiscard]] AccessMode either(AccessMode one, AccessMode other);

class Operands {
 public:
  explicit Operands(const Session& session) : session_(session) {}
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;

  // Bytes of an allocation, if the address is the space's. Never kOverwrite, although copies and
  // memsets write every byte: what they replace is given up at admission, and the driver may refuse
  // the call, a capture only note it down, and another stream read the old bytes until this one has
  // passed something that nobody here knows of. Memory that holds nothing costs nothing.
  void add(std::uint64_t address, Bytes bytes, AccessMode mode);
  // The whole allocation in which this lies, if it is an address of the space, and the one of which
  // it is the end (reverse iterators): whoever has a pointer may read all of it, and write it
  // unless `mode` says not. With it come those whose addresses it holds. If it is one of a small
  // piece of pinned host memory, those that stand there.
  void add_pointer(std::uint64_t word, AccessMode mode = AccessMode::kReadWrite);
  // Each aligned word of these bytes. Once something may be written, or exposed, it stays so.
  void add_pointers_in(const void* bytes, std::size_t count,
                       AccessMode mode = AccessMode::kReadWrite);
  // Every allocation that has some of these bytes: of something of which the program has told
  // where it ends, although it may lie in several that were mapped side by side.
  void add_all_in(std::uint64_t address, Bytes bytes, AccessMode mode = AccessMode::kReadWrite);
  // What of it is known to be only read, whatever was said before.
  template <typename IsRead>
  void only_read(const IsRead& is_read) {
    const std::span<CudaOperand> there =
        more_.empty() ? std::span(first_.data(), count_) : std::span(more_);
    for (CudaOperand& operand : there) {
      if (operand.mode == AccessMode::kReadWrite && is_read(operand) &&
          (!has_neighbours(operand.address) || is_living_tensor(operand))) {
        operand.mode = AccessMode::kRead;
      }
    }
  }
  // From now on what is named in memory that the launch is given may be stored elsewhere.
  void exposes_what_it_finds() { found_ = AccessMode::kExpose; }
  // From now on large pieces of pinned memory are looked at, too: of a kernel that may follow
  // addresses in memory.
  void follows_addresses() { follows_ = true; }
  // The same launch is gathered again, after a look.
  void is_of_same_launch() { same_launch_ = true; }
  // From now on of what PyTorch divides only the tensors that are named: of a kernel whose pointers
  // are where tensors begin, never where they end.
  void by_tensor() { by_tensor_ = true; }
  // From now on, in what the program maps itself, of tensors that live exactly what they have,
  // instead of all that lies side by side; `begin`: pointers are where tensors begin, as above. Not
  // of graphs: other tensors may have lived there when they were captured.
  void by_living_tensor(bool begin) {
    by_living_tensor_ = true;
    pointers_begin_ = begin;
  }
  // What any kernel may reach without being given it.
  void add_what_is_everywhere() { add_carried_by(kEverywhere); }
  // What the allocation that starts there holds addresses of, and what that does.
  void add_carried_by(std::uint64_t start);
  // All that is allocated: where nobody knows what will be used.
  void add_everything();

  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::span<const CudaOperand> all() const {
    return more_.empty() ? std::span(first_.data(), count_) : std::span(more_);
  }
  [[nodiscard]] LaunchHash hash(LaunchHash kernel) const { return hash_of(kernel, all()); }

 private:
  void put(const CudaOperand& operand);
  template <typename Visit>
  void for_each_at(std::uint64_t start, const Visit& visit);
  bool put_once(std::uint64_t start, Bytes bytes, AccessMode mode);
  // Whether something may be here of which this says more.
  [[nodiscard]] bool may_change(AccessMode mode) const;
  void put_again(std::uint64_t start, AccessMode mode);
  bool add_pointed(const PointedAt& named, AccessMode mode, std::uint64_t word);
  void add_range(const AddressRange& range, AccessMode mode, std::uint64_t word);
  [[nodiscard]] std::optional<AddressRange> tensor_of(std::uint64_t word) const;
  template <typename Visit>
  void for_each_holder(CudaOperand operand, const Visit& visit) const;
  void put_carried(const AddressRange& carried);
  bool put_living(std::uint64_t word, AccessMode mode, bool begins);
  [[nodiscard]] bool is_living_tensor(const CudaOperand& operand) const;
  void add_carried_since(std::size_t next);
  bool put_with_neighbours(const AddressRange& range, AccessMode mode);
  // Whether something may go on from it into the next, or come from the one before.
  [[nodiscard]] bool has_neighbours(std::uint64_t start) const {
    return session_.platform->placed().has_reserved() &&
           session_.platform->placed().all_beside(start).size() > 1;
  }
  void add_whole(std::uint64_t start, Bytes bytes);
  void add_host_list(std::uint64_t word);
  [[nodiscard]] bool has(std::uint64_t start);

  // The largest of PyTorch's launches has 131 (docs/gpu.md section 6).
  static constexpr std::size_t kInPlace = 256;
  const Session& session_;
  std::size_t count_ = 0;
  bool some_only_read_ = false;
  bool some_not_exposed_ = false;
  AccessMode found_ = AccessMode::kReadWrite;
  bool follows_ = false;
  bool same_launch_ = false;
  bool by_tensor_ = false;
  bool by_living_tensor_ = false;
  bool pointers_begin_ = false;
  std::array<std::uint64_t, 16> seen_{};  // a bit for each start that may be here
  union {
    std::array<CudaOperand, kInPlace> first_;  // the first count_ of them are there
  };
  std::vector<std::uint64_t> host_lists_;          // whose words have been looked at
  std::vector<CudaOperand> more_;                  // all of them, once there is no place for them
  std::unordered_set<std::uint64_t> more_starts_;  // of all of them, then
  // Which of those behind the first have this start.
  std::unordered_multimap<std::uint64_t, std::size_t> more_at_;
};

}  // namespace spillway::cuda
