// `spillway simulate ...` as a person calls it: JSON and tables, every number of jobs alike, one
// line for a mistake, and a progress bar that leaves nothing behind.
#include <gmock/gmock.h>
#include <pty.h>
#include <signal.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/program.h"
#include "policy/registry.h"
#include "trace/generate.h"
#include "trace/read.h"

namespace spillway {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

TimeNs ideal_ns(const Trace& trace) {
  TimeNs sum = 0;
  for (const Kernel& kernel : trace.kernels) sum += kernel.duration_ns;
  return sum;
}

class SimulateCommand : public test::ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    mlp_ =
        generate_mlp({.batch_size = 64, .inputs = 512, .width = 2048, .layers = 6, .training = {}});
    ASSERT_TRUE(write_trace(mlp_, folder_ / "mlp.swt").has_value());
    const Trace cnn = generate_cnn({.batch_size = 8, .image = 64, .channels = 16, .stages = 2});
    ASSERT_TRUE(write_trace(cnn, folder_ / "cnn.swt").has_value());
  }

  // Every line an object; wall-clock times, which may differ from run to run, taken out.
  static std::vector<json> objects(const std::string& text) {
    std::vector<json> found;
    for (const std::string& line : test::lines_of(text)) {
      found.push_back(json::parse(line));
      EXPECT_GE(found.back()["simulation_s"].get<double>(), 0);
      found.back().erase("simulation_s");
    }
    return found;
  }

  Trace mlp_;
};

constexpr const char* kSmall = "--set device.capacity=150MiB ";

TEST_F(SimulateCommand, JsonHasEveryNumber) {
  const test::Outcome outcome =
      run(std::string("simulate --json --policy ideal,base_uvm mlp.swt ") + kSmall);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, IsEmpty()) << "no progress bar where there is no terminal";
  const std::vector<json> found = objects(outcome.out);
  ASSERT_THAT(found, SizeIs(2));

  const double ideal_s = to_seconds(ideal_ns(mlp_));
  for (const json& object : found) {
    EXPECT_EQ(object["trace"], "mlp.swt");
    EXPECT_EQ(object["model"], mlp_.model);
    EXPECT_EQ(object["batch_size"], 64);
    EXPECT_EQ(object["machine"], "a100-40gb");
    EXPECT_DOUBLE_EQ(object["ideal_s"].get<double>(), ideal_s);
    const auto iteration_s = object["iteration_s"].get<double>();
    EXPECT_NEAR(object["stall_s"].get<double>(), iteration_s - ideal_s, 1e-9);
    EXPECT_NEAR(object["fraction_of_ideal"].get<double>(), ideal_s / iteration_s, 1e-9);
    EXPECT_LE(object["overlap_s"].get<double>(), ideal_s);
    EXPECT_TRUE(object["late_prefetches"].is_number_unsigned());
    EXPECT_TRUE(object["prefetches"]["used"].is_number_unsigned());
    EXPECT_TRUE(object["prefetches"]["wasted"].is_number_unsigned());
    EXPECT_GE(object["write_amplification"].get<double>(), 1.0);
    EXPECT_TRUE(object.contains("storage_lifetime_years"));
    EXPECT_FALSE(object.contains("cannot_run"));
    for (const char* key : {"host_to_device", "device_to_host", "storage_to_device",
                            "device_to_storage", "saved_by_discard", "given_up"}) {
      EXPECT_TRUE(object["traffic_bytes"][key].is_number_unsigned()) << key;
    }
  }
  EXPECT_EQ(found[0]["policy"], "ideal");
  EXPECT_DOUBLE_EQ(found[0]["iteration_s"].get<double>(), ideal_s);
  EXPECT_EQ(found[0]["faults"], 0);
  EXPECT_EQ(found[0]["traffic_bytes"]["host_to_device"], 0);
  EXPECT_EQ(found[1]["policy"], "base_uvm");
  EXPECT_LT(found[1]["fraction_of_ideal"].get<double>(), 0.9) << "it does not fit";
  EXPECT_GT(found[1]["faults"].get<int>(), 0);
  EXPECT_GT(found[1]["traffic_bytes"]["host_to_device"].get<Bytes>(), 50 * kMiB);
}

TEST_F(SimulateCommand, ResultsDoNotDependOnJobs) {
  const std::string arguments =
      std::string("simulate --json --policy all cnn.swt mlp.swt cnn.swt ") + kSmall;
  const test::Outcome one = run(arguments + "--jobs 1");
  const test::Outcome eight = run(arguments + "--jobs 8");
  ASSERT_EQ(one.status, 0) << one.err;
  ASSERT_EQ(eight.status, 0) << eight.err;
  const std::vector<json> found = objects(one.out);
  EXPECT_EQ(found, objects(eight.out));
  ASSERT_THAT(found, SizeIs(3 * all_policies().size()));
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i]["policy"], all_policies()[i % all_policies().size()].name);
    EXPECT_EQ(found[i]["trace"], i / all_policies().size() == 1 ? "mlp.swt" : "cnn.swt");
  }
}

