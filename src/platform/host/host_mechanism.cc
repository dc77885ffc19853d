#include "platform/host/host_mechanism.h"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "platform/common/platform_engine.h"
#include "platform/common/process/clock.h"

namespace spillway::host {

void HostMechanism::start() {
  TransferCarrier& carrier = *this;
  workers_ = std::make_unique<TransferWorkers>(state_.options.link, state_.storage_io(),
                                               state_.staging, state_.failures, carrier);
}

void HostMechanism::start_transfer(const Transfer& transfer) {
  auto job = std::make_shared<TransferJob>();
  job->transfer = transfer;
  job->ready_ns = now_ns();
  for (const BlockId id : transfer.blocks) {
    const Bytes bytes = state_.bytes_of(id);
    if (transfer.to == Tier::kDevice) {
      state_.pages.set_source(
          id, transfer.from == Tier::kHost ? Source::kHostCopy : Source::kStorageCopy);
    } else if (!state_.places.take(id, transfer.to, bytes)) {
      job->error = transfer.to == Tier::kHost ? ENOMEM : ENOSPC;
      if (transfer.to == Tier::kHost) {
        state_.failures.note_cause(
            "host memory is full of what children of the program may still read");
      }
    }
    // A block that comes to be written need not be protected first. Nobody can write it before it
    // is whole: what can fail has succeeded when its pages appear.
    job->parts.push_back(
        {.bytes = bytes,
         .host_offset = state_.places.at(id, Tier::kHost),
         .storage_offset = state_.places.at(id, Tier::kStorage),
         .writable = transfer.to == Tier::kDevice && state_.engine.space().block(id).wants_write});
  }
  if (transfer.from == Tier::kDevice) {
    state_.launches.pressed();
  }
  state_.updates.transfer_began(transfer);
  workers_->add(std::move(job));
}

void HostMechanism::zero(std::span<const BlockId> blocks) {
  for (const BlockId id : blocks) {
    state_.pages.zero(id, state_.bytes_of(id));
  }
}

void HostMechanism::zero_at_host(std::span<const BlockId> blocks) {
  for (const BlockId id : blocks) {
    state_.updates.zero(id);
  }
}

void HostMechanism::map(std::span<const BlockId> blocks, bool writable) {
  state_.pages.set_capacity(state_.engine.frugal_bytes());
  for (const BlockId id : blocks) {
    state_.pages.map(id, state_.bytes_of(id), writable);
    state_.threads.end(id);
    state_.launches.mapped(id);
  }
}

void HostMechanism::unmap(std::span<const BlockId> blocks) {
  for (const BlockId id : blocks) {
    state_.pages.unmap(id, state_.bytes_of(id));
  }
}

void HostMechanism::drop(std::span<const BlockId> blocks, Tier tier) {
  state_.pages.set_capacity(state_.engine.frugal_bytes());
  for (const BlockId id : blocks) {
    if (tier == Tier::kDevice) {
      state_.pages.drop(id, state_.bytes_of(id));
    } else {
      state_.places.give_back(id, tier, state_.bytes_of(id));
    }
  }
}

// Threads go on as their blocks are mapped; a launch waits for all of them.
void HostMechanism::faults_served(std::uint64_t /*launch*/) {}

void HostMechanism::release_launch(std::uint64_t launch,
                                   std::span<const TransferId> /*transfers*/) {
  if ((launch & HostUpdates::kTag) != 0) {
    state_.updates.released(launch);
  } else {
    state_.launches.released(launch);
  }
}

// What is written although it is held is not what counts: the block stays.
void* HostMechanism::source_of(TransferJob& job, std::size_t index) {
  TransferJob::Part& part = job.parts[index];
  if (job.transfer.from != Tier::kDevice) {
    return state_.host_memory.start() + part.host_offset;
  }
  state_.pages.take_aside(job.transfer.blocks[index], part);
  return part.aside != nullptr ? part.aside
                               : state_.addresses.address_of(job.transfer.blocks[index]);
}

void HostMechanism::copy(TransferJob& job) {
  const Transfer& transfer = job.transfer;
  for (std::size_t i = 0; i < transfer.blocks.size(); ++i) {
    TransferJob::Part& part = job.parts[i];
    if (transfer.to == Tier::kHost && transfer.from == Tier::kStorage) {
      std::memcpy(state_.host_memory.start() + part.host_offset, part.staging, part.bytes);
    } else if (transfer.to == Tier::kHost) {
      copy_to_host(transfer, i, part);
    } else {
      state_.pages.fill(transfer.blocks[i],
                        transfer.from == Tier::kHost ? state_.host_memory.start() + part.host_offset
                                                     : part.staging,
                        part);
    }
  }
}

void HostMechanism::copy_to_host(const Transfer& transfer, std::size_t index,
                                 TransferJob::Part& part) {
  constexpr std::chrono::microseconds kBeforeAnother{200};
  const BlockId block = transfer.blocks[index];
  char* const to = state_.host_memory.start() + part.host_offset;
  state_.pages.take_aside(block, part);
  if (part.held) {
    std::this_thread::sleep_for(kBeforeAnother);  // whoever holds it needs the processor more
    return;
  }
  std::memcpy(to, part.aside != nullptr ? part.aside : state_.addresses.address_of(block),
              part.bytes);
  if (transfer.cause == Cause::kPreEvict) {
    state_.pages.put_back(block, to, part);  // it is copied ahead of need, and may yet be read
  }
}

// What is held stays, as if a thread had just written it: its copy is none.
void HostMechanism::depart(const TransferJob& job) {
  if (job.transfer.from != Tier::kDevice) {
    return;
  }
  bool left = false;
  for (std::size_t i = 0; i < job.parts.size(); ++i) {
    state_.pages.departed(job.transfer.blocks[i], job.parts[i]);
    if (job.parts[i].held && state_.engine.space().block(job.transfer.blocks[i]).tenants > 0) {
      const ThreadFault write{.block = job.transfer.blocks[i], .write = true};
      state_.engine.thread_faults(state_.launches.latest(), {&write, 1});
    } else {
      left = true;
    }
  }
  // What is copied ahead of need need not leave.
  if (job.transfer.cause == Cause::kEvict && departures_.end(left, now_ns())) {
    state_.failures.fatal(
        {ErrorCode::kUnsupported,
         fmt::format("nothing can leave the device memory of {}: the program holds what "
                     "is there for I/O of its own (direct I/O, registered buffers); "
                     "raise --device-memory, or keep its buffers out with --threshold",
                     format_bytes(state_.engine.capacity_bytes(Tier::kDevice)))});
  }
}

void HostMechanism::ended(TransferJob& job, int error) {
  const Transfer& transfer = job.transfer;
  const MutexLock lock(state_.mutex);
  state_.updates.transfer_ended(transfer, error == 0);
  depart(job);
  if (EventLog* const events = state_.log.events(); events != nullptr && error == 0) {
    events->transferred({.from = transfer.from,
                         .to = transfer.to,
                         .bytes = transfer.bytes,
                         .asked_ns = job.ready_ns,
                         .begin_ns = job.ready_ns,
                         .end_ns = now_ns()});
  }
  if (error == 0) {
    arrive(job);
    state_.engine.transfer_finished(transfer.id);
    protect_unmapped(transfer);
    state_.pages.trim_frames();
  } else {
    report_failed(state_.engine, transfer.id, transfer.to, error);
  }
  progress_.check(state_);
  if (state_.engine.transfers_in_flight() == 0) {
    state_.idle.notify_all();
  }
}

void HostMechanism::arrive(const TransferJob& job) {
  if (job.transfer.to != Tier::kDevice) {
    return;
  }
  for (std::size_t i = 0; i < job.parts.size(); ++i) {
    state_.pages.landed(job.transfer.blocks[i], job.parts[i]);
    if (job.parts[i].touched) {
      state_.engine.written_on_arrival(job.transfer.blocks[i]);
    }
  }
}

// What was to be written when it set out may be dead when it arrives: the next write must be seen.
void HostMechanism::protect_unmapped(const Transfer& transfer) {
  for (const BlockId id : transfer.blocks) {
    if (!state_.engine.space().block(id).mapped && state_.bytes_of(id) > 0) {
      state_.pages.unmap(id, state_.bytes_of(id));
    }
  }
}

}  // namespace spillway::host
