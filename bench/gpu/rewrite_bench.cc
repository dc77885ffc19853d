// The CUDA platform on a real GPU, without a program around it: a kernel that checks every word of
// a buffer and writes new ones, on buffers that do not fit the budget together. Says how fast bytes
// moved, how much of the device was in use, and whether any word was wrong.
// Needs an NVIDIA driver and a GPU with more free memory than the budget. docs/cuda.md.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "machine/machine.h"
#include "platform/cuda/cuda_platform.h"
#include "policy/registry.h"
#include "trace/trace.h"

namespace spillway::bench {
namespace {

using cuda::check;
using cuda::CuAddress;
using cuda::CuFunction;
using cuda::CuResult;
using cuda::CuStream;
using cuda::Driver;

// rewrite(data, words, was, now, wrong): word i is i times an odd number, exclusive-or a seed.
// Those that are not what `was` makes them are counted, unless it is 0.
constexpr const char* kKernel = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry rewrite(.param .u64 data, .param .u64 words, .param .u64 was, .param .u64 now,
                        .param .u64 wrong)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %d<14>;
  ld.param.u64 %d0, [data];
  ld.param.u64 %d1, [words];
  ld.param.u64 %d2, [was];
  ld.param.u64 %d3, [now];
  ld.param.u64 %d4, [wrong];
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %ntid.x;
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %nctaid.x;
  mul.wide.u32 %d5, %r0, %r1;
  cvt.u64.u32 %d6, %r2;
  add.u64 %d5, %d5, %d6;
  mul.wide.u32 %d7, %r3, %r1;
NEXT:
  setp.ge.u64 %p0, %d5, %d1;
  @%p0 bra DONE;
  mul.lo.u64 %d8, %d5, -7046029254386353131;
  shl.b64 %d9, %d5, 3;
  add.u64 %d9, %d0, %d9;
  setp.eq.u64 %p1, %d2, 0;
  @%p1 bra STORE;
  ld.global.u64 %d10, [%d9];
  xor.b64 %d11, %d8, %d2;
  setp.eq.u64 %p1, %d10, %d11;
  @%p1 bra STORE;
  atom.global.add.u64 %d12, [%d4], 1;
STORE:
  xor.b64 %d13, %d8, %d3;
  st.global.u64 [%d9], %d13;
  add.u64 %d5, %d5, %d7;
  bra NEXT;
DONE:
  ret;
}
)";
constexpr unsigned kBlocks = 264;
constexpr unsigned kThreads = 512;
constexpr std::size_t kStreams = 3;

struct Options {
  std::string policy = "lookahead";
  std::string device_memory = "2560MiB";
  std::string buffer = "128MiB";
  std::uint64_t buffers = 40;
  std::uint64_t launches = 4000;
  bool random = false;
  bool json = false;
};

struct Buffer {
  CuAddress address = 0;
  std::uint64_t seed = 0;  // of what it holds; 0: nothing yet
  CuStream stream = nullptr;
};

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

[[noreturn]] void stop(const Error& error) {
  fmt::print(stderr, "rewrite_bench: {}\n", error.message);
  std::exit(1);
}
template <typename Value>
Value value_of(Result<Value> result) {
  if (!result) {
    stop(result.error());
  }
  return std::move(*result);
}

class Gpu {
 public:
  Gpu() : driver_(value_of(cuda::open_driver())) {
    cuda::CuDevice device = 0;
    cuda::CuContext context = nullptr;
    must("cuInit", driver_.init(0));
    must("cuDeviceGet", driver_.device_get(&device, 0));
    must("cuDevicePrimaryCtxRetain", driver_.primary_context_retain(&context, device));
    must("cuCtxSetCurrent", driver_.context_set_current(context));
    context_ = context;
    void* module = nullptr;
    must("cuModuleLoadData",
         call<CuResult (*)(void**, const void*)>("cuModuleLoadData")(&module, kKernel));
    must("cuModuleGetFunction", call<CuResult (*)(CuFunction*, void*, const char*)>(
                                    "cuModuleGetFunction")(&kernel_, module, "rewrite"));
    void* memory = nullptr;
    must("cuMemHostAlloc",
         driver_.host_alloc(&memory, kPageBytes,
                            cuda::kCuHostAllocPortable | cuda::kCuHostAllocDeviceMap));
    wrong_ = static_cast<std::uint64_t*>(memory);
    *wrong_ = 0;
    must("cuMemHostGetDevicePointer", driver_.host_device_pointer(&wrong_there_, memory, 0));
  }
  [[nodiscard]] const Driver& driver() const { return driver_; }
  void must(const char* symbol, CuResult result) const {
    if (const Status done = check(driver_, symbol, result); !done) {
      stop(done.error());
    }
  }
  // What the platform's own contexts have changed.
  void make_current() const { must("cuCtxSetCurrent", driver_.context_set_current(context_)); }
  [[nodiscard]] CuStream stream() const {
    CuStream made = nullptr;
    must("cuStreamCreate", driver_.stream_create(&made, cuda::kCuStreamNonBlocking, 0));
    return made;
  }
  [[nodiscard]] Bytes free_bytes() const {
    std::size_t free = 0;
    std::size_t total = 0;
    must("cuMemGetInfo", driver_.memory_info(&free, &total));
    return free;
  }
  CuResult launch(Buffer& buffer, Bytes bytes, std::uint64_t now) {
    std::uint64_t words = bytes / sizeof(std::uint64_t);
    void* parameters[] = {&buffer.address, &words, &buffer.seed, &now, &wrong_there_};  // NOLINT
    return driver_.launch_kernel(kernel_, kBlocks, 1, 1, kThreads, 1, 1, 0, buffer.stream,
                                 static_cast<void**>(parameters), nullptr);
  }
  [[nodiscard]] std::uint64_t wrong_words() const { return *wrong_; }

