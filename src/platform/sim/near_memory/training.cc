// The schedule. See training.h.
#include "platform/sim/near_memory/training.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <ranges>

#include "platform/sim/near_memory/arbiter.h"
#include "platform/sim/near_memory/process.h"

namespace spillway::sim::near_memory {
namespace {

constexpr ResourceSet kMemory = bit(Resource::kBothWays);  // its link has one bus for both ways

Bytes scaled(Bytes bytes, double factor) {
  return static_cast<Bytes>(std::llround(static_cast<double>(bytes) * factor));
}

class Training {
 public:
  Training(const Gpt& gpt, const Platform& platform)
      : gpt_(gpt),
        platform_(platform),
        world_({platform.gpu_link_bytes_per_s, platform.gpu_link_bytes_per_s,
                platform.storage_read_bytes_per_s, platform.storage_write_bytes_per_s,
                platform.memory_bytes_per_s}),
        residency_(gpt, platform.channels, platform.channel_bytes, platform.placement),
        channels_(platform.channels),
        room_(platform.gpu_bytes - std::min(platform.gpu_bytes, gpt.activation_bytes)) {}

  Result<Iteration> run(std::uint32_t iterations) {
    for (std::uint32_t i = 0; i < iterations; ++i) {
      iteration_ = {};
      iteration_.begin_ns = world_.now_ns();
      residency_.begin_iteration();
      if (Status status = pass(true); !status) {
        return tl::unexpected<Error>(status.error());
      }
      iteration_.forward_ns = world_.now_ns() - iteration_.begin_ns;
      const TimeNs middle_ns = world_.now_ns();
      if (Status status = pass(false); !status) {
        return tl::unexpected<Error>(status.error());
      }
      iteration_.backward_ns = world_.now_ns() - middle_ns;
      iteration_.storage_peak_bytes = residency_.storage_peak_bytes();
    }
    return iteration_;
  }

 private:
  struct Channel {
    Arbiter arbiter;
    std::deque<std::size_t> arrived;  // gradients
    std::size_t updates_left = 0;     // of the pass
  };
  struct Label {
    Lane lane;
    std::size_t tensor;
  };

  Status pass(bool forward) {
    is_forward_ = forward;
    operations_.clear();
    for (const Operation& operation : gpt_.operations) {
      operations_.push_back(&operation);
    }
    if (!forward) {
      std::reverse(operations_.begin(), operations_.end());
    }
    fetched_ = computed_ = 0;
    fetched_bytes_ = 0;
    std::vector<Process> processes;
    processes.push_back(compute());
    if (forward) {
      processes.push_back(fetches());
    } else {
      for (std::size_t tensor = 0; tensor < gpt_.tensors.size(); ++tensor) {
        ++channels_[residency_.channel_of(tensor)].updates_left;
      }
      if (platform_.streams == Streams::kOne) {
        processes.push_back(transfers());
      } else {
        processes.push_back(fetches());
        processes.push_back(sends());
      }
      for (std::uint32_t channel = 0; channel < platform_.channels; ++channel) {
        processes.push_back(updates(channel));
      }
    }
    return world_.run(std::move(processes));
  }

  void record(Label label, std::optional<std::uint32_t> channel, TimeNs begin_ns) {
    iteration_.spans.push_back(
        {label.lane, gpt_.tensors[label.tensor].layer, channel, begin_ns, world_.now_ns()});
  }

  // --- the GPU
  Process compute() {
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      co_await world_.until([this, i] { return fetched_ > i; });
      const TimeNs begin_ns = world_.now_ns();
      const double flop = operations_[i]->forward_flop * (is_forward_ ? 1 : 2);
      co_await world_.wait(std::llround(flop / platform_.gpu_flop_per_s * 1e9));
      iteration_.spans.push_back(
          {Lane::kGpu, operations_[i]->layer, std::nullopt, begin_ns, world_.now_ns()});
      fetched_bytes_ -= parameter_bytes(i);
      computed_ = i + 1;
    }
  }

