// What a planner is told of the machine and of the iteration, and what is reported of its plan.
#include "runtime/run/program_plan.h"

#include <gtest/gtest.h>

#include <optional>

#include "policy/profiled.h"

namespace spillway {
namespace {

// A platform that stands still, with figures of the test's.
class StillPlatform final : public ProgramPlatform {
 public:
  using ProgramPlatform::allocate;
  Result<void*> allocate(Bytes, Fresh) override { return nullptr; }
  void free(void*) override {}
  void retire(void*) override {}
  Status reuse(void*) override { return {}; }
  void provide(void*) override {}
  void discard(void*, Bytes, DiscardMode) override {}
  void prefetch(void*, Bytes) override {}
  void pre_evict(void*, Bytes, Tier) override {}
  [[nodiscard]] Bytes size_of(const void*) const override { return 0; }
  [[nodiscard]] bool contains(const void*) const override { return false; }
  LaunchId begin_launch(std::string_view, std::span<const ProgramOperand>,
                        const std::function<void()>&) override {
    return 0;
  }
  void end_launch(LaunchId) override {}
  [[nodiscard]] LaunchFit fit(std::span<const ProgramOperand>) const override { return {}; }
  void mark_launch(LaunchHash, std::string_view, bool) override {}
  void mark_access(const void*, Bytes, bool) override {}
  void begin_recording() override {}
  std::optional<RecordedIteration> end_recording() override { return std::nullopt; }
  void change_policy(const std::function<void()>&) override {}
  [[nodiscard]] ProgramProcess& process() override { return nothing; }
  Status set_device_capacity(Bytes) override { return {}; }
  [[nodiscard]] ProgramStats stats() const override { return figures; }
  [[nodiscard]] std::vector<LaunchWaits> waits() const override { return {}; }
  [[nodiscard]] Bytes capacity_bytes(Tier tier) const override { return capacity[index_of(tier)]; }
  void wait_until_idle() override {}
  [[nodiscard]] Status check_invariants() const override { return {}; }

  ProgramProcess nothing;
  ProgramStats figures;
  std::array<Bytes, kTierCount> capacity{kGiB, 2 * kGiB, 4 * kGiB};
};

// What the planner was told last, and what it says.
struct Told {
  Trace trace;
  Machine machine;
  PolicyOptions options;
};
Told told;
std::optional<Plan> answer;

Result<Plan> plan(const Trace& trace, const Machine& machine, const PolicyOptions& options) {
  told = {.trace = trace, .machine = machine, .options = options};
  if (!answer) {
    return make_error(ErrorCode::kUnsupported, "too little of everything");
  }
  return *answer;
}

class HostPlanTest : public ::testing::Test {
 protected:
  HostPlanTest() {
    answer = Plan{.before = {}, .to_host_bytes = 5, .to_storage_bytes = 6, .estimated_ns = 7};
    Trace& trace = iteration_.trace;
    trace.tensors = {{.bytes = 10 * kMiB, .persistent = true}, {.bytes = 4 * kMiB}};
    trace.kernels.resize(3);
    trace.kernels[0] = {.name = "first", .duration_ns = 100, .reads = {0}, .writes = {}};
    trace.kernels[1] = {.name = "second", .duration_ns = 200, .reads = {0}, .writes = {1}};
    trace.kernels[2] = {.name = "third", .duration_ns = 300, .reads = {1}, .writes = {0}};
    iteration_.executions = {1, 2, 3};
    iteration_.allocations = {4, 5};
  }
  ProgramPlan make(const LinkSpeed& link = {}, const PolicyOptions& options = {}) {
    const PolicyInfo info{
        .name = "test", .summary = "", .traits = {}, .make = nullptr, .plan = plan};
    return plan_for_program(info, iteration_, platform_, link, options);
  }

