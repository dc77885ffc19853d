// Events of the allocator, each with the line of the program that allocates. Layer: trace.
#include "trace/import/snapshot/snapshot_history.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "trace/import/assembler.h"
#include "trace/limits.h"

namespace spillway {
namespace {

constexpr std::uint64_t kLatestUs = std::uint64_t{1} << 53U;

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

class HistoryReader {
 public:
  explicit HistoryReader(const Pickle& pickle) : pickle_(pickle) {}

  // That of the device with the most events.
  Result<SnapshotHistory> run() {
    const auto histories = pickle_.member(pickle_.root(), "device_traces");
    if (!histories) {
      return make_error(ErrorCode::kInvalidInput,
                        "no \"device_traces\": not a memory snapshot, or one without a history "
                        "(torch.cuda.memory._record_memory_history)");
    }
    const std::vector<Pickle::Id>& devices = pickle_.elements(*histories);
    std::size_t device = 0;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      history_.devices += pickle_.elements(devices[i]).empty() ? 0U : 1U;
      if (pickle_.elements(devices[i]).size() > pickle_.elements(devices[device]).size()) {
        device = i;
      }
    }
    if (devices.empty() || pickle_.elements(devices[device]).empty()) {
      return make_error(ErrorCode::kInvalidInput,
                        "device_traces: no events; record with "
                        "torch.cuda.memory._record_memory_history()");
    }
    const std::vector<Pickle::Id>& history = pickle_.elements(devices[device]);
    for (std::size_t i = 0; i < history.size(); ++i) {
      if (Status status = read_event(history[i]); !status) {
        return make_error(status.error().code, "device_traces[{}][{}]: {}", device, i,
                          status.error().message);
      }
    }
    history_.device = static_cast<std::int64_t>(device);
    return std::move(history_);
  }

 private:
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
    if (history_.events.size() >= kMaxKernels) {
      return make_error(ErrorCode::kInvalidInput, "more than {} allocations and frees",
                        kMaxKernels);
    }
    const auto time_us = static_cast<std::uint64_t>(
        std::max<std::int64_t>(pickle_.integer(entry, "time_us").value_or(0), 0));
    history_.last_time_us = std::max(history_.last_time_us, std::min(time_us, kLatestUs));
    const std::string place = freed ? "" : place_of(entry);
    history_.events.push_back({{history_.events.size() + 1, static_cast<std::uint64_t>(*address),
                                static_cast<Bytes>(*bytes), freed},
                               time_us == 0 ? 0 : history_.last_time_us,
                               freed           ? "free"
                               : place.empty() ? "allocate"
                                               : "allocate " + place});
    return {};
  }

  const Pickle& pickle_;
  SnapshotHistory history_;
  std::unordered_map<Pickle::Id, std::string> places_;  // by list of frames
};

}  // namespace

Result<SnapshotHistory> read_snapshot_history(const Pickle& pickle) {
  return HistoryReader(pickle).run();
}

}  // namespace spillway
