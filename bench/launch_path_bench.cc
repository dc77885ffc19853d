// What a launch, an allocation and a free cost the program's thread under the interposer, without a
// GPU: the look-up of operands, the heap, the CUDA platform and its driver thread, on a driver
// whose calls do nothing. As PyTorch does it: 1,500 to 5,000 allocations of mixed sizes are alive,
// each launch comes with an allocation and a free on the null stream, memory lives for four
// launches, and the device is 300 launches behind. Everything fits. Now and then a launch of an
// optimizer, with 65 operands among 430 words, most of the others addresses that are nobody's. And
// a graph of 500 kernels with three operands each, again and again.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "bench/measure.h"
#include "heap/device_heap.h"
#include "interpose/cuda/graphs/graph_launch_use.h"
#include "interpose/cuda/memory/mapped_memory.h"
#include "interpose/cuda/operands/operands.h"
#include "interpose/cuda/operands/pointer_tables.h"
#include "interpose/cuda/recording.h"
#include "machine/machine.h"
#include "platform/cuda/cuda_platform.h"
#include "policy/registry.h"
#include "trace/trace.h"

namespace spillway::cuda {

// Nothing is recorded, and nobody maps memory.
namespace detail {
constinit std::atomic<Recording*> the_recording{nullptr};
}
MappedMemory& MappedMemory::of_program() {
  static MappedMemory none;
  return none;
}

// The session's; here nobody says anything.
void say_once(std::atomic<bool>& /*told*/, std::string_view /*line*/) {}

namespace {

using bench::now_ns;

// --- A driver whose calls do nothing ------------------------------------------------------------

constexpr std::uint64_t kBehind = 300;  // launches

// The null stream: values are written when the device gets there, by the program's thread.
struct Device {
  struct Write {
    std::uint64_t launch = 0;
    CuAddress address = 0;
    std::uint64_t value = 0;
  };
  std::uint64_t launches = 0;
  std::uint64_t writes = 0;
  std::uint64_t gates = 0;
  bool is_behind = true;
  std::deque<Write> coming;
  void run_up_to(std::uint64_t launch) {
    for (; !coming.empty() && coming.front().launch <= launch; coming.pop_front()) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): the platform's word
      __atomic_store_n(reinterpret_cast<std::uint64_t*>(coming.front().address),
                       coming.front().value, __ATOMIC_RELEASE);
    }
  }
  void launched() {
    ++launches;
    run_up_to(launches < kBehind ? 0 : launches - kBehind);
  }
};
Device device;

template <typename... Parameters>
CuResult nothing(Parameters... /*all*/) {
  return CuResult::kSuccess;
}

Driver null_driver() {
  Driver driver;
#define SPILLWAY_NOTHING(field, symbol, since, parameters) driver.field = &nothing;
  SPILLWAY_CUDA_CALLS(SPILLWAY_NOTHING)
#undef SPILLWAY_NOTHING
  driver.device_attribute = [](int* value, CuAttribute, CuDevice) {
    *value = 1;
    return CuResult::kSuccess;
  };
  driver.context_get_current = [](CuContext* context) {
    *context = nullptr;
    return CuResult::kSuccess;
  };
  driver.address_reserve = [](CuAddress* address, std::size_t, std::size_t, CuAddress,
                              unsigned long long) {
    *address = CuAddress{1} << 45U;
    return CuResult::kSuccess;
  };
  driver.memory_create = [](CuMemHandle* handle, std::size_t, const CuAllocationProperties*,
                            unsigned long long) {
    static std::atomic<CuMemHandle> next{0};
    *handle = ++next;
    return CuResult::kSuccess;
  };
  driver.host_alloc = [](void** memory, std::size_t bytes, unsigned) {
    *memory = std::aligned_alloc(4096, round_up(bytes, 4096));
    return CuResult::kSuccess;
  };
  driver.host_free = [](void* memory) {
    std::free(memory);
    return CuResult::kSuccess;
  };
  driver.stream_flags = [](CuStream, unsigned* flags) {
    *flags = 0;
    return CuResult::kSuccess;
  };
  driver.stream_write_value = [](CuStream, CuAddress address, std::uint64_t value, unsigned) {
    ++device.writes;
    device.coming.push_back({.launch = device.launches, .address = address, .value = value});
    if (!device.is_behind) {
      device.run_up_to(device.launches);
    }
    return CuResult::kSuccess;
  };
  driver.stream_wait_value = [](CuStream, CuAddress, std::uint64_t, unsigned) {
    ++device.gates;
    return CuResult::kSuccess;
  };
  return driver;
}

// --- The program --------------------------------------------------------------------------------

