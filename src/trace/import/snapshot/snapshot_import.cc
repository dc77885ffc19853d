// A history of allocations as a trace. Layer: trace.
//
// A memory snapshot has no kernels. Each allocation becomes a kernel that writes its block and each
// free one that reads it, so memory at each kernel is what it was. What is alive at the beginning
// or at the end of the iteration is read there, one kernel for each block.
#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>

#include "trace/import/assembler.h"
#include "trace/import/held_blocks.h"
#include "trace/import/importers.h"
#include "trace/import/iteration_choice.h"
#include "trace/import/snapshot/pickle.h"
#include "trace/import/snapshot/snapshot_history.h"

namespace spillway {
namespace {

class SnapshotImport {
 public:
  SnapshotImport(const Pickle& pickle, const SnapshotHistory& history)
      : pickle_(pickle), history_(history) {}

  Result<Imported> run(const ImportOptions& options) {
    const Result<IterationRange> range = choose(options.iteration);
    if (!range) {
      return tl::unexpected(range.error());
    }
    return read_blocks()
        .and_then([&] { return make_tensors(blocks_, *range, assembler_); })
        .and_then([&] { return make_kernels(*range); })
        .and_then([&] { return assembler_.finish(""); })
        .map([&](Trace trace) {
          return Imported{std::move(trace), ImportFormat::kSnapshot, range->name, notes()};
        });
  }

 private:
  // Annotations have times; positions are those of events.
  Result<IterationRange> choose(std::optional<std::uint64_t> wanted) const {
    IterationChoice choice;
    std::vector<std::pair<const std::string*, std::uint64_t>> open;
    const auto list = pickle_.member(pickle_.root(), "external_annotations");
    const std::vector<Pickle::Id> none;
    for (const Pickle::Id entry : list ? pickle_.elements(*list) : none) {
      const std::string* name = pickle_.text(entry, "name");
      const std::string* stage = pickle_.text(entry, "stage");
      const auto time_us = pickle_.integer(entry, "time_us");
      if (name == nullptr || stage == nullptr || !time_us || *time_us < 0 ||
          (!name->starts_with("ProfilerStep#") && !is_optimizer_step(*name)) ||
          pickle_.integer(entry, "device").value_or(history_.device) != history_.device) {
        continue;
      }
      const std::uint64_t at = position_of(static_cast<std::uint64_t>(*time_us));
      if (*stage == "START") {
        open.emplace_back(name, at);
      } else if (!open.empty() && *open.back().first == *name) {
        if (Status status = choice.annotation(*name, open.back().second, at); !status) {
          return tl::unexpected(status.error());
        }
        open.pop_back();
      }
    }
    return choice.choose(wanted);
  }

  // The first event at that time or later.
  std::uint64_t position_of(std::uint64_t time_us) const {
    const auto at = std::lower_bound(
        history_.events.begin(), history_.events.end(), time_us,
        [](const SnapshotEvent& event, std::uint64_t t) { return event.time_us < t; });
    return static_cast<std::uint64_t>(at - history_.events.begin()) + 1;
  }

  // From the history, and what is alive at its end without being in it.
  Status read_blocks() {
    std::vector<BlockEvent> events;
    events.reserve(history_.events.size());
    for (const SnapshotEvent& event : history_.events) {
      events.push_back(event.block);
    }
    blocks_ = blocks_of(events);
    std::unordered_set<std::uint64_t> alive;
    for (const HeldBlock& block : blocks_) {
      if (block.died == HeldBlock::kForever) {
        alive.insert(block.address);
      }
    }
    std::vector<HeldBlock> older;
    const auto segments = pickle_.member(pickle_.root(), "segments");
    std::uint64_t looked_at = 0;
    for (const Pickle::Id segment :
         segments ? pickle_.elements(*segments) : std::vector<Pickle::Id>{}) {
      const auto device = pickle_.integer(segment, "device");
      const auto blocks = pickle_.member(segment, "blocks");
      if (!blocks || (device && *device != history_.device)) {
        continue;
      }
      std::int64_t address = pickle_.integer(segment, "address").value_or(0);
      for (const Pickle::Id block : pickle_.elements(*blocks)) {
        const auto size = pickle_.integer(block, "size");
        if (!size || *size < 0 || ++looked_at > kMaxTensors) {
          return make_error(ErrorCode::kInvalidInput,
                            "segments: a block without a size, or more than {} blocks",
                            kMaxTensors);
        }
        address = pickle_.integer(block, "address").value_or(address);
        const std::string* state = pickle_.text(block, "state");
        if (state != nullptr && state->starts_with("active") &&
            alive.insert(static_cast<std::uint64_t>(address)).second) {
          older.push_back({.bytes = static_cast<Bytes>(std::max<std::int64_t>(
                               pickle_.integer(block, "requested_size").value_or(*size), 0)),
                           .address = static_cast<std::uint64_t>(address)});
        }
        address = static_cast<std::int64_t>(static_cast<std::uint64_t>(address) +
                                            static_cast<std::uint64_t>(*size));
      }
    }
    blocks_.insert(blocks_.begin(), older.begin(), older.end());
    return {};
  }

