// What a random run leaves: what was seen, and what was wrong. See docs/testing.md.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "engine/engine.h"

namespace spillway::sim {

struct RunResult {
  std::uint64_t events = 0;
  std::uint64_t hash = 14695981039346656037U;  // of everything that can be seen after every event
  std::uint64_t stuck = 0;                     // times that the program ran out of memory
  std::size_t launches_in_flight_most = 0;
  std::uint64_t touches = 0;     // by threads that had to stop
  std::uint64_t plans = 0;       // that were made at run time
  std::optional<Error> gave_up;  // too many failures in a row, as it should
  EngineStats stats;
  std::string problem;              // empty: none
  std::deque<std::string> history;  // the last actions before it

  // Only what went wrong first counts.
  void fail(const std::string& what) {
    if (problem.empty()) {
      problem = fmt::format("after {} events: {}", events, what);
    }
  }

  void note(TimeNs at_ns, std::string_view line) {
    history.push_back(fmt::format("event {} at {} ns: {}", events, at_ns, line));
    if (history.size() > 24) {
      history.pop_front();
    }
  }

  // What can be seen after an event becomes part of the hash.
  void add(TimeNs at_ns, std::size_t running_launches, const Engine& engine) {
    add(static_cast<std::uint64_t>(at_ns));
    add(running_launches);
    add(engine.transfers_in_flight());
    for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kStorage}) {
      add(engine.used_bytes(tier));
      for (const Tier to : {Tier::kDevice, Tier::kHost, Tier::kStorage}) {
        add(engine.stats().moved(tier, to));
      }
    }
    add(engine.stats().evictions);
    add(engine.stats().faults);
    add(engine.stats().zeroed);
    add(engine.stats().saved_by_discard_bytes);
    add(engine.stats().failed_transfers);
  }

 private:
  void add(std::uint64_t value) { hash = (hash ^ value) * 1099511628211U; }
};

}  // namespace spillway::sim
