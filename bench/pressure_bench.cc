// What a training step that does not fit its budget costs, without a GPU: a step of GPT-2 XL as
// PyTorch issues it (bf16 autocast, 6 x 1024, fused AdamW, attention in one kernel) on the CUDA
// platform, on the fake driver, whose calls, copies and kernels take what they take on an H200
// (docs/gpu.md) and move nothing. What is measured is ours: how well the link is used while the
// device waits, and what stands in the way. Kernels sleep and wake late, so that a plain step here
// takes half as long again as there; ratios between two builds on one machine are what counts.
#include <fmt/format.h>
#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/measure.h"
#include "fake_cuda.h"
#include "machine/machine.h"
#include "platform/cuda/cuda_platform.h"
#include "policy/learned_plan.h"
#include "policy/registry.h"
#include "runtime/cuda/device_heap.h"
#include "runtime/cuda/device_planner.h"
#include "trace/trace.h"

namespace spillway::cuda {
namespace {

using bench::now_ns;

// --- The device ---------------------------------------------------------------------------------

constexpr double kLinkBytesPerS = 50e9;  // each way, both busy
constexpr double kMemoryBytesPerS = 3.5e12;
constexpr double kFlopsPerS = 500e12;
constexpr TimeNs kShortestKernelNs = 3'000;
constexpr std::size_t kWords = 48;  // of a kernel's parameters: its time, then addresses

// All times so many times as long: on a machine that others use as well, what waiting for a
// processor takes then counts less.
FakeCudaConfig device_like_an_h200(int slower) {
  FakeCudaConfig config;
  fake_cuda_default_config(&config);
  config.device_bytes = 140 * kGiB;
  config.poison_handles = 0;
  config.copies_move_nothing = 1;
  config.stuck_after_ns = 60'000'000'000;
  config.copy_ns = 8'000;
  config.copy_bytes_per_s = kLinkBytesPerS / slower;
  config.create_ns = 10'000;
  config.release_ns = 20'000;
  config.access_ns = 35'000;
  config.access_waits_ns = 560'000;
  config.unmap_ns = 22'000;
  for (std::int64_t* const time_ns :
       {&config.copy_ns, &config.create_ns, &config.release_ns, &config.access_ns,
        &config.access_waits_ns, &config.unmap_ns}) {
    *time_ns *= slower;
  }
  return config;
}

std::uint64_t word_of(const FakeCudaLaunch* launch, std::size_t index) {
  std::uint64_t word = 0;
  std::memcpy(&word, static_cast<const char*>(launch->parameters) + 8 * index, sizeof word);
  return word;
}

// Takes its time. The driver checks that each of its addresses has memory when it begins.
CuFunction make_kernel() {
  std::array<std::size_t, kWords> offsets{};
  std::array<std::size_t, kWords> bytes{};
  for (std::size_t i = 0; i < kWords; ++i) {
    offsets[i] = 8 * i;
    bytes[i] = 8;
  }
  const FakeCudaKernel kernel{
      "compute",
      offsets.data(),
      bytes.data(),
      kWords,
      [](const FakeCudaLaunch* launch) {
        std::this_thread::sleep_for(std::chrono::nanoseconds(word_of(launch, 0)));
      },
      nullptr};
  return static_cast<CuFunction>(fake_cuda_register_kernel(&kernel));
}

// --- The program --------------------------------------------------------------------------------

struct Options {
  std::string policy = "lookahead";
  int percent = 50;  // of what is alive at its highest
  int steps = 3;
  int layers = 48;
  int slower = 1;
  bool reads_known = false;
};

constexpr Bytes kWidth = 1600;
constexpr Bytes kTokens = Bytes{6} * 1024;
constexpr Bytes kVocabulary = 50257;

class Program {
 public:
  Program(const Driver& driver, const Options& options, Bytes budget_bytes)
      : driver_(driver), options_(options), kernel_(make_kernel()) {
    const PolicyInfo& info = **find_policy(options.policy);
    if (info.plan != nullptr) {
      auto planner = std::make_unique<DevicePlanner>(info, PolicyOptions{});
      planner_ = planner.get();
      auto learned = std::make_unique<LearnedPlan>(info.name, std::move(planner), Tier::kHost);
      learned_ = learned.get();
      policy_ = std::move(learned);
    } else {
      policy_ = *info.make(Trace{}, Machine{}, PolicyOptions{});
    }
    CudaOptions made;
    made.device_bytes = budget_bytes / kBlockBytes * kBlockBytes;
    made.host_bytes = 64 * kGiB;
    made.on_fatal = [](const Error& error) { fatal(error.message); };
    Result<std::unique_ptr<CudaPlatform>> platform =
        CudaPlatform::create(driver, made, std::nullopt, *policy_);
    if (!platform) {
      fatal(platform.error().message);
    }
    platform_ = std::move(*platform);
    if (planner_ != nullptr) {
      planner_->serve(*platform_);
    }
    heap_ = std::make_unique<DeviceHeap>(*platform_);
    (void)driver_.stream_create(&on_, kCuStreamNonBlocking, 0);
    build();
  }
  ~Program() {
    parameters_.clear();
    synchronize();
    if (planner_ != nullptr) {
      planner_->finish();
    }
    heap_.reset();
    platform_.reset();
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void step() {
    issuing_since_ns_ = now_ns();
    issued_ = 0;
    forward_and_backward();
    optimize();
    synchronize();
  }

  [[nodiscard]] const CudaPlatform& platform() const { return *platform_; }
  // Between two steps; 0 for policies without plans, and before there is one.
  [[nodiscard]] std::size_t plan_launches() const {
    return learned_ == nullptr ? 0 : learned_->plan_launches();
  }
  [[nodiscard]] std::uint64_t plans() const { return learned_ == nullptr ? 0 : learned_->plans(); }
  [[nodiscard]] Bytes high_bytes() const { return heap_->usage().used_high_bytes; }

 private:
  struct Tensor {
    Program* in = nullptr;
    std::uint64_t address = 0;
    Bytes bytes = 0;
    Tensor(Program* owner, std::uint64_t at, Bytes size) : in(owner), address(at), bytes(size) {}
    Tensor(const Tensor&) = delete;
    Tensor& operator=(const Tensor&) = delete;
    ~Tensor() { in->heap_->free(address, in->on_); }
  };
  using Held = std::shared_ptr<Tensor>;
  struct Parameter {
    Held value, first, second, gradient;
  };
  // Of one layer, as the backward pass needs it.
  struct Saved {
    Held x, n1, w_qkv, qkv, att, w_o, mid, n2, w_up, up, gelu, w_down;
  };

  [[noreturn]] static void fatal(const std::string& line) {
    std::fprintf(stderr, "pressure_bench: %s\n", line.c_str());
    std::exit(EXIT_FAILURE);
  }

  Held make(Bytes bytes) {
    const Result<std::uint64_t> address = heap_->allocate(bytes, on_);
    if (!address) {
      fatal(address.error().message);
    }
    return std::make_shared<Tensor>(this, *address, bytes);
  }

  // The first `written` of these are written, as far as anybody tells us.
  void launch(const char* name, const std::vector<Held>& tensors, double flops = 0,
              std::size_t written = 1) {
    std::vector<CudaOperand> operands;
    std::vector<LaunchOperand> identity;
    std::array<std::uint64_t, kWords> words{};
    std::array<void*, kWords> pointers{};
    Bytes bytes = 0;
    for (const Held& it : tensors) {
      const bool reads = options_.reads_known && operands.size() >= written;
      operands.push_back({.address = it->address,
                          .bytes = it->bytes,
                          .mode = reads ? AccessMode::kRead : AccessMode::kReadWrite});
      identity.push_back({.allocation = it->address, .bytes = it->bytes});
      words.at(operands.size()) = it->address;
      bytes += it->bytes;
    }
    words[0] = static_cast<std::uint64_t>(
        options_.slower *
        std::max(static_cast<double>(kShortestKernelNs),
                 1e9 * (flops / kFlopsPerS + static_cast<double>(bytes) / kMemoryBytesPerS)));
    for (std::size_t i = 0; i < kWords; ++i) {
      pointers[i] = &words[i];
    }
    const std::uint64_t number = platform_->before_launch(
        {.stream = on_, .hash = hash_launch(name, identity), .name = name, .operands = operands});
    const CuResult made =
        driver_.launch_kernel(kernel_, 1, 1, 1, 1, 1, 1, 0, on_, pointers.data(), nullptr);
    platform_->after_launch(number, made == CuResult::kSuccess);
    if (made != CuResult::kSuccess) {
      fatal("a launch was refused");
    }
    keep_pace();
  }
  // PyTorch takes 80 us of the processor for what is one launch here.
  void keep_pace() {
    constexpr TimeNs kEachNs = 80'000;
    constexpr int kTogether = 16;
    if (++issued_ % kTogether == 0) {
      const TimeNs left_ns = issuing_since_ns_ + issued_ * options_.slower * kEachNs - now_ns();
      if (left_ns > 0) {
        std::this_thread::sleep_for(std::chrono::nanoseconds(left_ns));
      }
    }
  }
  Held computed(const char* name, Bytes bytes, std::vector<Held> from, double flops = 0) {
    Held made = make(bytes);
    from.insert(from.begin(), made);
    launch(name, from, flops);
    return made;
  }

  void build() {
    const auto add = [this](Bytes elements) {
      parameters_.push_back(
          {.value = make(4 * elements), .first = {}, .second = {}, .gradient = {}});
      launch("initialize", {parameters_.back().value});
    };
    add(kVocabulary * kWidth);
    for (int i = 0; i < options_.layers; ++i) {
      add(3 * kWidth * kWidth);
      add(kWidth * kWidth);
      add(4 * kWidth * kWidth);
      add(4 * kWidth * kWidth);
      add(12 * kWidth);  // biases and norms
    }
  }

  static constexpr Bytes kRow = 2 * kTokens * kWidth;  // in half precision
  static double flops(Bytes columns) {
    return 2.0 * static_cast<double>(kTokens) * static_cast<double>(kWidth) *
           static_cast<double>(columns);
  }

  Held cast(const Parameter& p) { return computed("cast", p.value->bytes / 2, {p.value}); }
  Held forward(Saved& s, const Held& x, std::size_t first) {
    const Parameter* const p = &parameters_[first];
    s.x = x;
    s.n1 = computed("norm", kRow, {x, p[4].value});
    s.w_qkv = cast(p[0]);
    s.qkv = computed("addmm", 3 * kRow, {s.n1, s.w_qkv, p[4].value}, flops(3 * kWidth));
    s.att = computed("attention", kRow, {s.qkv}, flops(2 * 1024));
    s.w_o = cast(p[1]);
    const Held o = computed("addmm", kRow, {s.att, s.w_o, p[4].value}, flops(kWidth));
    s.mid = computed("add", 2 * kRow, {x, o});
    s.n2 = computed("norm", kRow, {s.mid, p[4].value});
    s.w_up = cast(p[2]);
    s.up = computed("addmm", 4 * kRow, {s.n2, s.w_up, p[4].value}, flops(4 * kWidth));
    s.gelu = computed("gelu", 4 * kRow, {s.up});
    s.w_down = cast(p[3]);
    const Held down = computed("addmm", kRow, {s.gelu, s.w_down, p[4].value}, flops(4 * kWidth));
    return computed("add", 2 * kRow, {s.mid, down});
  }

  void gradient(Parameter& p, const Held& d, const Held& input, double work) {
    const Held half = computed("mm", p.value->bytes / 2, {d, input}, work);
    p.gradient = computed("cast", p.value->bytes, {half});
  }
  Held sum_of(const Held& d) { return computed("sum", 8 * kWidth, {d}); }

  Held backward(Saved s, Held d, std::size_t first) {
    Parameter* const p = &parameters_[first];
    Held half = computed("cast", kRow, {d});
    Held d_gelu = computed("mm", 4 * kRow, {half, s.w_down}, flops(4 * kWidth));
    gradient(p[3], half, s.gelu, flops(4 * kWidth));
    sum_of(half);
    Held d_up = computed("gelu_backward", 4 * kRow, {d_gelu, s.up});
    d_gelu.reset();
    s.gelu.reset();
    s.up.reset();
    Held d_n = computed("mm", kRow, {d_up, s.w_up}, flops(4 * kWidth));
    gradient(p[2], d_up, s.n2, flops(4 * kWidth));
    sum_of(d_up);
    d_up.reset();
    Held d_mid = computed("norm_backward", 2 * kRow, {d_n, s.mid, p[4].value});
    sum_of(d_n);
    d = computed("add", 2 * kRow, {d, d_mid});
    d_mid.reset();
    s.mid.reset();
    half = computed("cast", kRow, {d});
    Held d_att = computed("mm", kRow, {half, s.w_o}, flops(kWidth));
    gradient(p[1], half, s.att, flops(kWidth));
    Held d_qkv =
        computed("attention_backward", 3 * kRow, {d_att, s.qkv, s.att}, 2.5 * flops(2 * 1024));
    d_att.reset();
    s.qkv.reset();
    d_n = computed("mm", kRow, {d_qkv, s.w_qkv}, flops(3 * kWidth));
    gradient(p[0], d_qkv, s.n1, flops(3 * kWidth));
    d_qkv.reset();
    Held d_x = computed("norm_backward", 2 * kRow, {d_n, s.x, p[4].value});
    p[4].gradient = computed("sum", p[4].value->bytes, {d_n});
    return computed("add", 2 * kRow, {d, d_x});
  }

  void forward_and_backward() {
    std::vector<Saved> saved(static_cast<std::size_t>(options_.layers));
    Held x = computed("embedding", 2 * kRow, {parameters_[0].value});
    for (std::size_t i = 0; i < saved.size(); ++i) {
      x = forward(saved[i], x, 1 + 5 * i);
    }
    const Bytes logits_bytes = 2 * kTokens * kVocabulary;
    Held w = cast(parameters_[0]);
    Held logits = computed("mm", logits_bytes, {x, w}, flops(kVocabulary));
    Held single = computed("cast", 2 * logits_bytes, {logits});
    logits.reset();
    Held logs = computed("log_softmax", 2 * logits_bytes, {single});
    single.reset();
    Held d_single = computed("log_softmax_backward", 2 * logits_bytes, {logs});
    logs.reset();
    Held d_logits = computed("cast", logits_bytes, {d_single});
    d_single.reset();
    Held d16 = computed("mm", kRow, {d_logits, w}, flops(kVocabulary));
    w.reset();
    gradient(parameters_[0], d_logits, x, flops(kVocabulary));
    d_logits.reset();
    x.reset();
    Held d = computed("cast", 2 * kRow, {d16});
    d16.reset();
    for (std::size_t i = saved.size(); i-- > 0;) {
      d = backward(std::move(saved[i]), std::move(d), 1 + 5 * i);
    }
    launch("embedding_backward", {parameters_[0].gradient, d});
  }

  // A few parameters in each launch.
  void optimize() {
    constexpr std::size_t kTogether = 5;
    for (Parameter& p : parameters_) {
      if (p.first == nullptr) {
        p.first = computed("zeros", p.value->bytes, {});
        p.second = computed("zeros", p.value->bytes, {});
      }
    }
    for (std::size_t i = 0; i < parameters_.size(); i += kTogether) {
      std::vector<Held> used;
      const std::size_t end = std::min(i + kTogether, parameters_.size());
      for (std::size_t j = i; j < end; ++j) {
        const Parameter& p = parameters_[j];
        used.insert(used.end(), {p.value, p.first, p.second});
      }
      for (std::size_t j = i; j < end; ++j) {
        used.push_back(parameters_[j].gradient);
      }
      launch("adamw", used, 0, 3 * (end - i));
    }
    for (Parameter& p : parameters_) {
      p.gradient.reset();
    }
  }

  void synchronize() const {
    platform_->before_wait(on_);
    (void)driver_.stream_synchronize(on_);
    platform_->after_wait(on_);
  }

  Driver driver_;
  Options options_;
  CuFunction kernel_;
  std::unique_ptr<Policy> policy_;
  DevicePlanner* planner_ = nullptr;  // the policy's, where it plans
  LearnedPlan* learned_ = nullptr;    // the policy, likewise
  std::unique_ptr<CudaPlatform> platform_;
  std::unique_ptr<DeviceHeap> heap_;
  CuStream on_ = nullptr;
  std::vector<Parameter> parameters_;
  TimeNs issuing_since_ns_ = 0;
  int issued_ = 0;
};

FakeCudaCounters counters() {
  FakeCudaCounters all;
  fake_cuda_counters(&all);
  return all;
}

Status run(const Options& options) {
  // Sleeps of microseconds are to be just that, in every thread that starts from here.
  ::prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  if (const Result<const PolicyInfo*> known = find_policy(options.policy); !known) {
    return tl::unexpected<Error>(known.error());
  }
  const FakeCudaConfig config = device_like_an_h200(options.slower);
  fake_cuda_reset(&config);
  const Result<Driver> driver = open_driver(FAKE_CUDA_LIBRARY);
  if (!driver) {
    return tl::unexpected<Error>(driver.error());
  }
  CuContext primary = nullptr;
  (void)driver->init(0);
  (void)driver->primary_context_retain(&primary, 0);
  (void)driver->context_set_current(primary);
  // What is alive at the highest: layers' states and activations, and the first and last layer.
  constexpr Bytes kLayerBytes = 780 * kMiB;
  constexpr Bytes kOtherBytes = 2900 * kMiB;
  const Bytes peak_bytes = static_cast<Bytes>(options.layers) * kLayerBytes + kOtherBytes;
  const Bytes budget_bytes = peak_bytes * static_cast<Bytes>(options.percent) / 100;
  {
    Program program(*driver, options, budget_bytes);
    program.step();  // the optimizer's states come with the first
    for (int i = 0; i < options.steps; ++i) {
      const ProgramStats before = program.platform().stats();
      const FakeCudaCounters seen = counters();
      const std::vector<CudaPlatform::Work> worked = program.platform().work();
      const TimeNs begin_ns = now_ns();
      program.step();
      const TimeNs took_ns = (now_ns() - begin_ns) / options.slower;
      const ProgramStats after = program.platform().stats();
      const FakeCudaCounters now = counters();
      const auto in = static_cast<double>(after.engine.moved(Tier::kHost, Tier::kDevice) -
                                          before.engine.moved(Tier::kHost, Tier::kDevice));
      const auto out = static_cast<double>(after.engine.moved(Tier::kDevice, Tier::kHost) -
                                           before.engine.moved(Tier::kDevice, Tier::kHost));
      const TimeNs stalled_ns = (after.stalled_ns - before.stalled_ns) / options.slower;
      fmt::print(
          "{} {} %, plan {} of {} launches: {:.0f} ms; {:.2f} GB in, {:.2f} out, {:.1f} and {:.1f} "
          "GB/s; stalled "
          "{:.0f} "
          "ms; "
          "{} copies in, {} out; handles made {}, mapped {}; gates waited at {}; processor {:.0f} "
          "ms; high {}\n",
          options.policy, options.percent, program.plans(), program.plan_launches(),
          to_seconds(took_ns) * 1e3, in / 1e9, out / 1e9, bench::per_s(in / 1e9, took_ns),
          bench::per_s(out / 1e9, took_ns), to_seconds(stalled_ns) * 1e3,
          now.copies_in - seen.copies_in, now.copies_out - seen.copies_out,
          now.creates - seen.creates, now.maps - seen.maps, now.gates_waited - seen.gates_waited,
          to_seconds(after.processor_ns - before.processor_ns) * 1e3,
          format_bytes(program.high_bytes()));
      const EngineStats did = difference(after.engine, before.engine);
      fmt::print(
          "    {} faults, {} prefetched, {} used, {} late, {} wasted; {} evictions, {} ahead, {} "
          "cancelled\n",
          did.faults, did.prefetched, did.prefetches_used, did.late_prefetches,
          did.prefetches_wasted, did.evictions, did.pre_evictions, did.cancelled_evictions);
      for (std::size_t j = 0; j < worked.size(); ++j) {
        const CudaPlatform::Work work = program.platform().work()[j];
        fmt::print("{}{} {} {:.0f} ms", j == 0 ? "    " : ", ", work.name,
                   work.count - worked[j].count,
                   to_seconds((work.time_ns - worked[j].time_ns) / options.slower) * 1e3);
      }
      fmt::print("\n");
      std::fflush(stdout);
    }
  }
  if (fake_cuda_violations() > 0) {
    std::array<char, 512> text{};
    (void)fake_cuda_violation(0, text.data(), text.size());
    return make_error(ErrorCode::kDefect, "the driver's rules were broken: {}", text.data());
  }
  return {};
}

int main_of(int argc, char** argv) {
  Options options;
  CLI::App app("A step of GPT-2 XL that does not fit its budget, on the fake driver.",
               "pressure_bench");
  app.add_option("--policy", options.policy, "Where it plans, its plan comes after some steps")
      ->capture_default_str();
  app.add_option("--percent", options.percent, "The budget, of what is alive at its highest")
      ->capture_default_str();
  app.add_option("--steps", options.steps, "Besides the first")->capture_default_str();
  app.add_option("--layers", options.layers)->capture_default_str();
  app.add_option(
         "--slower", options.slower,
         "Everything on the device takes so many times as long, and is told divided by that")
      ->capture_default_str();
  app.add_flag("--reads-known", options.reads_known, "As if what is only read were known");
  return bench::main_of(app, argc, argv, [&] { return run(options); });
}

}  // namespace
}  // namespace spillway::cuda

int main(int argc, char** argv) {
  return spillway::bench::guarded(spillway::cuda::main_of, argc, argv);
}
