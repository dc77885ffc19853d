// What a fault on a block in the host tier costs, beside the bare round trip of userfaultfd with
// the same copy of 2 MiB. A round is one touch of a byte on each side, in turn, so that noise hits
// all of them; the time is the touching thread's, from the touch to going on. Between rounds
// nothing moves.
#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/fault_side.h"
#include "bench/measure.h"
#include "platform/host/host_platform.h"
#include "policy/base_uvm.h"

namespace spillway::bench {
namespace {

constexpr Bytes kDeviceBytes = 32 * kMiB;
// Room for a copy of every block below: blocks that are only read keep theirs.
constexpr Bytes kHostBytes = 192 * kMiB;
constexpr double kGoal = 2.0;

// A space whose device holds a quarter of what is touched in turn, under base_uvm: every touch is a
// fault, and the block that came first goes.
class Paged final : public Side {
 public:
  struct Case {
    std::string name;
    bool writes = false;      // the touch makes the block dirty
    bool pre_evicts = false;  // ... and it is copied down before its frame is needed
  };

  static Result<std::unique_ptr<Side>> open(const Case& what) {
    auto paged = std::unique_ptr<Paged>(new Paged(what));
    host::HostOptions options;
    options.device_bytes = kDeviceBytes;
    options.host_bytes = kHostBytes;
    Result<std::unique_ptr<host::HostPlatform>> platform =
        host::HostPlatform::create(options, std::nullopt, paged->policy_);
    if (!platform) {
      return tl::unexpected<Error>(platform.error());
    }
    paged->platform_ = std::move(*platform);
    // An allocation a block, since hints are for whole allocations.
    for (std::uint64_t number = 0; number < kBlocks; ++number) {
      const Result<void*> block = paged->platform_->allocate(kBlockBytes);
      if (!block) {
        return tl::unexpected<Error>(block.error());
      }
      std::memset(*block, 1, kBlockBytes);
      std::memcpy(*block, &number, sizeof(number));
      paged->blocks_.push_back(static_cast<char*>(*block));
    }
    // Once round, so that what was written at the start has been copied out.
    for (std::size_t block = 0; block < kBlocks; ++block) {
      if (const Result<TimeNs> touched = paged->touch(block); !touched) {
        return tl::unexpected<Error>(touched.error());
      }
      paged->settle(block);
    }
    return paged;
  }

  Result<TimeNs> touch(std::size_t block) override {
    return timed_touch(blocks_[block], block, case_.writes);
  }
  void settle(std::size_t block) override {
    if (case_.pre_evicts) {
      platform_->pre_evict(blocks_[block], kBlockBytes, Tier::kHost);
    }
    platform_->wait_until_idle();
  }

  [[nodiscard]] Counts counts() const override {
    const ProgramStats stats = platform_->stats();
    return {.faults = stats.page_faults,
            .copied_out_bytes = stats.engine.moved(Tier::kDevice, Tier::kHost)};
  }

 private:
  explicit Paged(Case what) : Side(what.name), case_(std::move(what)) {}