struct Times {
  std::vector<double> ns;
  template <typename Call>
  void of(const Call& call) {
    const TimeNs start = now_ns();
    call();
    ns.push_back(static_cast<double>(now_ns() - start));
  }
};

// A clock that is asked twice.
double clock_ns() {
  Times times;
  for (int i = 0; i < 10'000; ++i) {
    times.of([] {});
  }
  return bench::median_of(times.ns);
}

class Program {
 public:
  Program(const char* policy_name, std::size_t live) {
    device = {};
    const PolicyInfo& info = **find_policy(policy_name);
    policy_ = *(info.make_with_queue != nullptr ? info.make_with_queue : info.make)(
        Trace{}, Machine{}, PolicyOptions{});
    CudaOptions options;
    options.device_bytes = 128 * kGiB;
    options.host_bytes = 4 * kGiB;
    options.on_fatal = [](const Error& error) { fatal(error.message); };
    Result<std::unique_ptr<CudaPlatform>> made =
        CudaPlatform::create(null_driver(), options, std::nullopt, *policy_);
    if (!made) {
      fatal(made.error().message);
    }
    platform_ = std::move(*made);
    heap_ = std::make_unique<DeviceHeap>(*platform_);
    session_.platform = platform_.get();
    session_.heap = heap_.get();
    for (std::size_t i = 0; i < live; ++i) {
      live_.push_back(*heap_->allocate(size(), kStream));
    }
    for (std::uint32_t& it : sizes_) {
      it = static_cast<std::uint32_t>(size());
    }
    // Everything has its memory, and the sizes of a step are in the heap.
    for (std::size_t i = 0; i < live; i += kMany) {
      launch_many(i, kMany);
    }
    settle();
    for (int step = 0; step < 2; ++step) {
      for (std::size_t i = 0; i < kStep; ++i) {
        one();
      }
      settle();
    }
    device.writes = 0;
    device.gates = 0;
    allocations.ns.clear();
    frees.ns.clear();
    launches.ns.clear();
    many.ns.clear();
  }
  ~Program() {
    for (const std::uint64_t address : live_) {
      heap_->free(address, kStream);
    }
    synchronize();
    // The platform, which waits for what stands for calls of which it was not told, launches
    // nothing.
    device.is_behind = false;
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // A launch of a step, with its allocation and its free.
  void one() {
    const std::size_t at = next_++ % kStep;
    std::uint64_t made = 0;
    allocations.of([&] { made = *heap_->allocate(sizes_[at], kStream); });
    young_.push_back(made);
    if (at % kManyEvery == 0) {
      many.of([&] { launch_many(at * 7, kMany); });
    } else {
      // The result, what was made before it, and something that stays; sizes and numbers between.
      const std::array<std::uint64_t, 8> words{
          made, 1024, young_[young_.size() / 2], 7, live_[at * 31 % live_.size()], 3, 1U << 20U, 0};
      launches.of([&] { launch(words, at); });
    }
    if (young_.size() > kLife) {
      frees.of([&] { heap_->free(young_.front(), kStream); });
      gone_.push_back(young_.front());
      young_.pop_front();
      if (gone_.size() > kGone) {
        gone_.pop_front();
      }
    }
    if (at + 1 == kStep) {
      synchronize();
    }
  }

  // A graph is launched again and again. `tables`: how many allocations hold addresses, of which
  // the first is an operand of the graph's.
  void make_graph(std::size_t tables) {
    GraphUse nodes(500);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      for (std::size_t j = 0; j < 3; ++j) {
        const std::uint64_t address = live_[(2 * i + j * 7) % live_.size()];
        if (const auto allocation = platform_->memory().allocation_of(address)) {
          nodes[i].operands.push_back({.address = address, .bytes = allocation->bytes});
        }
      }
    }
    graph_ = launch_use_of(nodes, "graph");
    std::vector<std::uint64_t> holders{nodes[0].operands[0].address};
    for (const std::uint64_t address : live_) {
      if (!graph_.by_start.contains(address)) {
        holders.push_back(address);
      }
    }
    for (std::size_t i = 0; i < std::min(tables, holders.size()); ++i) {
      const std::array<std::uint64_t, 2> named{live_[i], live_[live_.size() - 1 - i]};
      note_copied_in(session_, holders[i], named.data(), sizeof named, Beside::kWhatWasThere);
    }
  }
  void launch_graph() {
    launches.of([&] {
      const std::vector<CudaOperand> with_tables = operands_with_tables(session_, graph_);
      const std::uint64_t number = platform_->launches().before_launch(
          {.stream = kStream,
           .hash = graph_.hash,
           .name = "graph",
           .operands = with_tables.empty() ? graph_.operands : with_tables});
      device.launched();
      platform_->launches().after_launch(number, true);
    });
    if (++next_ % 100 == 0) {
      synchronize();
    }
  }
  // What the look-up of its operands costs of that.
  void look_up_graph() {
    many.of([&] { benchmark::DoNotOptimize(operands_with_tables(session_, graph_)); });
  }

