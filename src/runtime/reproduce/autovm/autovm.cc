// Which simulations there are. See autovm.h.
#include "runtime/reproduce/autovm/autovm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace spillway::reproduce {
namespace {

constexpr NearLimit kTable62Limit{20, false};  // in percent of unified memory's time

// Table 6.2: percent faster, at a need of so many parts of the device's memory. The first of each
// network is the highest.
struct Published {
  ImageNetwork network;
  double need;
  double percent;
};
constexpr std::array<Published, 17> kTable62{{
    {ImageNetwork::kAlexNet, 1.06, 83.4},
    {ImageNetwork::kAlexNet, 0.5, -8.73},
    {ImageNetwork::kAlexNet, 1.0, 83.4},
    {ImageNetwork::kAlexNet, 1.5, 48.7},
    {ImageNetwork::kAlexNet, 2.0, 6.27},
    {ImageNetwork::kVgg19, 1.03, 153.4},
    {ImageNetwork::kVgg19, 0.5, -3.24},
    {ImageNetwork::kVgg19, 1.0, 153.4},
    {ImageNetwork::kVgg19, 1.5, 78.2},
    {ImageNetwork::kVgg19, 2.0, 41.4},
    {ImageNetwork::kVgg19, 2.5, 24.6},
    {ImageNetwork::kResNet152, 1.15, 79.0},
    {ImageNetwork::kResNet152, 0.5, -19.0},
    {ImageNetwork::kResNet152, 1.0, 22.8},
    {ImageNetwork::kResNet152, 1.5, 68.1},
    {ImageNetwork::kResNet152, 2.0, 20.0},
    {ImageNetwork::kResNet152, 2.5, 16.4},
}};

constexpr std::array kNeeds{0.25, 0.5, 0.75, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.25, 2.5};

// What the model depends on, each change alone.
struct Change {
  std::string_view what;
  void (*apply)(AutoVmSetup& setup);
};
constexpr std::array<Change, 9> kChanges{{
    {"as modelled", [](AutoVmSetup&) {}},
    {"working sets of operands alone (listing 3.4 to the letter)",
     [](AutoVmSetup& setup) { setup.policy.working_set = WorkingSet::kOperands; }},
    {"kernel times known (listing 3.3)",
     [](AutoVmSetup& setup) { setup.policy.timing = PrefetchTiming::kLate; }},
    {"every result leaves, whatever its size",
     [](AutoVmSetup& setup) { setup.policy.least_bytes = 1; }},
    {"the link at its rate each way at once",
     [](AutoVmSetup& setup) {
       setup.paging.link.both_ways_bytes_per_s = setup.managed.link.both_ways_bytes_per_s = 0;
     }},
    {"12 GB/s also while faults are handled",
     [](AutoVmSetup& setup) { setup.paging.link = setup.managed.link; }},
    {"a fault of 45 us for up to 32 blocks (G10)",
     [](AutoVmSetup& setup) {
       for (Machine* machine : {&setup.paging, &setup.managed}) {
         machine->faults.latency_ns = 45 * kNsPerUs;
         machine->faults.batch_blocks = 32;
       }
     }},
    {"full at a need of 0.8, where plain training ends",
     [](AutoVmSetup& setup) {
       constexpr Bytes kBlocks = 3719;  // 7.8 GB: 0.8 of 9.5 GB, and 3 % between tensors
       setup.paging.device.capacity_bytes = kBlocks * kBlockBytes;
       setup.managed.device.capacity_bytes = kBlocks * kBlockBytes;
     }},
    {"kernels by their rates alone", [](AutoVmSetup& setup) { setup.rates_alone = true; }},
}};
constexpr std::array kChangedNeeds{1.0, 1.5, 2.0};

constexpr double kThresholdNeed = 1.4;
constexpr std::array<Bytes, 8> kThresholds{1,          64 * kMiB,  128 * kMiB, 256 * kMiB,
                                           512 * kMiB, 768 * kMiB, kGiB,       2 * kGiB};

class AutoVmRun {
 public:
  explicit AutoVmRun(const std::function<void(std::size_t)>& on_done) : on_done_(on_done) {}