  // --- the transfer streams
  Process fetches() {
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      co_await fetch(i);
    }
  }
  Process sends() {
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      co_await send(i);
    }
  }
  Process transfers() {
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      co_await fetch(i);
      co_await send(i);
    }
  }

  // Of an operation.
  [[nodiscard]] Bytes parameter_bytes(std::size_t i) const {
    Bytes bytes = 0;
    for (const std::size_t tensor : operations_[i]->tensors) {
      bytes += gpt_.tensors[tensor].bytes();
    }
    return bytes;
  }

  Process fetch(std::size_t i) {
    const Bytes bytes = parameter_bytes(i);
    co_await world_.until(
        [this, bytes] { return fetched_bytes_ == 0 || fetched_bytes_ + bytes <= room_; });
    fetched_bytes_ += bytes;
    for (const std::size_t tensor : operations_[i]->tensors) {
      if (residency_.in_memory({tensor, Part::kParameter})) {
        co_await through({Lane::kFetch, tensor}, kMemory | bit(Resource::kToDevice));
      } else {
        co_await storage_to_gpu(tensor);
      }
    }
    fetched_ = i + 1;
  }

  Process send(std::size_t i) {
    co_await world_.until([this, i] { return computed_ > i; });
    if (!operations_[i]->gradients) {
      co_return;
    }
    // The backward pass has the last tensor's gradient first.
    for (const std::size_t tensor : std::ranges::reverse_view(operations_[i]->tensors)) {
      const std::uint32_t channel = residency_.channel_of(tensor);
      co_await world_.until([this, tensor] { return residency_.admits_gradient(tensor); });
      co_await make_space(channel, gpt_.tensors[tensor].bytes());
      residency_.take_gradient(tensor);
      co_await through({Lane::kSend, tensor}, kMemory | bit(Resource::kFromDevice));
      channels_[channel].arrived.push_back(tensor);
    }
  }

  // --- memory and NVMe
  // A tensor between its channel and elsewhere, while no update has the channel.
  Process through(Label label, ResourceSet resources) {
    const std::uint32_t channel = residency_.channel_of(label.tensor);
    Arbiter& arbiter = channels_[channel].arbiter;
    co_await world_.until([&arbiter] { return arbiter.takes_transfers(); });
    arbiter.begin_transfer();
    const TimeNs begin_ns = world_.now_ns();
    co_await world_.transfer(resources, gpt_.tensors[label.tensor].bytes());
    record(label, channel, begin_ns);
    arbiter.end_transfer();
  }

  // NVMe takes requests in the order in which they come.
  World::Until storage_turn() {
    return world_.until([this, turn = storage_turns_++] {
      return turn < storage_done_ + platform_.storage_requests;
    });
  }
  // Paper sections 4.4 and 5.3: past the memory.
  Process storage_to_gpu(std::size_t tensor) {
    const Bytes bytes = gpt_.tensors[tensor].bytes();
    co_await storage_turn();
    const TimeNs begin_ns = world_.now_ns();
    co_await world_.transfer(
        bit(Resource::kStorageRead) | bit(Resource::kToDevice),
        scaled(bytes, platform_.storage_read_bytes_per_s / platform_.storage_to_gpu_bytes_per_s));
    iteration_.storage_read_bytes += bytes;
    record({Lane::kFetch, tensor}, std::nullopt, begin_ns);
    ++storage_done_;
  }
  Process storage_and_memory(Label label, Resource way) {
    co_await storage_turn();
    co_await through(label, kMemory | bit(way));
    ++storage_done_;
  }

  // Paper section 5.3: evicts until enough space is there.
  Process make_space(std::uint32_t channel, Bytes bytes) {
    while (residency_.free_bytes(channel) < bytes) {
      const auto piece = residency_.victim(channel);
      if (!piece) {  // all that may leave is on its way
        co_await world_.until(
            [this, channel, bytes] { return residency_.free_bytes(channel) >= bytes; });
        co_return;
      }
      residency_.leaves(*piece);
      co_await storage_and_memory({Lane::kEvict, piece->tensor}, Resource::kStorageWrite);
      residency_.left(*piece);
      iteration_.storage_written_bytes += residency_.bytes_of(*piece);
    }
  }

  Process gather(std::size_t tensor) {
    const std::uint32_t channel = residency_.channel_of(tensor);
    for (const Part part : kParts) {
      const Piece piece{tensor, part};
      if (residency_.in_memory(piece)) {
        continue;
      }
      co_await make_space(channel, residency_.bytes_of(piece));
      residency_.enters(piece);
      co_await storage_and_memory({Lane::kGather, tensor}, Resource::kStorageRead);
      iteration_.storage_read_bytes += residency_.bytes_of(piece);
    }
  }

  // --- updates, one after the other on each channel
  Process updates(std::uint32_t number) {
    Channel& channel = channels_[number];
    for (; channel.updates_left > 0; --channel.updates_left) {
      co_await world_.until([&channel] { return !channel.arrived.empty(); });
      const std::size_t tensor = channel.arrived.front();
      channel.arrived.pop_front();
      residency_.keep(tensor, true);
      co_await gather(tensor);
      if (platform_.exclusive) {
        channel.arbiter.want_kernel();
        co_await world_.until([&channel] { return channel.arbiter.takes_kernel(); });
        channel.arbiter.begin_kernel();
        co_await update(number, tensor);
        channel.arbiter.end_kernel();
      } else {
        co_await update(number, tensor);
      }
      residency_.keep(tensor, false);
      residency_.updated(tensor);
      residency_.free_gradient(tensor);
    }
  }

  Process update(std::uint32_t channel, std::size_t tensor) {
    const double alone_s =
        static_cast<double>(gpt_.tensors[tensor].elements) / platform_.updates_per_s;
    const TimeNs begin_ns = world_.now_ns();
    if (platform_.updater == Updater::kKernel) {
      co_await world_.wait(std::llround(alone_s * 1e9));
    } else {  // what it would get alone is all that the memory can do
      co_await world_.transfer(
          kMemory, static_cast<Bytes>(std::llround(alone_s * platform_.memory_bytes_per_s)));
    }
    record({Lane::kUpdate, tensor}, channel, begin_ns);
  }

  const Gpt& gpt_;
  const Platform platform_;
  World world_;
  Residency residency_;
  std::vector<Channel> channels_;
  Bytes room_;  // for parameters on the GPU
  Iteration iteration_;
  bool is_forward_ = true;
  std::vector<const Operation*> operations_;  // of the pass, in its order
  std::size_t fetched_ = 0;                   // operations whose parameters are on the GPU
  std::size_t computed_ = 0;
  Bytes fetched_bytes_ = 0;
  std::uint64_t storage_turns_ = 0;  // requests so far
  std::uint64_t storage_done_ = 0;
};

}  // namespace

Result<Iteration> simulate_training(const Gpt& gpt, const Platform& platform,
                                    std::uint32_t iterations) {
  for (const ParameterTensor& tensor : gpt.tensors) {
    // With its gradient, and the gradient that may arrive meanwhile.
    if ((kParts.size() + 2) * tensor.bytes() > platform.channel_bytes) {
      return make_error(ErrorCode::kCannotRun,
                        "{}: a tensor of {} does not fit into a channel of {} with its states",
                        gpt.shape.name, format_bytes(tensor.bytes()),
                        format_bytes(platform.channel_bytes));
    }
  }
  return Training(gpt, platform).run(iterations);
}

}  // namespace spillway::sim::near_memory
