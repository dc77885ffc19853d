// `spillway doctor` as a person calls it: what it finds is what the system says, and its exit
// status is whether `spillway run` works. Other programs that it asks are stood in for by scripts.
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "cli/program.h"
#include "platform/common/storage/block_io.h"
#include "platform/host/faults/userfault.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::Outcome;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

class DoctorCommand : public test::ProgramTest {
 protected:
  // A python3 that does this and nothing else, before the system's other programs.
  [[nodiscard]] std::string python_that(const std::string& does) const {
    const fs::path bin = folder_ / "bin";
    fs::create_directories(bin);
    std::ofstream(bin / "python3") << "#!/bin/sh\n" << does << "\n";
    fs::permissions(bin / "python3", fs::perms::owner_all);
    return fmt::format("PATH='{}':\"$PATH\"", bin.string());
  }
  [[nodiscard]] std::set<std::string> files_in(const std::string& name) const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ / name)) {
      names.insert(entry.path().filename());
    }
    return names;
  }
};

json parsed(const Outcome& outcome) {
  EXPECT_THAT(test::lines_of(outcome.out), SizeIs(1)) << outcome.out;
  json all = json::parse(outcome.out, nullptr, false);
  EXPECT_TRUE(all.is_object());
  return all;
}

TEST_F(DoctorCommand, JsonIsWhatTheSystemSays) {
  fs::create_directories(folder_ / "place");
  const Outcome outcome = run("doctor --json --storage place", python_that(R"(echo hello
echo '{"python": "3.99.1", "pytorch": "9.8.7", "operators": true}')"));
  EXPECT_THAT(outcome.err, IsEmpty());
  const json all = parsed(outcome);
  EXPECT_EQ(outcome.status, all["run_works"] == true ? 0 : 1);
  // On a GPU, if there is one.
  const json& trials = all["run"];
  EXPECT_EQ(all["run_works"],
            trials[trials.contains("gpu_trial") ? "gpu_trial" : "host_trial"]["value"]);

  const host::UserfaultSupport support = host::userfault_support();
  EXPECT_EQ(all["userfaultfd"]["opens"]["value"], support.opens);
  if (support.kernel_faults) {
    EXPECT_EQ(all["userfaultfd"]["kernel_faults"]["value"], true);
    EXPECT_EQ(all["userfaultfd"]["write_protection"]["value"], support.write_protection);
    EXPECT_EQ(all["userfaultfd"]["fork_events"]["value"], support.fork_events);
    EXPECT_TRUE(all["userfaultfd"]["moves_pages"]["value"].is_boolean());
  } else {
    EXPECT_EQ(trials["host_trial"]["value"], false);
  }

  cpu_set_t set;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(set), &set), 0);
  EXPECT_EQ(all["machine"]["cores"]["value"], CPU_COUNT(&set));
  EXPECT_GT(all["machine"]["memory_bytes"]["value"]["all"],
            all["machine"]["memory_bytes"]["value"]["available"]);
  for (const char* limit : {"overcommit", "address_space_bytes", "locked_memory_bytes"}) {
    EXPECT_TRUE(all["machine"].contains(limit)) << limit;
  }
  EXPECT_TRUE(all["machine"]["huge_pages"].contains("mark"));

  EXPECT_EQ(all["storage"]["io_uring"]["value"], io_uring_support().has_value());
  const bool direct = SwapFile::open(folder_ / "place", 0).has_value();
  EXPECT_EQ(all["storage"]["direct_io"]["value"], direct);
  EXPECT_EQ(all["storage"].contains("write_bytes_per_s"), direct);
  if (direct) {
    EXPECT_GT(all["storage"]["write_bytes_per_s"]["value"], 0);
    EXPECT_GT(all["storage"]["read_bytes_per_s"]["value"], 0);
  }
  EXPECT_THAT(files_in("place"), IsEmpty());

  EXPECT_EQ(all["gpu"]["devices"]["value"].empty(), all["gpu"]["devices"]["mark"] == "missing");
  EXPECT_EQ(all["python"]["python"]["value"], "3.99.1");
  EXPECT_EQ(all["python"]["pytorch"]["value"], "9.8.7");
  EXPECT_EQ(all["python"]["operators"]["value"], true);

  for (const auto& [group, facts] : all.items()) {
    if (!facts.is_object()) {
      continue;
    }
    for (const auto& [key, fact] : facts.items()) {
      SCOPED_TRACE(group + "." + key);
      EXPECT_THAT((std::set<std::string>{"ok", "slow", "missing"}),
                  testing::Contains(fact["mark"]));
      EXPECT_THAT(fact["text"].get<std::string>(), AllOf(Not(IsEmpty()), Not(HasSubstr("\n"))));
      EXPECT_TRUE(fact["mark"] != "ok" || !fact.contains("advice"));
    }
  }
}

