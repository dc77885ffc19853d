// A history of allocations as a trace. Layer: trace.
//
// A memory snapshot has no kernels. Each allocation becomes a kernel that writes its block and each
// free one that reads it, so memory at each kernel is what it was. What is alive at the beginning
// or at the end of the iteration is read there, one kernel for each block.
#include <algorithm>
#include <limits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "trace/import/assembler.h"
#include "trace/import/held_blocks.h"
#include "trace/import/importers.h"
#include "trace/import/iteration_choice.h"
#include "trace/import/pickle.h"

namespace spillway {
namespace {

constexpr TimeNs kUnknownDurationNs = 1000;
constexpr std::uint64_t kLatestUs = std::uint64_t{1} << 53U;

struct Event {
  BlockEvent block;           // `at` is the event's position, from 1
  std::uint64_t time_us = 0;  // 0 where unknown
  std::string name;
};

std::string named_frame(const Pickle& pickle, Pickle::Id frame, const std::string& file) {
  const std::string* name = pickle.text(frame, "name");
  return fmt::format("{}:{} {}", file.substr(file.rfind('/') + 1),
                     pickle.integer(frame, "line").value_or(0),
                     name != nullptr ? plain_name(*name) : "");
}

// The innermost line of Python that is not PyTorch's own; "" where none is known.
std::string place_in(const Pickle& pickle, Pickle::Id frames) {
  constexpr std::size_t kMostFrames = 64;
  const std::vector<Pickle::Id>& list = pickle.elements(frames);
  std::string inside;
  for (std::size_t i = 0; i < std::min(list.size(), kMostFrames); ++i) {
    const std::string* file = pickle.text(list[i], "filename");
    if (file == nullptr || !file->ends_with(".py")) {
      continue;
    }
    if (file->find("/torch/") == std::string::npos) {
      return named_frame(pickle, list[i], *file);
    }
    inside = inside.empty() ? named_frame(pickle, list[i], *file) : inside;
  }
  return inside;
}

class SnapshotImport {
 public:
  explicit SnapshotImport(const Pickle& pickle) : pickle_(pickle) {}

  Result<Imported> run(const ImportOptions& options) {
    if (Status status = read_history(); !status) {
      return tl::unexpected(status.error());
    }
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
  // That of the device with the most events.
  Status read_history() {
    const auto histories = pickle_.member(pickle_.root(), "device_traces");
    if (!histories) {
      return make_error(ErrorCode::kInvalidInput,
                        "no \"device_traces\": not a memory snapshot, or one without a history "
                        "(torch.cuda.memory._record_memory_history)");
    }
    const std::vector<Pickle::Id>& devices = pickle_.elements(*histories);
    for (std::size_t i = 0; i < devices.size(); ++i) {
      used_ += pickle_.elements(devices[i]).empty() ? 0U : 1U;
      if (pickle_.elements(devices[i]).size() > pickle_.elements(devices[device_]).size()) {
        device_ = i;
      }
    }
    if (devices.empty() || pickle_.elements(devices[device_]).empty()) {
      return make_error(ErrorCode::kInvalidInput,
                        "device_traces: no events; record with "
                        "torch.cuda.memory._record_memory_history()");
    }
    const std::vector<Pickle::Id>& history = pickle_.elements(devices[device_]);
    for (std::size_t i = 0; i < history.size(); ++i) {
      if (Status status = read_event(history[i]); !status) {
        return make_error(status.error().code, "device_traces[{}][{}]: {}", device_, i,
                          status.error().message);
      }
    }
    return {};
  }

  // Events share their lists of frames.
  std::string place_of(Pickle::Id event) {
    const auto frames = pickle_.member(event, "frames");
    if (!frames) {
      return "";
    }
    const auto [place, is_new] = places_.try_emplace(*frames);
    if (is_new) {
      place->second = place_in(pickle_, *frames);
    }
    return place->second;
  }

  Status read_event(Pickle::Id entry) {
    const std::string* action = pickle_.text(entry, "action");
    if (action == nullptr) {
      return make_error(ErrorCode::kInvalidInput, "an event without an action");
    }
    // Between a free that was asked for and its completion another stream may still use the block.
    const bool freed = *action == "free_completed";
    if (!freed && *action != "alloc") {
      return {};
    }
    const auto address = pickle_.integer(entry, "addr");
    const auto bytes = pickle_.integer(entry, "size");
    if (!address || !bytes || *bytes < 0) {
      return make_error(ErrorCode::kInvalidInput, "{} has addr and size", *action);
    }
    if (events_.size() >= kMaxKernels) {
      return make_error(ErrorCode::kInvalidInput, "more than {} allocations and frees",
                        kMaxKernels);
    }
    const auto time_us = static_cast<std::uint64_t>(
        std::max<std::int64_t>(pickle_.integer(entry, "time_us").value_or(0), 0));
    last_time_us_ = std::max(last_time_us_, std::min(time_us, kLatestUs));
    const std::string place = freed ? "" : place_of(entry);
    events_.push_back({{events_.size() + 1, static_cast<std::uint64_t>(*address),
                        static_cast<Bytes>(*bytes), freed},
                       time_us == 0 ? 0 : last_time_us_,
                       freed           ? "free"
                       : place.empty() ? "allocate"
                                       : "allocate " + place});
    return {};
  }

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
          pickle_.integer(entry, "device").value_or(static_cast<std::int64_t>(device_)) !=
              static_cast<std::int64_t>(device_)) {
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
    const auto at =
        std::lower_bound(events_.begin(), events_.end(), time_us,
                         [](const Event& event, std::uint64_t t) { return event.time_us < t; });
    return static_cast<std::uint64_t>(at - events_.begin()) + 1;
  }

