// A real machine without a GPU: the device tier is memory at the program's own addresses, capped;
// the host tier is other memory; storage is a swap file. Layer: platform, host. docs/host.md.
// What stands here is the program's side, under the lock; what the engine asks is
// host_mechanism.h's, and page faults from userfaultfd come through correlator.h. It decides
// nothing about migration. All functions are thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "platform/common/program_platform.h"
#include "platform/common/storage/swap_file.h"
#include "platform/host/correlator.h"
#include "platform/host/faults/fault_reader.h"
#include "platform/host/fork/fork_server.h"
#include "platform/host/host_mechanism.h"
#include "platform/host/host_options.h"
#include "platform/host/host_process.h"
#include "platform/host/host_state.h"
#include "platform/host/progress.h"

namespace spillway::host {

class HostPlatform final : public ProgramPlatform {
 public:
  // The policy must outlive it. storage: nullopt for none. Starts the threads. Fails with
  // kUnsupported where userfaultfd is not to be had, kInvalidInput for budgets that are too small.
  static Result<std::unique_ptr<HostPlatform>> create(const HostOptions& options,
                                                      std::optional<SwapFile> storage,
                                                      Policy& policy);
  ~HostPlatform() override;

  using ProgramPlatform::allocate, ProgramPlatform::begin_launch;
  Result<void*> allocate(Bytes bytes, Fresh fresh) override;
  Result<void*> allocate_with_room(Bytes bytes, Bytes most_bytes, Fresh fresh) override;
  Status grow(void* start, Bytes bytes) override;
  void free(void* start) override;
  void retire(void* start) override;
  Status reuse(void* start) override;
  Status reuse_first(void* start, Bytes bytes) override;
  [[nodiscard]] bool addresses_had_better_repeat() const override;
  [[nodiscard]] bool ready_for_reuse(const void* start, Bytes bytes) const override;
  void provide(void* start) override;
  void discard(void* start, Bytes bytes, DiscardMode mode) override;
  void clear(void* start, Bytes bytes) override;
  void give_up(void* start, Bytes bytes) override;
  void prefetch(void* start, Bytes bytes) override;
  void pre_evict(void* start, Bytes bytes, Tier to) override;
  [[nodiscard]] Bytes size_of(const void* start) const override;
  [[nodiscard]] bool contains(const void* address) const override {
    return state_.addresses.contains(address);
  }

  LaunchId begin_launch(std::string_view name, std::span<const ProgramOperand> operands,
                        const std::function<void()>& in_line) override;
  void end_launch(LaunchId launch) override;
  [[nodiscard]] LaunchFit fit(std::span<const ProgramOperand> operands) const override;
  std::optional<UpdateId> begin_update(std::span<const ProgramOperand> operands) override;
  std::vector<Extents> update_extents(UpdateId update) override;
  void end_update(UpdateId update) override;
  void mark_launch(LaunchHash hash, std::string_view name, bool tells_all) override;
  void mark_access(const void* start, Bytes bytes, bool writes) override;
  void begin_recording() override;
  std::optional<RecordedIteration> end_recording() override;
  void change_policy(const std::function<void()>& change) override;

  [[nodiscard]] ProgramProcess& process() override { return *process_; }
  Status set_device_capacity(Bytes bytes) override;
  [[nodiscard]] ProgramStats stats() const override;
  [[nodiscard]] std::vector<LaunchWaits> waits() const override;
  void log_events(EventLog* events) override;
  [[nodiscard]] Bytes capacity_bytes(Tier tier) const override;
  void wait_until_idle() override;
  [[nodiscard]] Status check_invariants() const override;

 private:
  HostPlatform(const HostOptions& options, std::optional<SwapFile> storage, Policy& policy,
               HostState::Taken taken);

  Progress progress_;
  HostMechanism mechanism_;
  HostState state_;
  // The threads, which end in the opposite order.
  std::unique_ptr<ForkServer> forks_;
  std::unique_ptr<HostProcess> process_;
  std::unique_ptr<FaultReader> reader_;
  Correlator correlator_;
};

}  // namespace spillway::host
