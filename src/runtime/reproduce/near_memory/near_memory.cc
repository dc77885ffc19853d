// Which simulations there are, and what is asked of them. See near_memory.h.
#include "runtime/reproduce/near_memory/near_memory.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "runtime/reproduce/near_memory/near_memory_published.h"
#include "runtime/reproduce/rows.h"

namespace spillway::reproduce {
namespace {

namespace model = sim::near_memory;
using model::Gpt;
using model::HostCore;
using model::Iteration;
using model::KernelDesign;
using model::Platform;
using model::Updater;

constexpr double kMillion = 1e6;
constexpr double kGigabyte = 1e9;
constexpr NearLimit kTable5Limit{0.05, true};
constexpr NearLimit kTable6Limit{0.15, true};
constexpr NearLimit kSpeedupLimit{0.1, false};
constexpr int kSeeds = 2;  // where only differences are looked at

// Between looks at the progress: rates, table 5 and blocks, what they depend on; a model each of
// table 6, and what it depends on; today's parts.
constexpr std::size_t kSteps = 5 + 5;

class NearRun {
 public:
  explicit NearRun(const std::function<void(std::size_t)>& on_done) : on_done_(on_done) {}

  Result<NearStudy> run() {
    rates_ = model::paper_rates();
    done();
    table5();
    block_sizes();
    done();
    dram_sensitivity();
    done();
    if (Status status = table6(); !status) {
      return tl::unexpected<Error>(status.error());
    }
    if (Status status = training_sensitivity(); !status) {
      return tl::unexpected<Error>(status.error());
    }
    done();
    if (Status status = today(); !status) {
      return tl::unexpected<Error>(status.error());
    }
    done();
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

  void table5();
  void block_sizes();
  void dram_sensitivity();
  Status table6();
  Status training_sensitivity();
  Status today();

  struct Pair {
    Iteration baseline;
    Iteration device;
  };
  static Result<Pair> train(const Gpt& gpt, const Platform& baseline, const Platform& device);

  const std::function<void(std::size_t)>& on_done_;
  std::size_t done_ = 0;
  model::ChannelRates rates_;
  NearStudy study_;
};

void NearRun::table5() {
  begin("table 5", "Adam, all in memory");
  const std::array<double, 2> ours{rates_.core_per_s, 2 * rates_.kernel_per_s};
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const NearTable5Row& published = near_table5()[i];
    add(published.device, "update_mp_per_s", ours[i] / kMillion, published.measured_mp_per_s,
        kTable5Limit);
  }
}

void NearRun::block_sizes() {
  begin("section 3.4", "Block size and channels, million parameters a second");
  constexpr std::array<Bytes, 7> kKibibytes{1, 2, 4, 8, 16, 32, 64};
  for (const Bytes kib : kKibibytes) {
    KernelDesign design;
    design.block_bytes = kib * kKiB;
    const std::string subject = fmt::format("{} KiB", kib);
    const double one = model::mean_kernel_rate(model::axdimm_channel(), design, kSeeds) / kMillion;
    add(subject, "one_channel_mp_per_s", one);
    add(subject, "two_channels_mp_per_s", 2 * one);
    design.blocks_queued = 1;
    add(subject, "two_channels_single_buffer_mp_per_s",
        2 * model::mean_kernel_rate(model::axdimm_channel(), design, kSeeds) / kMillion);
  }
}

void NearRun::dram_sensitivity() {
  begin("table 5, chosen numbers", "What table 5 depends on, million parameters a second");
  const auto kernel = [&](std::string_view what, const model::DramTiming& timing,
                          const KernelDesign& design) {
    add(what, "update_mp_per_s", 2 * model::mean_kernel_rate(timing, design, kSeeds) / kMillion);
  };
  const auto design_with = [](auto change) {
    KernelDesign design;
    change(design);
    return design;
  };
  const model::DramTiming channel = model::axdimm_channel();
  kernel("AXDIMM: as modelled", channel, {});
  model::DramTiming other = channel;
  other.refi = other.refi * 1000;
  kernel("AXDIMM: no refresh", other, {});
  other = channel;
  other.rfc = other.rfc * 7 / 11;
  kernel("AXDIMM: refresh of 8 Gb chips, 350 ns", other, {});
  other = channel;
  other.bank_groups = 2;
  kernel("AXDIMM: chips of 16 data bits, 2 bank groups", other, {});
  kernel("AXDIMM: 1 burst known ahead, not 8", channel,
         design_with([](KernelDesign& design) { design.bursts_ahead = 1; }));
  kernel("AXDIMM: requests of 50 ns, not 100", channel,
         design_with([](KernelDesign& design) { design.port_cycles /= 2; }));
  kernel("AXDIMM: waits for nothing", channel,
         design_with([](KernelDesign& design) { design.order = model::PortOrder::kNothing; }));
  kernel("AXDIMM: waits after each block", channel,
         design_with([](KernelDesign& design) { design.order = model::PortOrder::kBlocks; }));
  kernel("AXDIMM: no reads for timing", channel,
         design_with([](KernelDesign& design) { design.read_every_ns = 1e9; }));

  const auto core = [&](std::string_view what, const model::DramTiming& timing,
                        const HostCore& host) {
    add(what, "update_mp_per_s", model::mean_core_rate(timing, host, kSeeds) / kMillion);
  };
  const auto host_with = [](auto change) {
    HostCore host;
    change(host);
    return host;
  };
  const model::DramTiming module = model::host_module();
  core("CPU: as modelled", module, {});
  core("CPU: results in place, no lines read to own them", module,
       host_with([](HostCore& host) { host.results = model::Results::kInPlace; }));
  core("CPU: 10 lines on their way, not 16", module,
       host_with([](HostCore& host) { host.lines_in_flight = 10; }));
  core("CPU: 32 lines on their way", module,
       host_with([](HostCore& host) { host.lines_in_flight = 32; }));
  core("CPU: 80 ns besides DRAM, not 50", module,
       host_with([](HostCore& host) { host.uncore_ns = 80; }));
  core("CPU: 16 writes gathered, not 32", module, host_with([](HostCore& host) {
         host.writes_queued = 16;
         host.writes_left = 8;
       }));
  other = module;
  other.rfc = other.rfc * 11 / 7;
  core("CPU: refresh of 16 Gb chips, 550 ns", other, {});
}

Result<NearRun::Pair> NearRun::train(const Gpt& gpt, const Platform& baseline,
                                     const Platform& device) {
  Result<Iteration> first = model::simulate_training(gpt, baseline);
  if (!first) {
    return tl::unexpected<Error>(first.error());
  }
  Result<Iteration> second = model::simulate_training(gpt, device);
  if (!second) {
    return tl::unexpected<Error>(second.error());
  }
  return Pair{std::move(*first), std::move(*second)};
}

double ratio_of(TimeNs baseline_ns, TimeNs device_ns) {
  return static_cast<double>(baseline_ns) / static_cast<double>(device_ns);
}

Status NearRun::table6() {
  begin("table 6", "One training iteration");
  for (std::size_t i = 0; i < near_table6().size(); ++i) {
    const NearTable6Row& published = near_table6()[i];
    Result<Pair> pair = train(model::make_gpt(model::paper_models()[i]),
                              model::paper_platform(Updater::kCpu, rates_),
                              model::paper_platform(Updater::kKernel, rates_));
    if (!pair) {
      return tl::unexpected<Error>(pair.error());
    }
    const auto side = [&](std::string_view name, const Iteration& ours,
                          const NearTable6Side& theirs) {
      add(published.model, fmt::format("{}_forward_s", name), to_seconds(ours.forward_ns),
          theirs.forward_s, kTable6Limit);
      add(published.model, fmt::format("{}_backward_s", name), to_seconds(ours.backward_ns),
          theirs.backward_s, kTable6Limit);
      add(published.model, fmt::format("{}_total_s", name), to_seconds(ours.total_ns()),
          theirs.total_s, kTable6Limit);
    };
    side("baseline", pair->baseline, published.baseline);
    side("device", pair->device, published.device);
    add(published.model, "backward_speedup",
        ratio_of(pair->baseline.backward_ns, pair->device.backward_ns), published.backward_speedup,
        kSpeedupLimit);
    add(published.model, "total_speedup",
        ratio_of(pair->baseline.total_ns(), pair->device.total_ns()), published.total_speedup,
        kSpeedupLimit);
    add(published.model, "nvme_peak_gb",
        static_cast<double>(pair->device.storage_peak_bytes) / kGigabyte, published.storage_peak_gb,
        kTable6Limit);
    if (i == 0) {
      study_.timeline = std::move(pair->device);
    }
    done();
  }
  return {};
}

Status NearRun::training_sensitivity() {
  begin("table 6, chosen numbers", "What table 6 depends on, seconds an iteration");
  struct Change {
    std::string_view what;
    void (*apply)(Platform& platform);
  };
  constexpr double kMore = 1.2;
  constexpr std::array<Change, 11> kChanges{{
      {"as modelled", [](Platform&) {}},
      {"GPU 20 % slower", [](Platform& platform) { platform.gpu_flop_per_s /= kMore; }},
      {"memory's link 20 % slower",
       [](Platform& platform) { platform.memory_bytes_per_s /= kMore; }},
      {"NVMe to GPU 20 % slower (fitted)",
       [](Platform& platform) { platform.storage_to_gpu_bytes_per_s /= kMore; }},
      {"NVMe to GPU 20 % faster (fitted)",
       [](Platform& platform) { platform.storage_to_gpu_bytes_per_s *= kMore; }},
      {"NVMe and memory 20 % slower",
       [](Platform& platform) {
         platform.storage_read_bytes_per_s /= kMore;
         platform.storage_write_bytes_per_s /= kMore;
       }},
      {"two requests to NVMe at once", [](Platform& platform) { platform.storage_requests = 2; }},
      {"CPU updates beside transfers",
       [](Platform& platform) { platform.exclusive = platform.updater == Updater::kKernel; }},
      {"a stream for each direction",
       [](Platform& platform) { platform.streams = model::Streams::kTwo; }},
      {"channels by size",
       [](Platform& platform) { platform.placement = model::Placement::kBySize; }},
      {"channels by size, a stream for each direction",
       [](Platform& platform) {
         platform.placement = model::Placement::kBySize;
         platform.streams = model::Streams::kTwo;
       }},
  }};
  constexpr std::array<std::size_t, 2> kShown{0, 4};  // the smallest and the largest
  for (const Change& change : kChanges) {
    Platform baseline = model::paper_platform(Updater::kCpu, rates_);
    Platform device = model::paper_platform(Updater::kKernel, rates_);
    change.apply(baseline);
    change.apply(device);
    for (const std::size_t i : kShown) {
      const Gpt gpt = model::make_gpt(model::paper_models()[i]);
      const Result<Pair> pair = train(gpt, baseline, device);
      if (!pair) {
        return tl::unexpected<Error>(pair.error());
      }
      const std::string_view name = i == 0 ? "large" : "13b";
      add(change.what, fmt::format("{}_baseline_s", name), to_seconds(pair->baseline.total_ns()));
      add(change.what, fmt::format("{}_device_s", name), to_seconds(pair->device.total_ns()));
      add(change.what, fmt::format("{}_speedup", name),
          ratio_of(pair->baseline.total_ns(), pair->device.total_ns()));
    }
  }
  return {};
}

Status NearRun::today() {
  begin("today", "Parts of today, GPT-3 13B, everything in memory, seconds an iteration");
  for (const model::TodaysParts& parts : model::todays_parts()) {
    for (const std::uint32_t batch : {1U, 8U}) {
      model::GptShape shape = model::paper_models().back();
      shape.batch = batch;
      const Result<Pair> pair = train(model::make_gpt(shape), parts.cpu, parts.near);
      if (!pair) {
        return tl::unexpected<Error>(pair.error());
      }
      const std::string subject = fmt::format("{}, batch {}", parts.name, batch);
      add(subject, "cpu_s", to_seconds(pair->baseline.total_ns()));
      add(subject, "near_s", to_seconds(pair->device.total_ns()));
      add(subject, "speedup", ratio_of(pair->baseline.total_ns(), pair->device.total_ns()));
    }
  }
  return {};
}

}  // namespace

std::optional<double> NearRow::ratio() const {
  return published ? std::optional(ours / *published) : std::nullopt;
}

Verdict NearRow::verdict() const {
  if (!published || !limit) {
    return Verdict::kNotAsked;
  }
  const double allowed = limit->distance * (limit->is_fraction ? *published : 1);
  return std::abs(ours - *published) <= allowed ? Verdict::kWithin : Verdict::kMiss;
}

std::size_t near_memory_steps() { return kSteps; }

Result<NearStudy> run_near_memory(const std::function<void(std::size_t)>& on_done) {
  return NearRun(on_done).run();
}

std::string near_rows_csv(std::span<const NearTable> tables) {
  std::string out = "table,subject,metric,published,ours,ratio,verdict\n";
  for (const NearTable& table : tables) {
    for (const NearRow& row : table.rows) {
      const auto number = [](const std::optional<double>& value) {
        return value ? fmt::format("{}", *value) : "";
      };
      out +=
          fmt::format("\"{}\",\"{}\",{},{},{},{},{}\n", row.table, row.subject, row.metric,
                      number(row.published), row.ours, number(row.ratio()), name_of(row.verdict()));
    }
  }
  return out;
}

std::string near_row_json(const NearRow& row) {
  const auto number = [](const std::optional<double>& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
  };
  return nlohmann::ordered_json{
      {"table", row.table},
      {"subject", row.subject},
      {"metric", row.metric},
      {"ours", row.ours},
      {"published", number(row.published)},
      {"ratio", number(row.ratio())},
      {"verdict", name_of(row.verdict())},
  }
      .dump();
}

}  // namespace spillway::reproduce
