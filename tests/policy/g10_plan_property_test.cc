// What must hold of G10's plan for any program: the planned memory is what the steps say, within
// the capacity where it fits; steps in legal order; no kernel finds an operand away; the same
// answer every time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "analysis/example_traces.h"
#include "analysis/memory_curve.h"
#include "analysis/vitality.h"
#include "policy/plain_scheduler.h"
#include "policy/planning/g10_planner.h"
#include "trace/generate.h"

namespace spillway {
namespace {

struct Case {
  std::string name;
  Trace trace;
};

std::vector<Case> cases() {
  MlpShape mlp{.batch_size = 300, .inputs = 100, .width = 333, .layers = 5, .classes = 10};
  CnnShape cnn{.batch_size = 2, .image = 33, .channels = 8, .stages = 3, .blocks = 2};
  TransformerShape transformer{.batch_size = 2,
                               .sequence = 48,
                               .width = 96,
                               .heads = 4,
                               .layers = 3,
                               .feed_forward = 384,
                               .vocabulary = 500};
  std::vector<Case> made{{"mlp", generate_mlp(mlp)},
                         {"cnn", generate_cnn(cnn)},
                         {"transformer", generate_transformer(transformer)}};
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    made.push_back({fmt::format("seed {}", seed), test::random_trace(seed)});
  }
  return made;
}

// The links carry four times what is alive during an iteration, times `speed`; storage a fifth.
Machine machine_for(const Trace& trace, const Vitality& vitality, double capacity_of_peak,
                    double speed) {
  Machine machine;
  const Bytes peak = memory_curve(trace, vitality, kPageBytes).peak_live_bytes;
  machine.device.capacity_bytes =
      static_cast<Bytes>(static_cast<double>(peak) * capacity_of_peak) / kPageBytes * kPageBytes;
  machine.host.capacity_bytes = peak / 2;
  machine.storage.capacity_bytes = 8 * peak;
  const double bytes_per_s = 4 * speed * static_cast<double>(peak) /
                             static_cast<double>(vitality.kernel_start_ns.back()) * 1e9;
  machine.link.to_device_bytes_per_s = machine.link.from_device_bytes_per_s = bytes_per_s;
  machine.storage.read_bytes_per_s = machine.storage.write_bytes_per_s = bytes_per_s / 5;
  return machine;
}

template <typename Visit>
void for_each_case(Visit visit) {
  for (const Case& each : cases()) {
    const Vitality vitality = analyze_vitality(each.trace);
    for (const double capacity : {0.9, 0.6, 0.4}) {
      for (const double speed : {1.0, 20.0}) {
        SCOPED_TRACE(fmt::format("{}, capacity {}, speed {}", each.name, capacity, speed));
        visit(each.trace, vitality, machine_for(each.trace, vitality, capacity, speed));
      }
    }
  }
}

std::vector<TimeNs> times_of(const Trace& trace) {
  std::vector<TimeNs> times;
  for (const Kernel& kernel : trace.kernels) times.push_back(kernel.duration_ns);
  return times;
}

// Tensor by tensor, what is on the device during kernel k.
Bytes naive_pressure(const Trace& trace, const Vitality& vitality, const EvictionSchedule& schedule,
                     std::size_t k) {
  const std::size_t slots = trace.kernels.size();
  Bytes bytes = 0;
  for (TensorId id = 0; id < trace.tensors.size(); ++id) {
    const std::optional<TensorLife>& life = vitality.lives[id];
    bool there =
        trace.tensors[id].persistent || (life && life->first_use <= k && k <= life->last_use);
    for (const PlannedPeriod& planned : schedule.periods) {
      if (vitality.periods[planned.period].tensor != id) continue;
      for (const std::size_t slot : {k, k + slots}) {
        there = there && !(planned.evicted < slot && slot < planned.fetch);
      }
    }
    bytes += there ? round_up(trace.tensors[id].bytes, kPageBytes) : 0;
  }
  return bytes;
}

TEST(G10Plans, PlannedMemoryIsWhatThePeriodsSay) {
  int fitting = 0;
  int evicting = 0;
  for_each_case([&](const Trace& trace, const Vitality& vitality, const Machine& machine) {
    for (const bool stalling : {false, true}) {
      EvictionSchedule schedule =
          schedule_evictions(trace, vitality, machine, {.stalling = stalling}, times_of(trace));
      for (const bool eager : {false, true}) {
        if (eager) schedule_eager_prefetches(trace, vitality, machine, schedule);
        Bytes highest = 0;
        for (std::size_t k = 0; k < trace.kernels.size(); ++k) {
          ASSERT_EQ(schedule.pressure_bytes[k], naive_pressure(trace, vitality, schedule, k))
              << "kernel " << k << ", eager " << eager;
          highest = std::max(highest, schedule.pressure_bytes[k]);
        }
        ASSERT_EQ(schedule.fits, highest <= machine.device.capacity_bytes);
      }
      fitting += schedule.fits ? 1 : 0;
      evicting += schedule.periods.empty() ? 0 : 1;
      for (const PlannedPeriod& planned : schedule.periods) {
        const InactivePeriod& period = vitality.periods[planned.period];
        const std::size_t end = period.until + (period.wraps ? trace.kernels.size() : 0);
        ASSERT_LE(planned.evicted + 1, planned.fetch);
        ASSERT_LE(planned.fetch, planned.latest_fetch);
        ASSERT_LE(planned.latest_fetch, end);
        ASSERT_GE(planned.evicted, period.after + (stalling ? 0U : 1U));
      }
    }
  });
  EXPECT_GT(fitting, 20);
  EXPECT_GT(evicting, 60);
}

// As a recorded step looks to the planner: many layers, many small tensors, twins among them.
Trace deep_trace() {
  return generate_transformer({.batch_size = 2,
                               .sequence = 64,
                               .width = 64,
                               .heads = 4,
                               .layers = 5,
                               .feed_forward = 256,
                               .vocabulary = 300});
}

void expect_same(const EvictionSchedule& one, const EvictionSchedule& other) {
  ASSERT_EQ(one.fits, other.fits);
  ASSERT_EQ(one.pressure_bytes, other.pressure_bytes);
  ASSERT_EQ(one.periods.size(), other.periods.size());
  for (std::size_t i = 0; i < one.periods.size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_EQ(one.periods[i].period, other.periods[i].period);
    ASSERT_EQ(one.periods[i].to, other.periods[i].to);
    ASSERT_EQ(one.periods[i].evicted, other.periods[i].evicted);
    ASSERT_EQ(one.periods[i].latest_fetch, other.periods[i].latest_fetch);
  }
}

TEST(G10Plans, AreThoseOfAlgorithm1DoneSlotBySlot) {
  const auto compare = [](const Trace& trace, const Vitality& vitality, const Machine& machine) {
    for (const bool stalling : {false, true}) {
      const G10Options options{.stalling = stalling};
      const std::vector<TimeNs> slot_ns = times_of(trace);
      expect_same(schedule_evictions(trace, vitality, machine, options, slot_ns),
                  test::PlainScheduler(trace, vitality, machine, options, slot_ns).run());
    }
  };
  for_each_case(compare);
  const Trace deep = deep_trace();
  const Vitality vitality = analyze_vitality(deep);
  for (const double speed : {0.3, 3.0}) {
    Machine machine = machine_for(deep, vitality, 0.5, speed);
    compare(deep, vitality, machine);
    machine.device.frame_bytes = kBlockBytes / 64;
    machine.device.capacity_bytes += 12345;  // no multiple of anything
    compare(deep, vitality, machine);
  }
}

// The copies of all chosen periods together, spread over their windows, never ask a link for more
// than it carries in any run of slots that holds whole windows.
TEST(G10Plans, HiddenCopiesFitTheLinks) {
  for_each_case([&](const Trace& trace, const Vitality& vitality, const Machine& machine) {
    const std::size_t slots = trace.kernels.size();
    const EvictionSchedule schedule =
        schedule_evictions(trace, vitality, machine, {}, times_of(trace));
    const auto length_ns = [&](std::size_t first, std::size_t end) {
      TimeNs ns = 0;
      for (std::size_t slot = first; slot < end; ++slot) {
        ns += trace.kernels[slot % slots].duration_ns;
      }
      return static_cast<double>(ns);
    };
    double storage_out = 0;
    double out = 0;
    for (const PlannedPeriod& planned : schedule.periods) {
      const InactivePeriod& period = vitality.periods[planned.period];
      const auto bytes =
          static_cast<double>(round_up(trace.tensors[period.tensor].bytes, kPageBytes));
      const bool storage = planned.to == Tier::kStorage;
      const double rate =
          storage ? machine.storage.write_bytes_per_s : machine.link.from_device_bytes_per_s;
      const std::size_t end = period.until + (period.wraps ? slots : 0);
      // Each window alone is long enough for its own copy.
      ASSERT_GE(length_ns(period.after + 1U, planned.evicted + 1) * rate * 1e-9, bytes - 1);
      ASSERT_GE(length_ns(planned.fetch, end) * rate * 1e-9, bytes - 1);
      out += bytes;
      storage_out += storage ? bytes : 0;
    }
    const double iteration_s = length_ns(0, slots) * 1e-9;
    const auto crumbs = static_cast<double>(schedule.periods.size());
    ASSERT_LE(out, machine.link.from_device_bytes_per_s * iteration_s + crumbs);
    ASSERT_LE(storage_out, machine.storage.write_bytes_per_s * iteration_s + crumbs);
  });
}

// Walks the program twice around with nothing but the plan's steps.
void check_steps(const Trace& trace, const Vitality& vitality, const Plan& plan) {
  enum class Where { kNowhere, kDevice, kBelow };
  std::vector<Where> where(trace.tensors.size(), Where::kDevice);
  for (TensorId id = 0; id < where.size(); ++id) {
    if (!trace.tensors[id].persistent) where[id] = Where::kNowhere;
  }
  ASSERT_EQ(plan.before.size(), trace.kernels.size());
  for (int iteration = 0; iteration < 2; ++iteration) {
    for (KernelIndex k = 0; k < trace.kernels.size(); ++k) {
      bool taking = false;
      for (const PlanAction& action : plan.before[k]) {
        Where& place = where[action.tensor];
        const bool gives = action.step == PlanStep::kFree || action.step == PlanStep::kPreEvict;
        ASSERT_FALSE(gives && taking) << "kernel " << k << ": gives memory after taking some";
        taking = !gives;
        // What the last kernel used is freed before the first, which has nothing to free at first.
        if (iteration == 0 && k == 0 && gives) continue;
        switch (action.step) {
          case PlanStep::kAlloc:
            ASSERT_EQ(place, Where::kNowhere) << k;
            ASSERT_EQ(vitality.lives[action.tensor]->first_use, k);
            place = Where::kDevice;
            break;
          case PlanStep::kFree:
            ASSERT_EQ(place, Where::kDevice) << k;
            ASSERT_EQ((vitality.lives[action.tensor]->last_use + 1U) % trace.kernels.size(), k);
            place = Where::kNowhere;
            break;
          case PlanStep::kPreEvict:
            ASSERT_EQ(place, Where::kDevice) << k;
            ASSERT_NE(action.to, Tier::kDevice);
            place = Where::kBelow;
            break;
          case PlanStep::kPrefetch:
            ASSERT_TRUE(place == Where::kBelow || iteration == 0) << k;
            place = Where::kDevice;
            break;
        }
      }
      for (TensorId id = 0; id < where.size(); ++id) {
        if (test::uses(trace.kernels[k], id)) {
          ASSERT_EQ(where[id], Where::kDevice) << "kernel " << k << ", tensor " << id;
        }
      }
    }
  }
}

TEST(G10Plans, StepsAreInLegalOrderAndNoOperandIsAway) {
  int moving = 0;
  for_each_case([&](const Trace& trace, const Vitality& vitality, const Machine& machine) {
    const Plan plan = plan_g10(trace, vitality, machine, {});
    check_steps(trace, vitality, plan);
    moving += plan.to_host_bytes + plan.to_storage_bytes > 0 ? 1 : 0;
    EXPECT_GE(plan.estimated_ns, vitality.kernel_start_ns.back());
  });
  EXPECT_GT(moving, 30);
}

TEST(G10Plans, TheSameQuestionGetsTheSameAnswer) {
  for_each_case([&](const Trace& trace, const Vitality& vitality, const Machine& machine) {
    const Plan one = plan_g10(trace, vitality, machine, {});
    const Plan two = plan_g10(trace, vitality, machine, {});
    ASSERT_EQ(render_program(one, trace), render_program(two, trace));
    ASSERT_EQ(one.estimated_ns, two.estimated_ns);
  });
}

}  // namespace
}  // namespace spillway
