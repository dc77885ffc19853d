// What the fields of a run record are called, where it is written, read and shown. Layer: runtime.
#pragma once

#include <array>
#include <cstdint>
#include <tuple>

#include "engine/types.h"
#include "runtime/record/run_record.h"

namespace spillway {

// Between these tiers data moves; what moved_bytes has a number of.
struct Route {
  Tier from;
  Tier to;
  const char* key;
  const char* caption;
};
inline constexpr std::array kRoutes{
    Route{Tier::kHost, Tier::kDevice, "host_to_device", "host to device memory"},
    Route{Tier::kDevice, Tier::kHost, "device_to_host", "device to host memory"},
    Route{Tier::kStorage, Tier::kDevice, "storage_to_device", "storage to device memory"},
    Route{Tier::kDevice, Tier::kStorage, "device_to_storage", "device memory to storage"},
    Route{Tier::kHost, Tier::kStorage, "host_to_storage", "host memory to storage"},
    Route{Tier::kStorage, Tier::kHost, "storage_to_host", "storage to host memory"},
};

// A member of one of a record's groups.
template <typename Record, typename Group, typename Value>
struct InGroup {
  Group Record::*group;
  Value Group::*value;
};
template <typename Record, typename Group, typename Value>
InGroup(Group Record::*, Value Group::*) -> InGroup<Record, Group, Value>;

template <typename Record, typename Value>
auto& value_of(Record& record, Value member) {
  return record.*member;
}
template <typename Record, typename Of, typename Group, typename Value>
auto& value_of(Record& record, const InGroup<Of, Group, Value>& member) {
  return (record.*member.group).*member.value;
}

// A member, itself or in a group, and its key; times of type TimeNs are written as seconds. Groups
// are not to be seen in what is written. One with a caption is among the numbers of the report.
template <typename Member>
struct Field {
  const char* key;
  Member member;
  const char* caption = nullptr;