  StillPlatform platform_;
  RecordedIteration iteration_;
};

TEST_F(HostPlanTest, ReportsTheIterationAndThePlan) {
  const ProgramPlan made = make();
  ASSERT_TRUE(made.plan);
  EXPECT_EQ(made.report.launches, 3U);
  EXPECT_EQ(made.report.tensors, 2U);
  EXPECT_EQ(made.report.computation_ns, 600);
  EXPECT_EQ(made.report.peak_bytes, 14 * kMiB);
  EXPECT_EQ(made.report.to_host_bytes, 5U);
  EXPECT_EQ(made.report.to_storage_bytes, 6U);
  EXPECT_EQ(made.report.estimated_ns, 7);
  EXPECT_EQ(made.report.error, "");
}

TEST_F(HostPlanTest, SaysWhyThereIsNone) {
  answer.reset();
  const ProgramPlan made = make();
  EXPECT_FALSE(made.plan);
  EXPECT_EQ(made.report.error, "too little of everything");
  EXPECT_EQ(made.report.launches, 3U);
  EXPECT_EQ(made.report.peak_bytes, 14 * kMiB);
  EXPECT_EQ(made.report.estimated_ns, 0);
}

// Tensors take room from when they are made ready.
TEST_F(HostPlanTest, ThePlannerSeesRoomAheadAndTheOptions) {
  PolicyOptions options;
  options.profiling_error = 0.25;
  (void)make({}, options);
  EXPECT_EQ(told.trace, with_room_ahead(iteration_.trace));
  EXPECT_EQ(told.options.profiling_error, 0.25);
}

// More is left for what nobody names, but never more than a quarter of a small device.
TEST_F(HostPlanTest, LeavesRoomForWhatThePlanDoesNotKnow) {
  iteration_.complete = true;
  (void)make();
  EXPECT_EQ(told.machine.device.capacity_bytes, kGiB - 4 * kMiB - kGiB / 128);
  EXPECT_EQ(told.machine.host.capacity_bytes, 2 * kGiB);
  EXPECT_EQ(told.machine.storage.capacity_bytes, 4 * kGiB);
  iteration_.complete = false;
  (void)make();
  EXPECT_EQ(told.machine.device.capacity_bytes, kGiB - 16 * kMiB - kGiB / 32);
  platform_.capacity[0] = 16 * kMiB;
  (void)make();
  EXPECT_EQ(told.machine.device.capacity_bytes, 12 * kMiB);
}

// What the run has met so far counts as soon as it is enough to tell.
TEST_F(HostPlanTest, RatesAreThoseOfTheRun) {
  ProgramStats& stats = platform_.figures;
  stats.copied_bytes = 63 * kMiB;
  stats.copy_ns = 1'000'000'000;
  stats.io_bytes = {128 * kMiB, 63 * kMiB};
  stats.io_busy_ns = {500'000'000, 1'000'000'000};
  (void)make();
  const double mib = static_cast<double>(kMiB);
  EXPECT_DOUBLE_EQ(told.machine.link.to_device_bytes_per_s, 4e9);  // not enough: assumed
  EXPECT_DOUBLE_EQ(told.machine.storage.read_bytes_per_s, 256 * mib);
  EXPECT_DOUBLE_EQ(told.machine.storage.write_bytes_per_s, 1e9);
  stats.copied_bytes = 64 * kMiB;
  stats.io_busy_ns = {0, 0};  // cannot be
  (void)make();
  EXPECT_DOUBLE_EQ(told.machine.link.to_device_bytes_per_s, 64 * mib);
  EXPECT_DOUBLE_EQ(told.machine.link.from_device_bytes_per_s, 64 * mib);
  EXPECT_DOUBLE_EQ(told.machine.storage.read_bytes_per_s, 1e9);
}

// A bus that stands between makes copies slower, never faster.
TEST_F(HostPlanTest, AThrottledLinkBoundsTheRate) {
  (void)make({.bytes_per_s = 1e9, .fault_latency_ns = 1000});
  EXPECT_DOUBLE_EQ(told.machine.link.to_device_bytes_per_s, 1e9);
  EXPECT_EQ(told.machine.faults.latency_ns, 51'000);
  (void)make({.bytes_per_s = 1e12});
  EXPECT_DOUBLE_EQ(told.machine.link.from_device_bytes_per_s, 4e9);
  EXPECT_EQ(told.machine.faults.latency_ns, 50'000);
}

}  // namespace
}  // namespace spillway
