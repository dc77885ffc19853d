// See trace_events.h.
#include "runtime/report/trace_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "engine/types.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kVersion = 3;
constexpr std::string_view kExtension = ".events";
constexpr std::array kWaits{"waits for host memory", "waits for storage", "waits for new memory",
                            "waits for room"};

std::string as_text(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// The first of several tracks on which nothing runs at that time any more: events of one track must
// not overlap. In the order of their beginnings.
class Lanes {
 public:
  std::size_t take(TimeNs begin_ns, TimeNs end_ns) {
    const auto free = std::find_if(ends_ns_.begin(), ends_ns_.end(),
                                   [&](TimeNs lane_ns) { return lane_ns <= begin_ns; });
    const auto lane = static_cast<std::size_t>(free - ends_ns_.begin());
    if (free == ends_ns_.end()) {
      ends_ns_.push_back(end_ns);
    } else {
      *free = end_ns;
    }
    return lane;
  }
  [[nodiscard]] std::size_t size() const { return ends_ns_.size(); }

 private:
  std::vector<TimeNs> ends_ns_;
};

// Written piece by piece: a run has hundreds of thousands.
class Timeline {
 public:
  Timeline(TimeNs zero_ns, std::string& out) : zero_ns_(zero_ns), out_(out) {}

  void name(std::string_view what, std::int64_t pid, std::size_t tid, const std::string& text) {
    put(fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}}}})", what, pid,
                    tid, as_text(text)));
  }
  void interval(std::string_view category, const std::string& quoted_name, std::int64_t pid,
                std::size_t tid, TimeNs begin_ns, TimeNs end_ns, const std::string& more) {
    put(fmt::format(
        R"({{"ph":"X","cat":"{}","name":{},"pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f}{}}})",
        category, quoted_name, pid, tid, to_us(begin_ns - zero_ns_),
        to_us(std::max<TimeNs>(end_ns - begin_ns, 0)), more));
  }

 private:
  void put(const std::string& event) {
    out_ += std::exchange(first_, false) ? "\n" : ",\n";
    out_ += event;
  }
  TimeNs zero_ns_;
  std::string& out_;
  bool first_ = true;
};

template <typename Event>
std::vector<Event> by_beginning(std::vector<Event> events) {
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return a.begin_ns < b.begin_ns; });
  return events;
}

// Tracks of a process: streams first, of which there are some thousands at most, then those of each
// route, then waits.
constexpr std::size_t kTracksOfRoute = 10'000;
constexpr std::size_t kTracksOfWaits = kTracksOfRoute * (1 + kTierCount * kTierCount);

class ProcessTimeline {
 public:
  ProcessTimeline(const ProcessEvents& process, Timeline& timeline)
      : process_(process), timeline_(timeline) {
    for (const std::string& name : process.events.names) {
      quoted_.push_back(as_text(name));
    }
  }

  void put() {
    timeline_.name("process_name", process_.pid, 0, process_.command);
    put_launches();
    put_transfers();
    put_waits();
  }

 private:
  [[nodiscard]] std::string name_of(LogRow row) const {
    return row < quoted_.size() ? quoted_[row] : std::string("\"no launch\"");
  }
  void put_launches() {
    std::vector<bool> named;
    for (const LoggedLaunch& launch : process_.events.launches) {
      if (launch.stream >= named.size()) {
        named.resize(launch.stream + std::size_t{1});
      }
      const std::size_t tid = launch.stream + std::size_t{1};
      if (!named[launch.stream]) {
        named[launch.stream] = true;
        timeline_.name("thread_name", process_.pid, tid,
                       fmt::format("launches of stream {}", launch.stream));
      }
      timeline_.interval("launch", name_of(launch.row), process_.pid, tid, launch.begin_ns,
                         launch.end_ns, ahead_of(launch));
    }
  }
  void put_transfers() {
    std::array<std::array<Lanes, kTierCount>, kTierCount> lanes;
    for (const LoggedTransfer& transfer : by_beginning(process_.events.transfers)) {
      const std::size_t from = index_of(transfer.from);
      const std::size_t to = index_of(transfer.to);
      Lanes& route = lanes[from][to];
      const std::size_t before = route.size();
      const std::size_t lane = route.take(transfer.begin_ns, transfer.end_ns);
      const std::size_t tid = kTracksOfRoute * (1 + from * kTierCount + to) + lane;
      const std::string name =
          fmt::format("{} to {}", name_of_tier(transfer.from), name_of_tier(transfer.to));
      if (route.size() > before) {
        timeline_.name("thread_name", process_.pid, tid, fmt::format("{} {}", name, lane + 1));
      }
      timeline_.interval("transfer", as_text(name), process_.pid, tid, transfer.begin_ns,
                         transfer.end_ns,
                         fmt::format(R"(,"args":{{"bytes":{},"queued_us":{:.1f}}})", transfer.bytes,
                                     to_us(transfer.begin_ns - transfer.asked_ns)));
    }
  }
  void put_waits() {
    Lanes lanes;
    for (const LoggedWait& wait : by_beginning(process_.events.waits)) {
      const std::size_t before = lanes.size();
      const std::size_t lane = lanes.take(wait.begin_ns, wait.end_ns);
      if (lanes.size() > before) {
        timeline_.name("thread_name", process_.pid, kTracksOfWaits + lane,
                       fmt::format("waits {}", lane + 1));
      }
      timeline_.interval("wait", as_text(kWaits.at(static_cast<std::size_t>(wait.what))),
                         process_.pid, kTracksOfWaits + lane, wait.begin_ns, wait.end_ns,
                         fmt::format(R"(,"args":{{"launch":{}}})", name_of(wait.row)));
    }
  }
  // How long before its beginning it was issued: nothing is ahead of a device that waits for its
  // program.
  static std::string ahead_of(const LoggedLaunch& launch) {
    const TimeNs ahead_ns = launch.begin_ns - launch.issued_ns;
    return ahead_ns <= 0 ? std::string()
                         : fmt::format(R"(,"args":{{"ahead_us":{:.1f}}})", to_us(ahead_ns));
  }
  static std::string_view name_of_tier(Tier tier) { return spillway::name_of(tier); }