TEST_F(SimulateCommand, MachineSettingsPoliciesAndWarmUpReachTheSimulation) {
  const auto time_s = [&](const std::string& options) {
    const test::Outcome outcome =
        run(fmt::format("simulate --json --policy base_uvm mlp.swt {} {}", kSmall, options));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return objects(outcome.out).at(0)["iteration_s"].get<double>();
  };
  const double plain = time_s("");
  EXPECT_LT(time_s("--set link.bandwidth=32GB/s"), plain);
  EXPECT_GT(time_s("--set faults.latency=90us"), plain);
  EXPECT_NE(time_s("--warm-up 0"), plain) << "the first iteration finds the device empty";
  EXPECT_NE(time_s("--machine h200"), plain);
}

TEST_F(SimulateCommand, ThePolicyIsG10UnlessSaid) {
  const test::Outcome outcome = run("simulate --json mlp.swt");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(objects(outcome.out).at(0)["policy"], "g10");
  const test::Outcome twice = run("simulate --json mlp.swt --policy ideal,base_uvm,ideal");
  EXPECT_THAT(objects(twice.out), SizeIs(2)) << "each policy once";
}

TEST_F(SimulateCommand, TablesByTrace) {
  const test::Outcome outcome = run("simulate --policy ideal,base_uvm mlp.swt cnn.swt");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const std::vector<std::string> lines = test::lines_of(outcome.out);
  ASSERT_THAT(lines, SizeIs(11)) << outcome.out;
  EXPECT_EQ(lines[0], "mlp.swt");
  EXPECT_THAT(lines[1], AllOf(StartsWith("mlp, batch size 64: "), EndsWith("machine a100-40gb")));
  EXPECT_THAT(lines[2], AllOf(StartsWith("  policy"), HasSubstr("of ideal"), HasSubstr("to host")));
  EXPECT_THAT(lines[3], AllOf(StartsWith("  ideal "), HasSubstr("100.0 %")));
  EXPECT_THAT(lines[4], StartsWith("  base_uvm "));
  EXPECT_EQ(lines[5], "");
  EXPECT_EQ(lines[6], "cnn.swt");
  // Columns of numbers end where their headings end.
  const std::size_t end = lines[2].find("of ideal") + std::string("of ideal").size();
  EXPECT_EQ(lines[3].substr(end - 2, 2), " %");
  EXPECT_EQ(lines[4].substr(end - 2, 2), " %");
}

TEST_F(SimulateCommand, WhatCannotRunIsAnAnswer) {
  // Without host memory and storage, nothing that leaves the device has a place to go.
  const std::string nowhere =
      std::string(kSmall) + "--set host.capacity=0 --set storage.capacity=0 mlp.swt ";
  const test::Outcome some = run("simulate --json --policy ideal,base_uvm " + nowhere);
  EXPECT_EQ(some.status, 0) << some.err;
  const std::vector<json> found = objects(some.out);
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_TRUE(found[1]["iteration_s"].is_null());
  EXPECT_TRUE(found[1]["fraction_of_ideal"].is_null());
  EXPECT_TRUE(found[1]["traffic_bytes"].is_null());
  EXPECT_THAT(found[1]["cannot_run"].get<std::string>(), HasSubstr("out of memory"));

  const test::Outcome table = run("simulate --policy base_uvm,ideal " + nowhere);
  EXPECT_EQ(table.status, 0);
  EXPECT_THAT(test::lines_of(table.out),
              Contains(AllOf(StartsWith("  base_uvm"), HasSubstr("  cannot run: out of memory"))));
  EXPECT_EQ(run("simulate --policy base_uvm " + nowhere).status, 1) << "nothing could run";
}

TEST_F(SimulateCommand, OneLineForAMistake) {
  std::ofstream(folder_ / "broken.json") << "{\"format\": \"kernel-trace/1\", \"tensors\": [";
  const std::map<std::string, std::string> mistakes{
      {"mlp.swt --policy g11", "g11"},
      {"mlp.swt --machine a1000", "a1000"},
      {"mlp.swt --set device.capcity=1GiB", "device.capcity"},
      {"mlp.swt --set device.capacity=large", "large"},
      {"mlp.swt --jobs 0", "--jobs"},
      {"mlp.swt --warm-up -1", "--warm-up"},
      {"mlp.swt --profiling-error 1.5", "--profiling-error"},
      {"--json", "trace"},
      {"broken.json --policy ideal,base_uvm", "broken.json"},
  };
  for (const auto& [arguments, named] : mistakes) {
    expect_refusal("simulate " + arguments, 2, named);
  }
}