  // From the history, and what is alive at its end without being in it.
  Status read_blocks() {
    std::vector<BlockEvent> events;
    events.reserve(events_.size());
    for (const Event& event : events_) {
      events.push_back(event.block);
    }
    blocks_ = blocks_of(events);
    std::unordered_set<std::uint64_t> alive;
    for (const Block& block : blocks_) {
      if (block.died == Block::kForever) {
        alive.insert(block.address);
      }
    }
    std::vector<Block> older;
    const auto segments = pickle_.member(pickle_.root(), "segments");
    std::uint64_t looked_at = 0;
    for (const Pickle::Id segment :
         segments ? pickle_.elements(*segments) : std::vector<Pickle::Id>{}) {
      const auto device = pickle_.integer(segment, "device");
      const auto blocks = pickle_.member(segment, "blocks");
      if (!blocks || (device && *device != static_cast<std::int64_t>(device_))) {
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
    std::vector<TensorId> by_event(events_.size() + 2, Block::kNoTensor);
    std::vector<TensorId> at_end;
    Status status;
    const auto kernel = [&](std::string name, TimeNs duration_ns, TensorId read, TensorId written) {
      if (status) {
        ImportedKernel made{
            .name = std::move(name), .duration_ns = duration_ns, .reads = {}, .writes = {}};
        (written != Block::kNoTensor ? made.writes : made.reads)
            .push_back(written != Block::kNoTensor ? written : read);
        status = assembler_.kernel(std::move(made));
      }
    };
    for (const Block& block : blocks_) {
      if (block.tensor == Block::kNoTensor) {
        continue;
      }
      const bool before = is_older(block, range);
      const bool behind = block.died >= range.end;
      if (before && !behind) {
        kernel("alive before", 1, block.tensor, Block::kNoTensor);
      }
      if (!before) {
        by_event[block.born] = block.tensor;
      }
      if (!behind) {
        by_event[block.died] =
            by_event[block.died] == Block::kNoTensor ? block.tensor : by_event[block.died];
      } else if (!before) {
        at_end.push_back(block.tensor);
      }
    }
    for (std::size_t i = 0; i < events_.size(); ++i) {
      const Event& event = events_[i];
      const TensorId id = by_event[event.block.at];
      if (range.contains(event.block.at) && id != Block::kNoTensor) {
        kernel(event.name, duration_of(i), id, event.block.freed ? Block::kNoTensor : id);
      }
    }
    for (const TensorId id : at_end) {
      kernel("alive at the end", 1, id, Block::kNoTensor);
    }
    return status;
  }

  // Until the next event.
  [[nodiscard]] TimeNs duration_of(std::size_t event) const {
    const std::uint64_t now_us = events_[event].time_us;
    const std::uint64_t next_us = event + 1 < events_.size() ? events_[event + 1].time_us : 0;
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
    if (last_time_us_ == 0) {
      notes[1] = "Times are not in the file: each kernel counts 1 us.";
    }
    if (used_ > 1) {
      notes.push_back(
          fmt::format("Of {} devices the one with the most events is read: {}.", used_, device_));
    }
    return notes;
  }

  const Pickle& pickle_;
  TraceAssembler assembler_;
  std::size_t device_ = 0;
  std::size_t used_ = 0;  // devices with events
  std::vector<Event> events_;
  std::unordered_map<Pickle::Id, std::string> places_;  // by list of frames
  std::uint64_t last_time_us_ = 0;
  std::vector<Block> blocks_;
};

}  // namespace

Result<Imported> import_snapshot(ByteSource& bytes, const ImportOptions& options) {
  const Result<Pickle> pickle = Pickle::read(bytes);
  if (!pickle) {
    return tl::unexpected(pickle.error());
  }
  return SnapshotImport(*pickle).run(options);
}

}  // namespace spillway