  Result<AutoVmStudy> run() {
    Result<AutoVmSetup> setup = autovm_setup();
    if (!setup) {
      return tl::unexpected<Error>(setup.error());
    }
    setup_ = std::move(*setup);
    for (const auto part : {&AutoVmRun::table62, &AutoVmRun::first_touches, &AutoVmRun::figures,
                            &AutoVmRun::thresholds, &AutoVmRun::changes}) {
      if (Status status = (this->*part)(); !status) {
        return tl::unexpected<Error>(status.error());
      }
    }
    return std::move(study_);
  }

 private:
  void done() { on_done_(++done_); }
  void begin(std::string name, std::string title) {
    study_.tables.push_back({std::move(name), std::move(title), {}});
  }
  void add(std::string_view subject, std::string_view metric, double ours,
           std::optional<double> published = std::nullopt,
           std::optional<NearLimit> limit = std::nullopt) {
    NearTable& table = study_.tables.back();
    table.rows.push_back(
        {table.name, std::string(subject), std::string(metric), ours, published, limit});
  }

  Status table62() {
    Result<NearTable> table = autovm_table62(setup_, [this] { done(); });
    if (!table) {
      return tl::unexpected<Error>(table.error());
    }
    study_.tables.push_back(std::move(*table));
    return {};
  }
  Status first_touches();
  Status figures();
  Status thresholds();
  Status changes();

  const std::function<void(std::size_t)>& on_done_;
  std::size_t done_ = 0;
  AutoVmSetup setup_;
  AutoVmStudy study_;
};

Status AutoVmRun::first_touches() {
  struct Row {
    std::string_view subject;
    FirstTouch how;
    double published_ms;
  };
  constexpr std::array<Row, 3> kRows{{
      {"K2 faults", FirstTouch::kFault, 1469},
      {"K2 behind pre-access", FirstTouch::kPreAccess, 1451},
      {"K2 behind offload and pre-access", FirstTouch::kOffloadAndPreAccess, 844},
  }};
  begin("section 4.2.4", "Three buffers of 4 GiB");
  for (const Row& row : kRows) {
    const Result<TimeNs> ours = first_touch_ns(setup_, row.how, 4 * kGiB);
    if (!ours) {
      return tl::unexpected<Error>(ours.error());
    }
    add(row.subject, "time_ms", to_seconds(*ours) * 1e3, row.published_ms);
  }
  done();
  return {};
}

Status AutoVmRun::figures() {
  for (const ImageNetwork network : kAutoVmNetworks) {
    begin(fmt::format("figure {}", network == ImageNetwork::kAlexNet ? "6.1"
                                   : network == ImageNetwork::kVgg19 ? "6.3"
                                                                     : "6.4"),
          fmt::format("{}, one training step", name_of(network)));
    for (const double need : kNeeds) {
      const Result<AutoVmTimes> times =
          autovm_times(setup_, network, batch_that_needs(setup_, network, need));
      if (!times) {
        return tl::unexpected<Error>(times.error());
      }
      study_.points.push_back({network, need, *times});
      const std::string subject = fmt::format("batch {}", times->batch_size);
      add(subject, "need", need);
      add(subject, "computing_s", to_seconds(times->compute_ns));
      add(subject, "unified_memory_s", to_seconds(times->paging_ns));
      add(subject, "autovm_s", to_seconds(times->autovm_ns));
      add(subject, "faster_percent", times->speedup_percent());
      done();
    }
  }
  return {};
}

Status AutoVmRun::thresholds() {
  begin("figure 6.7",
        fmt::format("AlexNet at a need of {}, by the smallest tensor that leaves", kThresholdNeed));
  const std::uint64_t batch = batch_that_needs(setup_, ImageNetwork::kAlexNet, kThresholdNeed);
  AutoVmSetup setup = setup_;
  for (const Bytes least_bytes : kThresholds) {
    setup.policy.least_bytes = least_bytes;
    const Result<AutoVmTimes> times = autovm_times(setup, ImageNetwork::kAlexNet, batch);
    if (!times) {
      return tl::unexpected<Error>(times.error());
    }
    study_.thresholds.push_back({least_bytes, times->autovm_ns});
    add(format_bytes(least_bytes), "autovm_s", to_seconds(times->autovm_ns));
    done();
  }
  const Result<AutoVmTimes> tuned = autovm_times(setup_, ImageNetwork::kAlexNet, batch);
  if (!tuned) {
    return tl::unexpected<Error>(tuned.error());
  }
  add("tunes itself", "autovm_s", to_seconds(tuned->autovm_ns));
  done();
  return {};
}

Status AutoVmRun::changes() {
  begin("table 6.2, chosen", "What table 6.2 depends on, percent faster");
  for (const Change& change : kChanges) {
    AutoVmSetup setup = setup_;
    change.apply(setup);
    for (const ImageNetwork network : kAutoVmNetworks) {
      for (const double need : kChangedNeeds) {
        const Result<AutoVmTimes> times =
            autovm_times(setup, network, batch_that_needs(setup, network, need));
        if (!times) {
          return tl::unexpected<Error>(times.error());
        }
        add(change.what, fmt::format("{}_{:.1f}", name_of(network), need),
            times->speedup_percent());
      }
      done();
    }
  }
  return {};
}

plot::XySeries line(std::string name, bool dashed) {
  return {.name = std::move(name),
          .x = {},
          .y = {},
          .mark = plot::Mark::kLinePoints,
          .color = std::nullopt,
          .dashed = dashed};
}

}  // namespace