 private:
  template <typename Function>
  [[nodiscard]] Function call(const char* symbol) const {
    constexpr int kVersion = 12000;
    void* found = nullptr;
    must(symbol, driver_.proc_address(symbol, &found, kVersion, 0, nullptr));
    return reinterpret_cast<Function>(found);  // NOLINT(*-reinterpret-cast): the driver's interface
  }

  Driver driver_;
  cuda::CuContext context_ = nullptr;
  CuFunction kernel_ = nullptr;
  std::uint64_t* wrong_ = nullptr;
  CuAddress wrong_there_ = 0;
};

int run(const Options& options) {
  Gpu gpu;
  const Bytes free_before = gpu.free_bytes();
  const Bytes buffer_bytes = value_of(parse_bytes(options.buffer));
  cuda::CudaOptions made;
  made.device_bytes = value_of(parse_bytes(options.device_memory));
  made.host_bytes = options.buffers * buffer_bytes + kGiB;
  const PolicyInfo* const info = value_of(find_policy(options.policy));
  const std::unique_ptr<Policy> policy = value_of(info->make(Trace{}, Machine{}, PolicyOptions{}));
  const std::unique_ptr<cuda::CudaPlatform> platform =
      value_of(cuda::CudaPlatform::create(gpu.driver(), made, std::nullopt, *policy));
  gpu.make_current();
  std::vector<CuStream> streams;
  for (std::size_t i = 0; i < kStreams; ++i) {
    streams.push_back(gpu.stream());
  }
  std::vector<Buffer> buffers(options.buffers);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    buffers[i] = {.address = value_of(platform->memory().allocate(buffer_bytes)),
                  .stream = streams[i % kStreams]};
  }
  Rng rng(1);
  Bytes least_free = free_before;
  const double begin_s = now_s();
  for (std::uint64_t launch = 0; launch < options.launches; ++launch) {
    const std::uint64_t which =
        options.random ? rng.below(buffers.size()) : launch % buffers.size();
    Buffer& buffer = buffers[which];
    const cuda::CudaOperand operand{
        .address = buffer.address, .bytes = buffer_bytes, .mode = AccessMode::kReadWrite};
    const std::uint64_t number =
        platform->launches().before_launch({.stream = buffer.stream,
                                            .hash = {.first = which + 1, .second = 1},
                                            .name = "rewrite",
                                            .operands = {&operand, 1}});
    const CuResult launched = gpu.launch(buffer, buffer_bytes, launch + 1);
    platform->launches().after_launch(number, launched == CuResult::kSuccess);
    gpu.must("cuLaunchKernel", launched);
    buffer.seed = launch + 1;
    constexpr std::uint64_t kLookEvery = 64;
    if (launch % kLookEvery == 0) {
      least_free = std::min(least_free, gpu.free_bytes());
    }
  }
  const double issued_s = now_s() - begin_s;
  platform->streams().before_wait(std::nullopt);
  gpu.must("cuCtxSynchronize", gpu.driver().context_synchronize());
  platform->streams().after_wait(std::nullopt);
  const double all_s = now_s() - begin_s;
  const EngineStats stats = platform->stats().engine;
  const double in_bytes = static_cast<double>(stats.moved(Tier::kHost, Tier::kDevice));
  const double out_bytes = static_cast<double>(stats.moved(Tier::kDevice, Tier::kHost));
  const Bytes in_use_bytes = free_before - least_free;
  if (options.json) {
    fmt::print("{}\n", nlohmann::json{{"policy", options.policy},
                                      {"device_bytes", made.device_bytes},
                                      {"issued_s", issued_s},
                                      {"all_s", all_s},
                                      {"in_bytes", in_bytes},
                                      {"out_bytes", out_bytes},
                                      {"faults", stats.faults},
                                      {"prefetches_used", stats.prefetches_used},
                                      {"device_in_use_bytes", in_use_bytes},
                                      {"wrong_words", gpu.wrong_words()}}
                           .dump());
  } else {
    fmt::print(
        "{}: {} launches on {} buffers of {} within {}, issued in {:.2f} s, done in {:.2f} "
        "s\n",
        options.policy, options.launches, options.buffers, format_bytes(buffer_bytes),
        format_bytes(made.device_bytes), issued_s, all_s);
    fmt::print(
        "  in {:.2f} GB, {:.1f} GB/s; out {:.2f} GB, {:.1f} GB/s; {} faults, {} prefetches "
        "used\n",
        in_bytes / 1e9, in_bytes / 1e9 / all_s, out_bytes / 1e9, out_bytes / 1e9 / all_s,
        stats.faults, stats.prefetches_used);
    fmt::print("  of the device at most {} in use; {} wrong words\n", format_bytes(in_use_bytes),
               gpu.wrong_words());
  }
  return gpu.wrong_words() == 0 && platform->check_invariants() ? 0 : 1;
}

}  // namespace
}  // namespace spillway::bench

int main(int argc, char** argv) {
  spillway::bench::Options options;
  CLI::App app("Buffers that do not fit a GPU's budget together, rewritten in turn.");
  app.add_option("--policy", options.policy, "One that needs no plan")->capture_default_str();
  app.add_option("--device-memory", options.device_memory, "The budget")->capture_default_str();
  app.add_option("--buffer", options.buffer, "Size of each buffer")->capture_default_str();
  app.add_option("--buffers", options.buffers)->capture_default_str();
  app.add_option("--launches", options.launches)->capture_default_str();
  app.add_flag("--random", options.random, "In random order instead of in turn");
  app.add_flag("--json", options.json, "Print one JSON object");
  CLI11_PARSE(app, argc, argv);
  return spillway::bench::run(options);
}