TEST_F(SimulateCommand, ABadTraceDoesNotStopTheOthers) {
  std::ofstream(folder_ / "broken.swt") << "SPILL";
  const test::Outcome outcome = run("simulate --json --policy ideal broken.swt mlp.swt");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("broken.swt"));
  EXPECT_THAT(objects(outcome.out), SizeIs(1));
}

// The program with a terminal for its standard error.
class OnATerminal {
 public:
  OnATerminal(const std::filesystem::path& folder, const std::vector<std::string>& arguments) {
    int terminal = -1;
    winsize size{.ws_row = 24, .ws_col = 60, .ws_xpixel = 0, .ws_ypixel = 0};
    if (openpty(&from_program_, &terminal, nullptr, nullptr, &size) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      std::vector<char*> argv{const_cast<char*>(SPILLWAY_PROGRAM)};
      for (const std::string& argument : arguments)
        argv.push_back(const_cast<char*>(argument.c_str()));
      argv.push_back(nullptr);
      dup2(terminal, STDERR_FILENO);
      close(terminal);
      close(from_program_);
      if (chdir(folder.c_str()) != 0 || std::freopen("standard-output", "w", stdout) == nullptr) {
        _exit(127);
      }
      execv(SPILLWAY_PROGRAM, argv.data());
      _exit(127);
    }
    close(terminal);
  }
  ~OnATerminal() { close(from_program_); }
  OnATerminal(const OnATerminal&) = delete;
  OnATerminal& operator=(const OnATerminal&) = delete;

  // What has appeared once `text` has, or at the end of the program.
  const std::string& read_until(const std::string& text) {
    std::array<char, 4096> buffer{};
    while (screen_.find(text) == std::string::npos) {
      const ssize_t got = ::read(from_program_, buffer.data(), buffer.size());
      if (got <= 0) break;  // a terminal that nobody holds any more reads as an error
      screen_.append(buffer.data(), static_cast<std::size_t>(got));
    }
    return screen_;
  }
  const std::string& read_all() { return read_until("\x01 never written"); }
  void interrupt() const {
    ASSERT_GT(pid_, 0) << "no terminal, or no process; -1 would be everybody";
    kill(pid_, SIGINT);
  }
  [[nodiscard]] int wait() const {
    int status = -1;
    waitpid(pid_, &status, 0);
    return status;
  }

 private:
  int from_program_ = -1;
  pid_t pid_ = -1;
  std::string screen_;
};

constexpr const char* kCleared = "\r\x1b[K";

TEST_F(SimulateCommand, ProgressIsClearedBeforeTheTable) {
  OnATerminal program(folder_, {"simulate", "--policy", "ideal,base_uvm", "mlp.swt", "cnn.swt"});
  const std::string screen = program.read_all();
  const int status = program.wait();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_THAT(screen, HasSubstr("/4 simulations, 0:00"));
  EXPECT_THAT(screen, EndsWith(kCleared));
  EXPECT_THAT(screen, Not(HasSubstr("\n"))) << "it never wraps or scrolls";
  EXPECT_THAT(test::read_file(folder_ / "standard-output"), StartsWith("mlp.swt\n"));
}

TEST_F(SimulateCommand, AnInterruptClearsTheLineAndEndsTheProgram) {
  const Trace large =
      generate_mlp({.batch_size = 64, .width = 16384, .layers = 40, .training = {}});
  ASSERT_TRUE(write_trace(large, folder_ / "large.swt").has_value());
  OnATerminal program(folder_,
                      {"simulate", "--policy", "base_uvm", "--warm-up", "1000", "large.swt"});
  EXPECT_THAT(program.read_until("0/1 simulations"), HasSubstr("0/1 simulations"));
  program.interrupt();
  EXPECT_THAT(program.read_all(), EndsWith(kCleared));
  const int status = program.wait();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
}

// Adam's kernels become updates: as many as tensors that fill a frame.
TEST_F(SimulateCommand, UpdatesRunAtTheHost) {
  const std::string trace = std::string(SPILLWAY_SOURCE_DIR) + "/traces/h200/gpt2.swt";
  const auto updates = [&](const std::string& where, const std::string& settings) {
    const test::Outcome outcome =
        run("simulate --json --machine h200 --policy lookahead --as-run --queue-depth 300 " +
            where + " " + settings + " " + trace);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return objects(outcome.out).at(0)["updates"].get<int>();
  };
  EXPECT_EQ(updates("", ""), 0);
  EXPECT_GT(updates("--near-optimizer on", ""), 10);
  EXPECT_LE(updates("--near-optimizer auto", "--set device.capacity=2GiB"),
            updates("--near-optimizer on", "--set device.capacity=2GiB"));
  const test::Outcome unknown = run("simulate --near-optimizer on " + trace);
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.err, HasSubstr("set host.memory_bandwidth, or host.cores"));
}

}  // namespace
}  // namespace spillway