Result<NearTable> autovm_table62(const AutoVmSetup& setup, const std::function<void()>& on_done) {
  NearTable table{
      "table 6.2", "Faster than unified memory alone, by the memory that is needed", {}};
  for (const Published& published : kTable62) {
    const Result<AutoVmTimes> times = autovm_times(
        setup, published.network, batch_that_needs(setup, published.network, published.need));
    if (!times) {
      return tl::unexpected<Error>(times.error());
    }
    table.rows.push_back(
        {table.name, fmt::format("{}, need {}", name_of(published.network), published.need),
         "faster_percent", times->speedup_percent(), published.percent, kTable62Limit});
    on_done();
  }
  return table;
}

std::size_t autovm_steps() {
  return kTable62.size() + 1 + kAutoVmNetworks.size() * (kNeeds.size() + kChanges.size()) +
         kThresholds.size() + 1;
}

Result<AutoVmStudy> run_autovm(const std::function<void(std::size_t)>& on_done) {
  return AutoVmRun(on_done).run();
}

plot::Figure autovm_figure(const AutoVmStudy& study, ImageNetwork network) {
  plot::XyChart times;
  times.x = {.label = "batch size", .log = false, .min = 0, .max = std::nullopt};
  times.y = {.label = "training step, s", .log = true, .min = std::nullopt, .max = std::nullopt};
  times.series = {line("no virtual memory", false), line("unified memory", false),
                  line("AutoVM", false)};
  plot::XyChart speedups;
  speedups.x = times.x;
  speedups.y = {.label = "AutoVM: times as fast", .log = false, .min = 0, .max = std::nullopt};
  speedups.series = {line("speed-up", false), line("memory needed, parts of the device", true)};
  for (const AutoVmPoint& point : study.points) {
    if (point.network != network) {
      continue;
    }
    const auto batch = static_cast<double>(point.times.batch_size);
    const auto put = [batch](plot::XySeries& series, double y) {
      series.x.push_back(batch);
      series.y.push_back(y);
    };
    if (point.times.fits) {
      put(times.series[0], to_seconds(point.times.compute_ns));
    }
    put(times.series[1], to_seconds(point.times.paging_ns));
    put(times.series[2], to_seconds(point.times.autovm_ns));
    put(speedups.series[0], 1 + point.times.speedup_percent() / 100);
    put(speedups.series[1], point.need);
  }
  plot::Figure figure;
  figure.title = fmt::format("AutoVM: {}, ours", name_of(network));
  figure.columns = 2;
  figure.panels = {std::move(times), std::move(speedups)};
  return figure;
}

plot::Figure autovm_threshold_figure(const AutoVmStudy& study) {
  plot::XyChart chart;
  chart.x = {
      .label = "smallest tensor that leaves, MiB", .log = false, .min = 0, .max = std::nullopt};
  chart.y = {.label = "training step, s", .log = false, .min = 0, .max = std::nullopt};
  chart.series = {line("AutoVM", false)};
  chart.legend = false;
  for (const AutoVmThreshold& threshold : study.thresholds) {
    chart.series[0].x.push_back(static_cast<double>(threshold.least_bytes) /
                                static_cast<double>(kMiB));
    chart.series[0].y.push_back(to_seconds(threshold.autovm_ns));
  }
  plot::Figure figure;
  figure.title = "AutoVM figure 6.7: AlexNet by the threshold, ours";
  figure.panels = {std::move(chart)};
  return figure;
}

}  // namespace spillway::reproduce