TEST_F(DoctorCommand, TextHasALineAFactAndSaysWhatToDo) {
  const Outcome outcome =
      run("doctor --storage .",
          "ulimit -l 32 && " + python_that(R"(echo '{"python": "3.9", "error": "No torch"}')"));
  const std::vector<std::string> lines = test::lines_of(outcome.out);
  std::vector<std::string> titles;
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
    if (lines[i].empty()) {
      continue;
    }
    if (lines[i].front() != ' ') {
      titles.push_back(lines[i]);
      continue;
    }
    EXPECT_THAT((std::set<std::string>{"  ok       ", "  slow     ", "  missing  ", "           "}),
                testing::Contains(lines[i].substr(0, 11)));
  }
  EXPECT_THAT(titles, ElementsAre("spillway run", StartsWith("Page faults"), "Machine",
                                  "Storage at .", "GPU", "Python"));
  EXPECT_THAT(outcome.out,
              HasSubstr("  slow     32 KiB may be locked\n           -> `ulimit -l 64`"));
  EXPECT_THAT(outcome.out, HasSubstr("  missing  no PyTorch in python3: No torch\n"
                                     "           -> programs that use it need it: `python3 -m pip "
                                     "install torch`\n"));
  EXPECT_THAT(outcome.out,
              EndsWith(outcome.status == 0 ? "\n`spillway run` works here.\n"
                                           : "\n`spillway run` does not work here.\n"));
}

TEST_F(DoctorCommand, Status1AndTheReasonWhereARunDoesNotWork) {
  const Outcome outcome = run("doctor --json --storage .",
                              "TMPDIR=/no/such/folder " + python_that("echo broken >&2; exit 3"));
  EXPECT_EQ(outcome.status, 1);
  const json all = parsed(outcome);
  EXPECT_EQ(all["run_works"], false);
  EXPECT_EQ(all["run"]["host_trial"]["mark"], "missing");
  EXPECT_THAT(all["run"]["host_trial"]["advice"].get<std::string>(), HasSubstr("spillway run"));
  EXPECT_THAT(all["python"]["python"]["text"].get<std::string>(), HasSubstr("broken"));
}

TEST_F(DoctorCommand, SaysWhichProgramsAreNotThere) {
  const Outcome outcome = run("doctor --json --storage .", "PATH=/no/such/folder");
  EXPECT_EQ(outcome.status, 1);  // the trial's program is not there either
  const json all = parsed(outcome);
  EXPECT_EQ(all["python"]["python"]["mark"], "missing");
  EXPECT_THAT(all["python"]["python"]["text"].get<std::string>(), HasSubstr("python3"));
  EXPECT_THAT(all["python"]["python"]["advice"].get<std::string>(), HasSubstr("apt-get install"));
}

TEST_F(DoctorCommand, RefusesToMeasureWhatIsNoFolder) {
  std::ofstream(folder_ / "file") << "contents";
  expect_refusal("doctor --storage no/such/folder", 2, "--storage no/such/folder: no such folder");
  expect_refusal("doctor --storage file", 2, "--storage file: not a folder");
  EXPECT_EQ(test::read_file(folder_ / "file"), "contents");
}

#ifdef FAKE_CUDA_LIBRARY
// Each trial is of the device that it says; what decides is the one that a run would take.
TEST_F(DoctorCommand, AMachineWithAGpuIsTriedOnItsGpu) {
  const std::string driver = fmt::format("SPILLWAY_CUDA_DRIVER='{}'", FAKE_CUDA_LIBRARY);
  const Outcome outcome = run("doctor --json --storage .", driver);
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  const json all = parsed(outcome);
  EXPECT_EQ(all["run_works"], true);
  EXPECT_EQ(all["run"]["gpu_trial"]["mark"], "ok") << all["run"];
  EXPECT_THAT(all["run"]["gpu_trial"]["text"].get<std::string>(),
              HasSubstr("more than it had of the device"));
  EXPECT_EQ(all["run"]["host_trial"]["value"], host::userfault_support().kernel_faults);
  EXPECT_THAT(run("doctor --storage .", driver).out, EndsWith("\n`spillway run` works here.\n"));
  // A policy that has nowhere to move to is refused before anything is tried.
  const Outcome refused = run("doctor --json --storage .", driver + " SPILLWAY_POLICY=none-such");
  EXPECT_EQ(refused.status, 1);
  EXPECT_EQ(parsed(refused)["run"]["gpu_trial"]["mark"], "missing");
}

