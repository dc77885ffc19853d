// One iteration as a queue shows it: every launch with all of its operands when it is issued, its
// time when it has ended. Layer: policy. docs/policies.md.
// Tensors come to lie elsewhere in every iteration, so none is known by its allocation: it is the
// k-th operand of the launch at a place.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "engine/policy.h"
#include "policy/prediction/recorded_iteration.h"
#include "trace/trace.h"

namespace spillway {

// What makes two launches the same again, wherever their operands lie: the code and their sizes.
[[nodiscard]] std::uint64_t place_free_kind(const Launch& launch, const Control& control);

struct IssuedIteration {
  Trace trace;                                  // kernels without names
  std::vector<std::uint64_t> kinds;             // by kernel
  std::vector<std::vector<TensorId>> operands;  // by kernel and access; kNoTensor: too small
  std::vector<AllocationId> allocations;        // by tensor, where it lived then
  Bytes born_bytes = 0;                         // of tensors that the iteration has brought
  Bytes died_bytes = 0;                         // of tensors that died in it
  // Whether memory is as full behind it as before. A layer of a forward pass comes again like an
  // iteration, but leaves what the backward pass will need.
  [[nodiscard]] bool leaves_nothing() const;
};

class IssueRecorder {
 public:
  void issued(const Launch& launch, std::uint64_t kind, const Control& control);
  // What was in the allocation is dead behind all launches issued so far.
  void died(AllocationId id) { recorder_.died(id); }
  void ended(const Launch& launch);
  [[nodiscard]] std::size_t launches() const { return kinds_.size(); }
  [[nodiscard]] bool all_ended() const { return running_.empty(); }
  // When all have. What is recorded begins anew. nullopt if nothing was launched.
  [[nodiscard]] std::optional<IssuedIteration> finish();

 private:
  IterationRecorder recorder_;
  std::vector<std::uint64_t> kinds_;
  std::vector<std::vector<TensorId>> operands_;
  std::vector<TimeNs> times_ns_;
  std::unordered_map<LaunchId, std::uint32_t> running_;  // places
};

}  // namespace spillway
