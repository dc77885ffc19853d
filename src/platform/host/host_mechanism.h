// What the engine asks of this machine, handed to whose it is: pages are device_pages.h's, copies
// are made by threads (transfer_workers.h). Layer: platform, host.
#pragma once

#include <memory>
#include <span>

#include "engine/mechanism.h"
#include "platform/common/storage/transfer_workers.h"
#include "platform/host/faults/departures.h"
#include "platform/host/host_state.h"
#include "platform/host/progress.h"

namespace spillway::host {

class HostMechanism final : public Mechanism, private TransferCarrier {
 public:
  // They need not be made yet, and must outlive it.
  HostMechanism(HostState& state, Progress& progress) : state_(state), progress_(progress) {}

  // The threads that copy: before the first transfer, and when nothing moves any more.
  void start();
  void stop() { workers_.reset(); }
  [[nodiscard]] TransferWorkers& workers() { return *workers_; }
  [[nodiscard]] const TransferWorkers& workers() const { return *workers_; }

  void start_transfer(const Transfer& transfer) override SPILLWAY_REQUIRES(state_.mutex);
  void zero(std::span<const BlockId> blocks) override SPILLWAY_REQUIRES(state_.mutex);
  void zero_at_host(std::span<const BlockId> blocks) override SPILLWAY_REQUIRES(state_.mutex);
  void map(std::span<const BlockId> blocks, bool writable) override SPILLWAY_REQUIRES(state_.mutex);
  void unmap(std::span<const BlockId> blocks) override SPILLWAY_REQUIRES(state_.mutex);
  void drop(std::span<const BlockId> blocks, Tier tier) override SPILLWAY_REQUIRES(state_.mutex);
  void faults_served(std::uint64_t launch) override SPILLWAY_REQUIRES(state_.mutex);
  void release_launch(std::uint64_t launch, std::span<const TransferId> transfers) override
      SPILLWAY_REQUIRES(state_.mutex);

 private:
  // Without the lock.
  void* source_of(TransferJob& job, std::size_t index) override;
  void copy(TransferJob& job) override;
  void ended(TransferJob& job, int error) override;

  void copy_to_host(const Transfer& transfer, std::size_t index, TransferJob::Part& part);
  void depart(const TransferJob& job) SPILLWAY_REQUIRES(state_.mutex);
  void arrive(const TransferJob& job) SPILLWAY_REQUIRES(state_.mutex);
  void protect_unmapped(const Transfer& transfer) SPILLWAY_REQUIRES(state_.mutex);

  HostState& state_;
  Progress& progress_;
  Departures departures_ SPILLWAY_GUARDED_BY(state_.mutex);
  std::unique_ptr<TransferWorkers> workers_;
};

}  // namespace spillway::host