TEST_F(DoctorCommand, TellsWhatTheGpuAndItsDriverOffer) {
  const Outcome outcome =
      run("doctor --json", fmt::format("SPILLWAY_CUDA_DRIVER='{}'", FAKE_CUDA_LIBRARY));
  const json gpu = parsed(outcome)["gpu"];
  EXPECT_EQ(gpu["name"]["value"], "Fake device");
  EXPECT_GT(gpu["memory_bytes"]["value"].get<std::uint64_t>(), 0U);
  EXPECT_EQ(gpu["cuda"]["value"]["devices"], 1);
  EXPECT_GE(gpu["cuda"]["value"]["version"].get<int>(), 12'000);
  EXPECT_EQ(gpu["copy_engines"]["value"], 3);
  for (const char* const key : {"virtual_memory", "stream_values", "unified_addressing"}) {
    EXPECT_EQ(gpu[key]["mark"], "ok") << key;
  }
  EXPECT_EQ(gpu["pinned_memory"]["value"]["supported"], true);
  EXPECT_THAT(gpu["handle_types"]["value"], ElementsAre("file descriptor"));
  EXPECT_TRUE(gpu.contains("gpudirect_storage"));
}

TEST_F(DoctorCommand, SaysWhetherARunWouldTryGpuDirectStorage) {
  const auto fact = [&](const char* module, const char* node, const char* word) {
    return parsed(
        run("doctor --json",
            fmt::format("SPILLWAY_CUDA_DRIVER='{}' SPILLWAY_NVIDIA_FS={} "
                        "SPILLWAY_NVIDIA_FS_NODE={} CUFILE_ALLOW_COMPAT_MODE={}",
                        FAKE_CUDA_LIBRARY, module, node, word)))["gpu"]["gpudirect_storage"];
  };
  const json there = fact("/proc", "/dev/null", "false");
  EXPECT_EQ(there["mark"], "ok");
  EXPECT_EQ(there["value"]["tried_by_runs"], true);
  EXPECT_THAT(there["text"].get<std::string>(), HasSubstr("a run tries it"));
  const auto expect_missing = [](const json& it, const char* key, const char* text,
                                 const char* advice) {
    EXPECT_EQ(it["mark"], "missing");
    EXPECT_EQ(it["value"][key], false);
    EXPECT_EQ(it["value"]["tried_by_runs"], false);
    EXPECT_THAT(it["text"].get<std::string>(), HasSubstr(text));
    EXPECT_THAT(it["advice"].get<std::string>(), HasSubstr(advice));
  };
  expect_missing(fact("/no/such/module", "/dev/null", "false"), "nvidia_fs",
                 "nvidia-fs is not loaded", "load nvidia-fs");
  expect_missing(fact("/proc", "/no/such/node", "false"), "device_node",
                 "device node cannot be opened", "/dev/nvidia-fs0");
  expect_missing(fact("/proc", "/dev/null", "true"), "compatibility_mode_off",
                 "CUFILE_ALLOW_COMPAT_MODE=false is not set", "set CUFILE_ALLOW_COMPAT_MODE=false");
}
#endif

TEST_F(DoctorCommand, SaysWhyThereIsNoDriver) {
  const json all = parsed(run("doctor --json", "SPILLWAY_CUDA_DRIVER=/no/such/libcuda.so.1"));
  // Somebody thinks that there is a GPU: it is not passed over in silence. What runs take decides.
  EXPECT_EQ(all["run"]["gpu_trial"]["mark"], "missing");
  EXPECT_THAT(all["run"]["gpu_trial"]["text"].get<std::string>(),
              HasSubstr("no program could be tried with --device cuda: no NVIDIA driver"));
  EXPECT_EQ(all["run_works"], all["run"]["host_trial"]["value"]);
  const json& gpu = all["gpu"];
  EXPECT_EQ(gpu["cuda"]["mark"], "missing");
  EXPECT_THAT(gpu["cuda"]["text"].get<std::string>(), HasSubstr("no NVIDIA driver"));
  EXPECT_FALSE(gpu.contains("name"));
}

}  // namespace
}  // namespace spillway