  Status make_kernels(const IterationRange& range) {
    std::vector<TensorId> by_event(history_.events.size() + 2, HeldBlock::kNoTensor);
    std::vector<TensorId> at_end;
    Status status;
    const auto kernel = [&](std::string name, TimeNs duration_ns, TensorId read, TensorId written) {
      if (status) {
        ImportedKernel made{
            .name = std::move(name), .duration_ns = duration_ns, .reads = {}, .writes = {}};
        (written != HeldBlock::kNoTensor ? made.writes : made.reads)
            .push_back(written != HeldBlock::kNoTensor ? written : read);
        status = assembler_.kernel(std::move(made));
      }
    };
    for (const HeldBlock& block : blocks_) {
      if (block.tensor == HeldBlock::kNoTensor) {
        continue;
      }
      const bool before = is_older(block, range);
      const bool behind = block.died >= range.end;
      if (before && !behind) {
        kernel("alive before", 1, block.tensor, HeldBlock::kNoTensor);
      }
      if (!before) {
        by_event[block.born] = block.tensor;
      }
      if (!behind) {
        by_event[block.died] =
            by_event[block.died] == HeldBlock::kNoTensor ? block.tensor : by_event[block.died];
      } else if (!before) {
        at_end.push_back(block.tensor);
      }
    }
    for (std::size_t i = 0; i < history_.events.size(); ++i) {
      const SnapshotEvent& event = history_.events[i];
      const TensorId id = by_event[event.block.at];
      if (range.contains(event.block.at) && id != HeldBlock::kNoTensor) {
        kernel(event.name, duration_of(i), id, event.block.freed ? HeldBlock::kNoTensor : id);
      }
    }
    for (const TensorId id : at_end) {
      kernel("alive at the end", 1, id, HeldBlock::kNoTensor);
    }
    return status;
  }

  // Until the next event.
  [[nodiscard]] TimeNs duration_of(std::size_t event) const {
    const std::uint64_t now_us = history_.events[event].time_us;
    const std::uint64_t next_us =
        event + 1 < history_.events.size() ? history_.events[event + 1].time_us : 0;
    if (now_us == 0 || next_us < now_us) {
      return kUnknownDurationNs;
    }
    return std::min(static_cast<TimeNs>(next_us - now_us) * kNsPerUs, kMaxDurationNs);
  }

  [[nodiscard]] std::vector<std::string> notes() const {
    std::vector<std::string> notes{
        "There are no kernels: each allocation is one that writes its block, each free one that "
        "reads "
        "it. What uses a block in between is not in the file.",
        "Times are those between allocations on the host, which runs ahead of the device.",
        "Sizes are those asked for; the allocator rounds up, and keeps more than is allocated.",
        "What is alive before the iteration and behind it is persistent, and no kernel uses it."};
    if (history_.last_time_us == 0) {
      notes[1] = "Times are not in the file: each kernel counts 1 us.";
    }
    if (history_.devices > 1) {
      notes.push_back(fmt::format("Of {} devices the one with the most events is read: {}.",
                                  history_.devices, history_.device));
    }
    return notes;
  }

  const Pickle& pickle_;
  const SnapshotHistory& history_;
  TraceAssembler assembler_;
  std::vector<HeldBlock> blocks_;
};

}  // namespace

Result<Imported> import_snapshot(ByteSource& bytes, const ImportOptions& options) {
  const Result<Pickle> pickle = Pickle::read(bytes);
  if (!pickle) {
    return tl::unexpected(pickle.error());
  }
  const Result<SnapshotHistory> history = read_snapshot_history(*pickle);
  if (!history) {
    return tl::unexpected(history.error());
  }
  return SnapshotImport(*pickle, *history).run(options);
}

}  // namespace spillway
