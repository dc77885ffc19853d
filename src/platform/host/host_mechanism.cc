// What the engine asks of this machine, handed to whose it is. See host_platform.h.
#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "platform/common/platform_engine.h"
#include "platform/common/process/clock.h"
#include "platform/host/host_platform.h"

namespace spillway::host {

void HostPlatform::start_transfer(const Transfer& transfer) {
  auto job = std::make_shared<TransferJob>();
  job->transfer = transfer;
  job->ready_ns = now_ns();
  for (const BlockId id : transfer.blocks) {
    const Bytes bytes = bytes_of(id);
    if (transfer.to == Tier::kDevice) {
      pages_.set_source(id,
                        transfer.from == Tier::kHost ? Source::kHostCopy : Source::kStorageCopy);
    } else if (!places_.take(id, transfer.to, bytes)) {
      job->error = transfer.to == Tier::kHost ? ENOMEM : ENOSPC;
      if (transfer.to == Tier::kHost) {
        failures_.note_cause("host memory is full of what children of the program may still read");
      }
    }
    // A block that comes to be written need not be protected first. Nobody can write it before it
    // is whole: what can fail has succeeded when its pages appear.
    job->parts.push_back(
        {.bytes = bytes,
         .host_offset = places_.at(id, Tier::kHost),
         .storage_offset = places_.at(id, Tier::kStorage),
         .writable = transfer.to == Tier::kDevice && engine_.space().block(id).wants_write});
  }
  if (transfer.from == Tier::kDevice) {
    launches_.pressed();
  }
  updates_.transfer_began(transfer);
  workers_->add(std::move(job));
}

void HostPlatform::zero(std::span<const BlockId> blocks) {
  for (const BlockId id : blocks) {
    pages_.zero(id, bytes_of(id));
  }
}

void HostPlatform::zero_at_host(std::span<const BlockId> blocks) {
  for (const BlockId id : blocks) {
    updates_.zero(id);
  }
}

void HostPlatform::map(std::span<const BlockId> blocks, bool writable) {
  pages_.set_capacity(engine_.frugal_bytes());
  for (const BlockId id : blocks) {
    pages_.map(id, bytes_of(id), writable);
    threads_.end(id);
    launches_.mapped(id);
  }
}

void HostPlatform::unmap(std::span<const BlockId> blocks) {
  for (const BlockId id : blocks) {
    pages_.unmap(id, bytes_of(id));
  }
}

void HostPlatform::drop(std::span<const BlockId> blocks, Tier tier) {
  pages_.set_capacity(engine_.frugal_bytes());
  for (const BlockId id : blocks) {
    if (tier == Tier::kDevice) {
      pages_.drop(id, bytes_of(id));
    } else {
      places_.give_back(id, tier, bytes_of(id));
    }
  }
}

// Threads go on as their blocks are mapped; a launch waits for all of them.
void HostPlatform::faults_served(std::uint64_t /*launch*/) {}

void HostPlatform::release_launch(std::uint64_t launch, std::span<const TransferId> /*transfers*/) {
  if ((launch & HostUpdates::kTag) != 0) {
    updates_.released(launch);
  } else {
    launches_.released(launch);
  }
}

// What is written although it is held is not what counts: the block stays.
void* HostPlatform::source_of(TransferJob& job, std::size_t index) {
  TransferJob::Part& part = job.parts[index];
  if (job.transfer.from != Tier::kDevice) {
    return host_memory_.start() + part.host_offset;
  }
  pages_.take_aside(job.transfer.blocks[index], part);
  return part.aside != nullptr ? part.aside : addresses_.address_of(job.transfer.blocks[index]);
}

void HostPlatform::copy(TransferJob& job) {
  const Transfer& transfer = job.transfer;
  for (std::size_t i = 0; i < transfer.blocks.size(); ++i) {
    TransferJob::Part& part = job.parts[i];
    if (transfer.to == Tier::kHost && transfer.from == Tier::kStorage) {
      std::memcpy(host_memory_.start() + part.host_offset, part.staging, part.bytes);
    } else if (transfer.to == Tier::kHost) {
      copy_to_host(transfer, i, part);
    } else {
      pages_.fill(
          transfer.blocks[i],
          transfer.from == Tier::kHost ? host_memory_.start() + part.host_offset : part.staging,
          part);
    }
  }
}

void HostPlatform::copy_to_host(const Transfer& transfer, std::size_t index,
                                TransferJob::Part& part) {
  constexpr std::chrono::microseconds kBeforeAnother{200};
  const BlockId block = transfer.blocks[index];
  char* const to = host_memory_.start() + part.host_offset;
  pages_.take_aside(block, part);
  if (part.held) {
    std::this_thread::sleep_for(kBeforeAnother);  // whoever holds it needs the processor more
    return;
  }
  std::memcpy(to, part.aside != nullptr ? part.aside : addresses_.address_of(block), part.bytes);
  if (transfer.cause == Cause::kPreEvict) {
    pages_.put_back(block, to, part);  // it is copied ahead of need, and may yet be read
  }
}

// What is held stays, as if a thread had just written it: its copy is none.
void HostPlatform::depart(const TransferJob& job) {
  if (job.transfer.from != Tier::kDevice) {
    return;
  }
  bool left = false;
  for (std::size_t i = 0; i < job.parts.size(); ++i) {
    pages_.departed(job.transfer.blocks[i], job.parts[i]);
    if (job.parts[i].held && engine_.space().block(job.transfer.blocks[i]).tenants > 0) {
      const ThreadFault write{.block = job.transfer.blocks[i], .write = true};
      engine_.thread_faults(launches_.latest(), {&write, 1});
    } else {
      left = true;
    }
  }
  // What is copied ahead of need need not leave.
  if (job.transfer.cause == Cause::kEvict && departures_.end(left, now_ns())) {
    failures_.fatal(
        {ErrorCode::kUnsupported,
         fmt::format("nothing can leave the device memory of {}: the program holds what "
                     "is there for I/O of its own (direct I/O, registered buffers); "
                     "raise --device-memory, or keep its buffers out with --threshold",
                     format_bytes(engine_.capacity_bytes(Tier::kDevice)))});
  }
}

void HostPlatform::ended(TransferJob& job, int error) {
  const Transfer& transfer = job.transfer;
  const MutexLock lock(mutex_);
  updates_.transfer_ended(transfer, error == 0);
  depart(job);
  if (EventLog* const events = log_.events(); events != nullptr && error == 0) {
    events->transferred({.from = transfer.from,
                         .to = transfer.to,
                         .bytes = transfer.bytes,
                         .asked_ns = job.ready_ns,
                         .begin_ns = job.ready_ns,
                         .end_ns = now_ns()});
  }
  if (error == 0) {
    arrive(job);
    engine_.transfer_finished(transfer.id);
    protect_unmapped(transfer);
    pages_.trim_frames();
  } else {
    report_failed(engine_, transfer.id, transfer.to, error);
  }
  check_progress();
  if (engine_.transfers_in_flight() == 0) {
    idle_.notify_all();
  }
}

void HostPlatform::arrive(const TransferJob& job) {
  if (job.transfer.to != Tier::kDevice) {
    return;
  }
  for (std::size_t i = 0; i < job.parts.size(); ++i) {
    pages_.landed(job.transfer.blocks[i], job.parts[i]);
    if (job.parts[i].touched) {
      engine_.written_on_arrival(job.transfer.blocks[i]);
    }
  }
}

// What was to be written when it set out may be dead when it arrives: the next write must be seen.
void HostPlatform::protect_unmapped(const Transfer& transfer) {
  for (const BlockId id : transfer.blocks) {
    if (!engine_.space().block(id).mapped && bytes_of(id) > 0) {
      pages_.unmap(id, bytes_of(id));
    }
  }
}

}  // namespace spillway::host