  const ProcessEvents& process_;
  Timeline& timeline_;
  std::vector<std::string> quoted_;
};

LoggedEvents events_in(const json& object) {
  LoggedEvents events;
  events.names = object.at("names").get<std::vector<std::string>>();
  for (const json& one : object.at("launches")) {
    events.launches.push_back({.stream = one.at(0),
                               .row = one.at(1),
                               .issued_ns = one.at(2),
                               .begin_ns = one.at(3),
                               .end_ns = one.at(4)});
  }
  for (const json& one : object.at("transfers")) {
    events.transfers.push_back({.from = static_cast<Tier>(one.at(0).get<int>()),
                                .to = static_cast<Tier>(one.at(1).get<int>()),
                                .bytes = one.at(2),
                                .asked_ns = one.at(3),
                                .begin_ns = one.at(4),
                                .end_ns = one.at(5)});
  }
  for (const json& one : object.at("waits")) {
    events.waits.push_back({.row = one.at(0),
                            .what = static_cast<LoggedWait::For>(one.at(1).get<int>()),
                            .begin_ns = one.at(2),
                            .end_ns = one.at(3)});
  }
  events.dropped_launches = object.at("dropped").at(0);
  events.dropped_transfers = object.at("dropped").at(1);
  events.dropped_waits = object.at("dropped").at(2);
  return events;
}

}  // namespace

std::string events_file(const std::string& folder, std::int64_t pid) {
  return fmt::format("{}/{}{}", folder, pid, kExtension);
}

std::string to_json(const ProcessEvents& process) {
  const LoggedEvents& events = process.events;
  std::string text =
      fmt::format(R"({{"version":{},"pid":{},"command":{},"began_ns":{},"names":{})", kVersion,
                  process.pid, as_text(process.command), process.began_ns, as_text(events.names));
  const auto list = [&text](const char* key, const auto& all, const auto& one) {
    text += fmt::format(",\"{}\":[", key);
    for (std::size_t i = 0; i < all.size(); ++i) {
      text += i > 0 ? "," : "";
      text += one(all[i]);
    }
    text += "]";
  };
  list("launches", events.launches, [](const LoggedLaunch& it) {
    return fmt::format("[{},{},{},{},{}]", it.stream, it.row, it.issued_ns, it.begin_ns, it.end_ns);
  });
  list("transfers", events.transfers, [](const LoggedTransfer& it) {
    return fmt::format("[{},{},{},{},{},{}]", static_cast<int>(it.from), static_cast<int>(it.to),
                       it.bytes, it.asked_ns, it.begin_ns, it.end_ns);
  });
  list("waits", events.waits, [](const LoggedWait& it) {
    return fmt::format("[{},{},{},{}]", it.row, static_cast<int>(it.what), it.begin_ns, it.end_ns);
  });
  return text + fmt::format(",\"dropped\":[{},{},{}]}}", events.dropped_launches,
                            events.dropped_transfers, events.dropped_waits);
}

std::vector<ProcessEvents> read_process_events(const std::string& folder) {
  std::vector<ProcessEvents> all;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != kExtension) {
      continue;
    }
    std::ifstream file(entry.path(), std::ios::binary);
    const json object = json::parse(file, nullptr, false);
    try {
      if (object.at("version") == kVersion) {
        all.push_back({.pid = object.at("pid"),
                       .command = object.at("command"),
                       .began_ns = object.at("began_ns"),
                       .events = events_in(object)});
      }
    } catch (const json::exception&) {
      continue;  // its process was ended while it wrote
    }
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.pid < b.pid; });
  return all;
}

std::string timeline_json(const std::vector<ProcessEvents>& processes) {
  TimeNs zero_ns = std::numeric_limits<TimeNs>::max();
  std::uint64_t dropped_launches = 0;
  std::uint64_t dropped_transfers = 0;
  std::uint64_t dropped_waits = 0;
  for (const ProcessEvents& process : processes) {
    zero_ns = std::min(zero_ns, process.began_ns);
    dropped_launches += process.events.dropped_launches;
    dropped_transfers += process.events.dropped_transfers;
    dropped_waits += process.events.dropped_waits;
  }
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  Timeline timeline(zero_ns, text);
  for (const ProcessEvents& process : processes) {
    ProcessTimeline(process, timeline).put();
  }
  return text + fmt::format(
                    "\n],\"otherData\":{{\"dropped_launches\":{},\"dropped_transfers\":{},"
                    "\"dropped_waits\":{}}}}}\n",
                    dropped_launches, dropped_transfers, dropped_waits);
}

}  // namespace spillway