  Times allocations, frees, launches, many;

 private:
  static constexpr CuStream kStream = nullptr;
  static constexpr std::size_t kStep = 1100;  // launches
  static constexpr std::size_t kLife = 4;
  static constexpr std::size_t kManyEvery = 50;
  static constexpr std::size_t kMany = 65;
  static constexpr std::size_t kGone = 365;

  [[noreturn]] static void fatal(const std::string& line) {
    std::fprintf(stderr, "launch_path_bench: %s\n", line.c_str());
    std::exit(EXIT_FAILURE);
  }
  // Half of them small; of the others most a few MiB.
  Bytes size() {
    return rng_.below(2) == 0   ? 512 + rng_.below(1 * kMiB)
           : rng_.below(8) == 0 ? 32 * kMiB + rng_.below(32) * kMiB
                                : 2 * kMiB + rng_.below(8) * kMiB;
  }
  void launch(std::span<const std::uint64_t> words, std::size_t kernel) const {
    if (platform_->bypass().begin_bypassed(kStream)) {
      device.launched();
      platform_->bypass().end_bypassed();
      return;
    }
    Operands operands(session_);
    operands.add_what_is_everywhere();
    operands.add_pointers_in(words.data(), words.size_bytes());
    const std::uint64_t number = platform_->launches().before_launch(
        {.stream = kStream,
         .hash = operands.hash({.first = kernel, .second = kernel}),
         .name = "kernel",
         .operands = operands.all()});
    device.launched();
    platform_->launches().after_launch(number, true);
  }
  void launch_many(std::size_t from, std::size_t count) {
    std::vector<std::uint64_t>& words = words_;
    words.clear();
    for (std::size_t i = 0; i < count; ++i) {
      words.push_back(live_[(from + i) % live_.size()]);
    }
    for (std::size_t i = 0; i < kGone; ++i) {
      words.push_back(i < gone_.size() ? gone_[i] : i);
    }
    launch(words, from);
  }
  void synchronize() const {
    platform_->streams().before_wait(std::nullopt);
    device.run_up_to(device.launches);
    platform_->streams().after_wait(std::nullopt);
  }
  void settle() const {
    synchronize();
    platform_->wait_until_idle();
    synchronize();
  }

  Rng rng_{1};
  GraphLaunchUse graph_;
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<CudaPlatform> platform_;
  std::unique_ptr<DeviceHeap> heap_;
  Session session_;
  std::vector<std::uint64_t> live_, words_;
  std::deque<std::uint64_t> young_, gone_;
  std::array<std::uint32_t, kStep> sizes_{};
  std::size_t next_ = 0;
};

void step(benchmark::State& state, const char* policy) {
  Program program(policy, static_cast<std::size_t>(state.range(0)));
  while (state.KeepRunning()) {
    program.one();
  }
  const double clock = clock_ns();
  const auto tell = [&](const std::string& what, const Times& times) {
    for (const auto& [name, part] :
         {std::pair("50", 0.5), std::pair("90", 0.9), std::pair("99", 0.99)}) {
      state.counters[what + name] = bench::quantile_of(times.ns, part) - clock;
    }
  };
  tell("launch", program.launches);
  tell("alloc", program.allocations);
  tell("free", program.frees);
  tell("many", program.many);
  const auto launches = static_cast<double>(state.iterations());
  state.counters["tickets"] = static_cast<double>(device.writes) / launches;
  state.counters["gates"] = static_cast<double>(device.gates) / launches;
}

// By how many allocations hold addresses.
void graph(benchmark::State& state) {
  Program program("lookahead", 1500);
  program.make_graph(static_cast<std::size_t>(state.range(0)));
  while (state.KeepRunning()) {
    program.launch_graph();
    program.look_up_graph();
  }
  const double clock = clock_ns();
  state.counters["launch50"] = bench::median_of(program.launches.ns) - clock;
  state.counters["look_up50"] = bench::median_of(program.many.ns) - clock;
}

BENCHMARK_CAPTURE(step, base_uvm, "base_uvm")->Arg(1500)->Arg(5000);
BENCHMARK_CAPTURE(step, deepum, "deepum")->Arg(1500)->Arg(5000);
BENCHMARK_CAPTURE(step, lookahead, "lookahead")->Arg(1500)->Arg(5000);

BENCHMARK(graph)->Arg(0)->Arg(1)->Arg(20);

}  // namespace
}  // namespace spillway::cuda