  Case case_;
  BaseUvm policy_;  // outlives the platform
  std::unique_ptr<host::HostPlatform> platform_;
  std::vector<char*> blocks_;
};

struct Row {
  std::string name;
  std::vector<double> times_ns;
  double copied_out_per_fault_bytes = 0;
};

Result<std::vector<Row>> measure(std::size_t rounds) {
  std::vector<std::unique_ptr<Side>> sides;
  std::vector<Row> rows;
  std::vector<Side::Counts> before;
  const auto add = [&](Result<std::unique_ptr<Side>> side) -> Status {
    if (!side) {
      return tl::unexpected<Error>(side.error());
    }
    sides.push_back(std::move(*side));
    rows.push_back({.name = sides.back()->name(), .times_ns = {}});
    before.push_back(sides.back()->counts());
    return {};
  };
  Status added = add(Bare::open());
  for (const Paged::Case& one :
       {Paged::Case{.name = "clean: read, the victim has a copy below"},
        Paged::Case{
            .name = "room: written, copied down before", .writes = true, .pre_evicts = true},
        Paged::Case{.name = "dirty: written, the victim is copied out", .writes = true}}) {
    added = added ? add(Paged::open(one)) : added;
  }
  if (!added) {
    return tl::unexpected<Error>(added.error());
  }
  for (std::size_t round = 0; round < rounds; ++round) {
    const std::size_t block = round % kBlocks;
    for (std::size_t i = 0; i < sides.size(); ++i) {
      const Result<TimeNs> time_ns = sides[i]->touch(block);
      if (!time_ns) {
        return tl::unexpected<Error>(time_ns.error());
      }
      rows[i].times_ns.push_back(static_cast<double>(*time_ns));
      sides[i]->settle(block);
    }
  }
  for (std::size_t i = 0; i < sides.size(); ++i) {
    const Side::Counts after = sides[i]->counts();
    if (after.faults - before[i].faults != rounds) {
      return make_error(ErrorCode::kDefect, "{}: {} faults in {} rounds", rows[i].name,
                        after.faults - before[i].faults, rounds);
    }
    rows[i].copied_out_per_fault_bytes =
        static_cast<double>(after.copied_out_bytes - before[i].copied_out_bytes) /
        static_cast<double>(rounds);
  }
  return rows;
}

void print(const std::vector<Row>& rows, bool as_json) {
  const double bare_ns = median_of(rows.front().times_ns);
  nlohmann::json list = nlohmann::json::array();
  constexpr double kNsInUs = 1e3;
  if (!as_json) {
    fmt::print("{:42} {:>10} {:>10} {:>10} {:>14} {:>11}\n", "a fault on 2 MiB in the host tier",
               "median us", "p10 us", "p90 us", "copied out KiB", "ratio");
  }
  for (const Row& row : rows) {
    const double median_ns = median_of(row.times_ns);
    const double p10_ns = quantile_of(row.times_ns, 0.1);
    const double p90_ns = quantile_of(row.times_ns, 0.9);
    if (as_json) {
      list.push_back({{"name", row.name},
                      {"rounds", row.times_ns.size()},
                      {"median_ns", median_ns},
                      {"p10_ns", p10_ns},
                      {"p90_ns", p90_ns},
                      {"copied_out_per_fault_bytes", row.copied_out_per_fault_bytes},
                      {"ratio", median_ns / bare_ns}});
      continue;
    }
    fmt::print("{:42} {:10.1f} {:10.1f} {:10.1f} {:14.0f} {:11.2f}\n", row.name,
               median_ns / kNsInUs, p10_ns / kNsInUs, p90_ns / kNsInUs,
               row.copied_out_per_fault_bytes / static_cast<double>(kKiB), median_ns / bare_ns);
  }
  if (as_json) {
    fmt::print("{}\n", list.dump(2));
  } else {
    fmt::print(
        "ratio: of medians, to the bare one; the goal is at most {:.1f} where nothing has to "
        "be copied out\n",
        kGoal);
  }
}

int main_of_bench(int argc, char** argv) {
  CLI::App app("What a fault on a block in the host tier costs, beside bare userfaultfd",
               "fault_round_trip_bench");
  std::size_t rounds = 2000;
  bool as_json = false;
  app.add_option("--rounds", rounds, "Touches of each side")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_flag("--json", as_json, "Print JSON instead of a table");
  return main_of(app, argc, argv, [&]() -> Status {
    const Result<std::vector<Row>> rows = measure(rounds);
    if (!rows) {
      return tl::unexpected<Error>(rows.error());
    }
    print(*rows, as_json);
    return {};
  });
}

}  // namespace
}  // namespace spillway::bench

int main(int argc, char** argv) {
  return spillway::bench::guarded(spillway::bench::main_of_bench, argc, argv);
}