  template <typename Record>
  auto& of(Record& record) const {
    return value_of(record, member);
  }
};
template <typename Member>
Field(const char*, Member) -> Field<Member>;
template <typename Member>
Field(const char*, Member, const char*) -> Field<Member>;

template <typename Record>
inline constexpr std::tuple<> kFields{};

template <>
inline constexpr std::tuple kFields<RunSample>{
    Field{"at_s", &RunSample::at_s},
    Field{"used_bytes", &RunSample::used_bytes},
    Field{"live_bytes", &RunSample::live_bytes},
    Field{"moved_bytes", &RunSample::moved_bytes},
    Field{"page_faults", &RunSample::page_faults},
    Field{"stalled_s", &RunSample::stalled_s},
};

template <>
inline constexpr std::tuple kFields<RunWait>{
    Field{"name", &RunWait::name},
    Field{"launches", &RunWait::launches},
    Field{"blocks", &RunWait::blocks},
    Field{"wait_s", &RunWait::wait_s},
    Field{"for_host_memory_s", &RunWait::host_s},
    Field{"for_storage_s", &RunWait::storage_s},
    Field{"for_new_memory_s", &RunWait::fresh_s},
};

template <>
inline constexpr std::tuple kFields<RunPastBudget>{
    Field{"call", &RunPastBudget::call},
    Field{"library", &RunPastBudget::library},
    Field{"peak_bytes", &RunPastBudget::peak_bytes},
};

template <>
inline constexpr std::tuple kFields<RunBudget>{
    Field{"bytes", &RunBudget::bytes},
    Field{"from", &RunBudget::from},
};

template <>
inline constexpr std::tuple kFields<RunChoice>{
    Field{"name", &RunChoice::name},
    Field{"from", &RunChoice::from},
};

template <>
inline constexpr std::tuple kFields<RunSwitchedOff>{
    Field{"what", &RunSwitchedOff::what},
    Field{"why", &RunSwitchedOff::why},
};

template <>
inline constexpr std::tuple kFields<RunStart>{
    Field{"line", &RunStart::line},
    Field{"version", &RunStart::version},
    Field{"commit", &RunStart::commit},
    Field{"device", &RunStart::device},
    Field{"gpu", &RunStart::gpu},
    Field{"memory_bytes", &RunStart::memory_bytes},
    Field{"device_memory", &RunStart::device_memory},
    Field{"host_memory", &RunStart::host_memory},
    Field{"pinned_at_most_bytes", &RunStart::pinned_at_most_bytes},
    Field{"storage", &RunStart::storage},
    Field{"storage_bytes", &RunStart::storage_bytes},
    Field{"policy", &RunStart::policy},
    Field{"near_optimizer", &RunStart::near_optimizer},
    Field{"switched_off", &RunStart::switched_off},
    Field{"without_effect", &RunStart::without_effect},
};

template <>
inline constexpr std::tuple kFields<PlanReport>{
    Field{"number", &PlanReport::number},
    Field{"launches", &PlanReport::launches},
    Field{"tensors", &PlanReport::tensors},
    Field{"peak_bytes", &PlanReport::peak_bytes},
    Field{"to_host_bytes", &PlanReport::to_host_bytes},
    Field{"to_storage_bytes", &PlanReport::to_storage_bytes},
    Field{"computation_s", &PlanReport::computation_ns},
    Field{"estimated_s", &PlanReport::estimated_ns},
    Field{"error", &PlanReport::error},
};

template <>
inline constexpr std::tuple kFields<RunRecord>{
    Field{"version", &RunRecord::version},
    Field{"command", &RunRecord::command},
    Field{"pid", &RunRecord::pid},
    Field{"start", &RunRecord::start},
    Field{"policy", &RunRecord::policy},
    Field{"budget_bytes", InGroup{&RunRecord::memory, &RunMemory::budget_bytes}},
    Field{"elapsed_s", InGroup{&RunRecord::times, &RunTimes::elapsed_s}},
    Field{"peak_bytes", InGroup{&RunRecord::memory, &RunMemory::peak_bytes}},
    Field{"fits_in_bytes", InGroup{&RunRecord::memory, &RunMemory::fits_in_bytes}},
    Field{"used_bytes", InGroup{&RunRecord::memory, &RunMemory::used_bytes}},
    Field{"live_bytes", InGroup{&RunRecord::memory, &RunMemory::live_bytes}},
    Field{"refused_allocations", InGroup{&RunRecord::memory, &RunMemory::refused_allocations},
          "allocations refused"},
    Field{"refused_largest_bytes", InGroup{&RunRecord::memory, &RunMemory::refused_largest_bytes}},
    Field{"page_faults", InGroup{&RunRecord::work, &RunWork::page_faults},
          "faults on missing blocks"},
    Field{"write_faults", InGroup{&RunRecord::work, &RunWork::write_faults},
          "faults on first writes"},
    Field{"launches", InGroup{&RunRecord::work, &RunWork::launches}, "launches"},
    Field{"updates", InGroup{&RunRecord::work, &RunWork::updates}, "updates next to their data"},
    Field{"prefetched_blocks", InGroup{&RunRecord::prefetches, &RunPrefetches::blocks},
          "blocks prefetched"},
    Field{"prefetches_used", InGroup{&RunRecord::prefetches, &RunPrefetches::used}, "of them used"},
    Field{"prefetches_late", InGroup{&RunRecord::prefetches, &RunPrefetches::late},
          "needed while on their way"},
    Field{"prefetches_wasted", InGroup{&RunRecord::prefetches, &RunPrefetches::wasted},
          "left again unused"},
    Field{"evictions", InGroup{&RunRecord::moves, &RunMoves::evictions}, "evictions"},
    Field{"pre_evictions", InGroup{&RunRecord::moves, &RunMoves::pre_evictions}},
    Field{"asked_prefetch_bytes", InGroup{&RunRecord::moves, &RunMoves::asked_prefetch_bytes}},
    Field{"asked_pre_evict_bytes", InGroup{&RunRecord::moves, &RunMoves::asked_pre_evict_bytes}},
    Field{"moved_bytes", InGroup{&RunRecord::moves, &RunMoves::bytes}},
    Field{"saved_by_discard_bytes", InGroup{&RunRecord::moves, &RunMoves::saved_by_discard_bytes},
          "not moved, since it was dead"},
    Field{"given_up_bytes", InGroup{&RunRecord::moves, &RunMoves::given_up_bytes},
          "given up, to be made again"},
    Field{"far_bytes", InGroup{&RunRecord::moves, &RunMoves::host_mapped_bytes},
          "used in host memory, over the link"},
    Field{"past_budget_peak_bytes",
          InGroup{&RunRecord::device, &RunDeviceUse::past_budget_peak_bytes}},
    Field{"past_budget", InGroup{&RunRecord::device, &RunDeviceUse::past_budget}},
    Field{"device_in_use_peak_bytes",
          InGroup{&RunRecord::device, &RunDeviceUse::in_use_peak_bytes}},
    Field{"device_growth_peak_bytes",
          InGroup{&RunRecord::device, &RunDeviceUse::growth_peak_bytes}},
    Field{"stalled_s", InGroup{&RunRecord::times, &RunTimes::stalled_s}},
    Field{"fault_wait_s", InGroup{&RunRecord::times, &RunTimes::fault_wait_s}},
    Field{"copy_s", InGroup{&RunRecord::times, &RunTimes::copy_s}},
    Field{"processor_s", InGroup{&RunRecord::times, &RunTimes::processor_s}},
    Field{"plan", &RunRecord::plan},
    Field{"said", &RunRecord::said},
    Field{"longest_waits", &RunRecord::longest_waits},
    Field{"waits_by_module", &RunRecord::waits_by_module},
    Field{"timeline", &RunRecord::timeline},
};

// visit(field), each.
template <typename Record, typename Visit>
void for_each_field(Visit visit) {
  std::apply([&](const auto&... fields) { (visit(fields), ...); }, kFields<Record>);
}

}  // namespace spillway
