// A program that knows nothing of Spillway, under `spillway run --device cuda` on the fake driver:
// it reaches the driver in each way that real ones use, needs several times its budget, and looks
// at every word; the fake driver looks at its rules. docs/interposer.md.
#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace spillway::test {
namespace {

struct What {
  std::string way = "dlopen";
  std::string scenario = "patterns";
  std::string policy = "base_uvm";
  int budget_mib = 16;
};

void PrintTo(const What& what, std::ostream* out) {
  *out << what.way << ' ' << what.scenario << ' ' << what.policy << ' ' << what.budget_mib;
}

class Interposer : public ProgramTest, public ::testing::WithParamInterface<What> {
 protected:
  [[nodiscard]] Outcome run_on_gpu(const What& what, const std::string& options = "",
                                   const std::string& environment = "") const {
    const std::string program =
        what.way == "linked" ? CUDA_PROGRAM_LINKED : CUDA_PROGRAM;  // by the build
    const std::string policy = what.policy.empty() ? "" : "--policy " + what.policy;
    return run(fmt::format("run --device cuda --device-memory {}MiB --host-memory 256MiB {} {} -- "
                           "{} {} {}",
                           what.budget_mib, policy, options, program, what.way, what.scenario),
               fmt::format("{1} SPILLWAY_CUDA_DRIVER='{0}' LD_LIBRARY_PATH=$(dirname '{0}')",
                           FAKE_CUDA_LIBRARY, environment));
  }
  // "wrong 0 violations 0 peak 16777216 ..."
  static std::map<std::string, std::uint64_t> numbers(const std::string& line) {
    std::map<std::string, std::uint64_t> found;
    std::istringstream words(line);
    std::string name;
    std::uint64_t value = 0;
    while (words >> name >> value) {
      found[name] = value;
    }
    return found;
  }
};

// How often the program waited for a look at its memory.
std::uint64_t looks_of(const std::string& record) {
  std::uint64_t looks = 0;
  for (const nlohmann::json& it : nlohmann::json::parse(record)["longest_waits"]) {
    looks += it["name"] == "look at addresses" ? it["launches"].get<std::uint64_t>() : 0;
  }
  return looks;
}

TEST_P(Interposer, EveryWordIsRightWithinTheBudget) {
  const Outcome outcome = run_on_gpu(GetParam());
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const auto seen = numbers(lines_of(outcome.out).back());
  EXPECT_EQ(seen.at("wrong"), 0U);
  EXPECT_EQ(seen.at("violations"), 0U) << outcome.out;
  // Products that are made again need a workspace of ours, and places for biases.
  // Handles that are mapped twice, or exported, are the driver's, and so are pools of the host,
  // whose memory the fake driver takes for the device's.
  const int ours_mib = GetParam().scenario == "products"               ? 8
                       : GetParam().scenario == "mapped-by-the-driver" ? 6
                       : GetParam().scenario == "pools"                ? 2
                                                                       : 0;
  EXPECT_LE(seen.at("peak"), static_cast<std::uint64_t>(GetParam().budget_mib + ours_mib) << 20U);
  EXPECT_GT(seen.at("launches"), 0U);
  // The record has been made, and told.
  EXPECT_THAT(outcome.err,
              ::testing::HasSubstr(fmt::format("{} MiB of device memory", GetParam().budget_mib)));
}

std::string name_of(const ::testing::TestParamInfo<What>& info) {
  std::string name = info.param.way + "_" + info.param.scenario + "_" + info.param.policy;
  std::erase_if(name, [](char c) { return c == '-' || c == ' '; });
  return name;
}

INSTANTIATE_TEST_SUITE_P(Ways, Interposer,
                         ::testing::Values(What{.way = "linked"}, What{.way = "dlopen"},
                                           What{.way = "default"}, What{.way = "libc"},
                                           What{.way = "dlvsym"}, What{.way = "proc1"},
                                           What{.way = "proc2"}, What{.way = "plugin"}),
                         name_of);

std::vector<What> scenarios() {
  std::vector<What> all;
  for (const char* const scenario : {"copies", "events", "memsets", "threads", "temporaries",
                                     "lists", "questions", "too-much", "graphs", "fork", "free"}) {
    all.push_back({.scenario = scenario});
  }
  for (const char* const policy : {"base_uvm", "lookahead"}) {
    for (const char* const scenario :
         {"captured",      "refused",         "values",         "tables",         "late-tables",
          "host-lists",    "peers",           "contexts",       "batches",        "hand-graphs",
          "disabled",      "conditional",     "thread-streams", "tensor-maps",    "foreign-streams",
          "next-context",  "refused-records", "free-waits",     "free-captures",  "ends",
          "resets",        "contexts-end",    "flag-kernels",   "flag-copies",    "flag-streams",
          "crowd",         "open-captures",   "pools",          "kept-tables",    "captured-tables",
          "crowd-events",  "large-graphs",    "asked-ahead",    "waiting-tables", "moving-lists",
          "shifted-tables"}) {
      all.push_back({.scenario = scenario, .policy = policy});
    }
  }
  for (const char* const policy : {"base_uvm", "lookahead"}) {
    for (const char* const scenario :
         {"expandable", "expandable-ends", "expandable-graphs", "random-expandable", "growing",
          "mapped-tables", "mapped-questions", "mapped-by-the-driver", "mapped-graphs",
          "mapped-ends", "random-mapped"}) {
      all.push_back({.scenario = scenario, .policy = policy});
    }
  }
  for (const char* const policy : {"deepum", "lookahead", "g10"}) {
    for (const char* const scenario :
         {"patterns", "threads", "temporaries", "graphs", "steps", "products"}) {
      all.push_back({.scenario = scenario, .policy = policy});
    }
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Scenarios, Interposer, ::testing::ValuesIn(scenarios()), name_of);

// `cuda_program dlopen random SEED trace` tells each step.
constexpr std::array<int, 5> kSeeds{4, 7, 9, 10, 12};

std::vector<What> random_programs() {
  std::vector<What> all;
  for (const int seed : kSeeds) {
    for (const char* const policy : {"base_uvm", "lookahead", "deepum", "g10"}) {
      all.push_back({.scenario = fmt::format("random {}", seed), .policy = policy});
    }
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Random, Interposer, ::testing::ValuesIn(random_programs()), name_of);

using InterposerTest = Interposer;

// Each of the processes has the budget for itself.
TEST_F(InterposerTest, MemoryGoesToOtherProcessesAndComesFromThem) {
  for (const char* const way : {"linked", "proc2"}) {
    for (const char* const policy : {"base_uvm", "lookahead"}) {
      const Outcome outcome = run_on_gpu({.way = way, .scenario = "hand-over", .policy = policy});
      ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
      for (const std::string& line : lines_of(outcome.out)) {
        const auto seen = numbers(line);
        EXPECT_EQ(seen.at("wrong") + seen.at("violations"), 0U) << outcome.out;
        EXPECT_LE(seen.at("peak"), std::uint64_t{16} << 20U) << outcome.out;
      }
      EXPECT_THAT(outcome.err, ::testing::HasSubstr("no room for another 10 MiB"));
      EXPECT_THAT(outcome.err, ::testing::HasSubstr("it is not there any more"));
    }
  }
}

TEST_F(InterposerTest, MemoryOfAProcessThatHasEndedCannotBeOpened) {
  const Outcome outcome = run_on_gpu({.scenario = "hand-over-and-end"});
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.err, ::testing::ContainsRegex("memory of process [0-9]+ cannot be opened"));
}

TEST_F(InterposerTest, WhereADeviceHasNoHandlesForOthersThatIsSaid) {
  const Outcome outcome = run_on_gpu({.scenario = "hand-over-refused"});
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.err, ::testing::HasSubstr("cuIpcGetMemHandle is not supported"));
}

// What is wrong here is the random program itself, or the fake driver.
TEST_F(InterposerTest, RandomProgramsAreRightAlone) {
  for (const int seed : kSeeds) {
    EXPECT_EQ(std::system(fmt::format("LD_LIBRARY_PATH=$(dirname '{}') {} dlopen random {}",
                                      FAKE_CUDA_LIBRARY, CUDA_PROGRAM, seed)
                              .c_str()),
              0)
        << seed;
  }
}

TEST_F(InterposerTest, RandomProgramsAreRightWhereAllFits) {
  for (const int seed : kSeeds) {
    const Outcome outcome =
        run_on_gpu({.scenario = fmt::format("random {}", seed), .budget_mib = 128});
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.err, ::testing::HasSubstr("nothing moved"));
  }
}

TEST_F(InterposerTest, WhatIsKnownToBeReadLeavesWithoutACopy) {
  std::map<std::string, std::uint64_t> out;
  for (const char* const scenario : {"known-reads", "told-reads", "unknown-reads"}) {
    for (const char* const policy : {"base_uvm", "lookahead"}) {
      const Outcome outcome = run_on_gpu({.scenario = scenario, .policy = policy});
      ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
      out[scenario] += numbers(lines_of(outcome.out).back()).at("out");
    }
  }
  EXPECT_LT(out.at("known-reads"), out.at("unknown-reads") / 2);
  EXPECT_LT(out.at("told-reads"), out.at("unknown-reads") / 2);
}

// Although it came for being read, and nobody names it who writes it.
TEST_F(InterposerTest, WhatIsWrittenByAnAddressOnTheDeviceIsNotLost) {
  for (const char* const how :
       {"by-kernels", "by-values", "by-graphs", "by-copies", "by-written-values",
        "by-graphs-values", "by-variables", "by-graphs-variables", "while-quiet"}) {
    for (const char* const policy : {"base_uvm", "lookahead"}) {
      const Outcome outcome =
          run_on_gpu({.scenario = fmt::format("exposed-{}", how), .policy = policy});
      EXPECT_EQ(outcome.status, 0) << how << policy << outcome.out << outcome.err;
    }
  }
}

// Six times 4 MiB through 16, ten times.
TEST_F(InterposerTest, WhatOnlyPyTorchUsesLeavesWithoutACopyWhoeverHasItsAddress) {
  const Outcome outcome = run_on_gpu({.scenario = "exposed-and-read"});
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const auto seen = numbers(lines_of(outcome.out).back());
  EXPECT_GE(seen.at("in"), std::uint64_t{120} << 20U);
  // Once each, and what was stored before, by a kernel that may follow what it has stored.
  EXPECT_LE(seen.at("out"), std::uint64_t{112} << 20U);
}

// A table that has died with all that its segment of PyTorch's had names nothing.
TEST_F(InterposerTest, WhatADeadTableNamedIsUsedNoMore) {
  for (const char* const policy : {"base_uvm", "lookahead"}) {
    const Outcome outcome = run_on_gpu({.scenario = "dead-tables", .policy = policy});
    ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.err, ::testing::Not(::testing::HasSubstr("more than the device budget")));
  }
}

TEST_F(InterposerTest, TablesThatNobodySawBeingFilledAreLookedAt) {
  for (const char* const how :
       {"kernel", "kernel-twice", "large-copy", "copy-within", "graph", "in-tables"}) {
    for (const char* const policy : {"base_uvm", "lookahead"}) {
      const Outcome outcome =
          run_on_gpu({.scenario = fmt::format("filled-{}{}",
                                              how == std::string("in-tables") ? "" : "by-", how),
                      .policy = policy});
      EXPECT_EQ(outcome.status, 0) << how << policy << outcome.out << outcome.err;
    }
  }
}

TEST_F(InterposerTest, WhoNeverStoresAddressesIsNotLookedAtForLong) {
  const std::map<std::string, std::uint64_t> most = {{"looks-for-nothing", 6},  // three a kernel
                                                     {"looks-of-pytorch", 0},
                                                     {"looks-beside-capture", 0}};
  for (const auto& [scenario, looks] : most) {
    const Outcome outcome = run_on_gpu({.scenario = scenario}, "--json record");
    ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    EXPECT_LE(looks_of(read_file(folder_ / "record")), looks) << scenario;
  }
}

TEST_F(InterposerTest, WhatAnIllegalAccessMayBeIsSaid) {
  const Outcome outcome = run_on_gpu({.scenario = "hidden-address"});
  EXPECT_THAT(outcome.err,
              ::testing::ContainsRegex("illegal access .700.*follow addresses: .*add_mapped_at.*"
                                       "with --device-memory [0-9]+MiB, where everything fits"));
}

TEST_F(InterposerTest, WhoHasStoredAnAddressIsLookedAtAgainAndAgain) {
  for (const char* const policy : {"base_uvm", "lookahead"}) {
    const Outcome outcome = run_on_gpu({.scenario = "looks-for-something", .policy = policy});
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  }
}

// Each launch uses what its table names, and not what that has named before.
TEST_F(InterposerTest, WhatATableNamedBeforeItWasSentAnewIsUsedNoMore) {
  for (const char* const policy : {"base_uvm", "lookahead"}) {
    const Outcome outcome = run_on_gpu({.scenario = "replaced-tables", .policy = policy});
    ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.err, ::testing::Not(::testing::HasSubstr("more than the device budget")));
    // Two of 2 MiB for each of 48 launches, once to be filled and once to be looked at.
    EXPECT_LE(numbers(lines_of(outcome.out).back()).at("in"), std::uint64_t{300} << 20U);
  }
}

// Eight times as many addresses: less than three times eight, where each looking at all of the
// others would be sixty-four.
TEST_F(InterposerTest, ALongTableCostsAsMuchAsItIsLong) {
  const Outcome outcome = run_on_gpu({.scenario = "long-tables"});
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const std::vector<std::string> lines = lines_of(outcome.out);
  ASSERT_GE(lines.size(), 3U);
  const auto few = numbers(lines[0]);
  const auto many = numbers(lines[1]);
  ASSERT_EQ(many.at("addresses"), 8 * few.at("addresses"));
  EXPECT_LT(many.at("us"), 24 * few.at("us")) << outcome.out;
}

// What they name stays one tensor.
TEST_F(InterposerTest, ATableThatNamesOtherPlacesOfATensorAgainAndAgainCostsNoMore) {
  const Outcome outcome = run_on_gpu({.scenario = "interior-tables"});
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const std::vector<std::string> lines = lines_of(outcome.out);
  ASSERT_GE(lines.size(), 3U);
  EXPECT_LT(numbers(lines[1]).at("us"), 8 * numbers(lines[0]).at("us")) << outcome.out;
}

// A list's words are looked at for each launch, but those behind the first in an allocation are not
// looked up.
TEST_F(InterposerTest, AFullListCostsLittleMoreThanAnEmptyOne) {
  const Outcome outcome = run_on_gpu({.scenario = "full-lists"});
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const std::vector<std::string> lines = lines_of(outcome.out);
  ASSERT_GE(lines.size(), 3U);
  EXPECT_LT(numbers(lines[1]).at("addresses"), 30 * numbers(lines[0]).at("numbers")) << outcome.out;
}

// What measures best is the default; the environment may name another.
TEST_F(InterposerTest, WithoutAPolicyItIsLookahead) {
  for (const auto& [environment, policy] : std::map<std::string, std::string>{
           {"", "lookahead"}, {"SPILLWAY_POLICY=base_uvm", "base_uvm"}}) {
    const Outcome outcome = run_on_gpu({.policy = ""}, "--json record", environment);
    ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    EXPECT_EQ(nlohmann::json::parse(read_file(folder_ / "record"))["policy"], policy);
  }
}

// Nodes that are disabled would make it more than the budget.
TEST_F(InterposerTest, OfAGraphOnlyWhatRunsCounts) {
  for (const char* const scenario : {"disabled", "conditional"}) {
    const Outcome outcome = run_on_gpu({.scenario = scenario, .budget_mib = 12});
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.err, ::testing::Not(::testing::HasSubstr("more than the device budget")));
    EXPECT_THAT(outcome.err, ::testing::Not(::testing::HasSubstr("cannot tell what they use")));
  }
}

// Its nodes are launched one by one.
TEST_F(InterposerTest, AGraphMayUseMoreThanTheBudget) {
  const Outcome outcome = run_on_gpu({.scenario = "large-graphs"}, "--json record");
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.err, ::testing::Not(::testing::HasSubstr("more than the device budget")));
  const nlohmann::json record = nlohmann::json::parse(read_file(folder_ / "record"));
  EXPECT_THAT(record.dump(), ::testing::Not(::testing::HasSubstr("a graph of")));
}

TEST_F(InterposerTest, LaunchesAreNamedByTheModuleOfTheirThread) {
#ifdef __OPTIMIZE__
  constexpr bool kAllWait = true;
#else
  constexpr bool kAllWait = false;  // kernels are slower than copies
#endif
  const Outcome outcome =
      run_on_gpu({.scenario = "modules"}, "--json record --trace-events timeline");
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const nlohmann::json record = nlohmann::json::parse(read_file(folder_ / "record"));
  const auto has_row = [&record](const char* list, const std::string& start, std::uint64_t least) {
    return std::any_of(record[list].begin(), record[list].end(), [&](const nlohmann::json& row) {
      return row["name"].get<std::string>().starts_with(start) &&
             row["launches"].get<std::uint64_t>() >= least &&
             (row["wait_s"].get<double>() > 0 || !kAllWait);
    });
  };
  // One row for a kernel and module, whatever the kernel is given.
  for (const char* const start :
       {"h.0.mlp rewrite", "h.1.mlp rewrite", "h.1.mlp (backward) rewrite", "rewrite"}) {
    EXPECT_TRUE(has_row("longest_waits", start, start[0] == 'h' ? 12 : 1)) << start << record;
  }
  if (kAllWait) {
    EXPECT_TRUE(has_row("waits_by_module", "h.*.mlp", 24)) << record;
    EXPECT_TRUE(has_row("waits_by_module", "h.*.mlp (backward)", 12)) << record;
    EXPECT_TRUE(has_row("waits_by_module", "(no module)", 12)) << record;
  }
  EXPECT_EQ(record.dump().find("of another thread"), std::string::npos);
  const std::string timeline = read_file(folder_ / "timeline");
  EXPECT_THAT(timeline, ::testing::HasSubstr(R"("cat":"launch","name":"h.1.mlp (backward) )"));
  const nlohmann::json events = nlohmann::json::parse(timeline).at("traceEvents");
  EXPECT_TRUE(std::any_of(events.begin(), events.end(), [](const nlohmann::json& event) {
    return event.value("cat", "") == "transfer" && event["args"]["queued_us"].get<double>() > 0;
  }));
}

// What PyTorch's pointwise kernels and cuBLAS's products made is not moved.
TEST_F(InterposerTest, ResultsOfKnownKernelsAreMadeAgain) {
  for (const char* const scenario : {"steps", "products", "looked-up-products"}) {
    std::map<std::string, nlohmann::json> records;
    for (const char* const policy : {"base_uvm", "lookahead"}) {
      const Outcome outcome =
          run_on_gpu({.scenario = scenario, .policy = policy, .budget_mib = 32}, "--json record");
      ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
      EXPECT_EQ(numbers(lines_of(outcome.out).back()).at("wrong"), 0U);
      records[policy] = nlohmann::json::parse(read_file(folder_ / "record"));
    }
    EXPECT_EQ(records["base_uvm"]["given_up_bytes"], 0U);
    // Some of the eight layers' 4 MiB of each step but the first ones.
    EXPECT_GE(records["lookahead"]["given_up_bytes"].get<std::uint64_t>(), 8U * 4 << 20U)
        << scenario;
  }
}

// The first, before there is a space, and those that fail.
TEST_F(InterposerTest, TheRuntimeIsAskedOnlyForWhatIsNotOurs) {
  for (const int budget_mib : {16, 128}) {
    const Outcome outcome = run_on_gpu({.scenario = "runtime", .budget_mib = budget_mib});
    ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    const auto told = numbers(lines_of(outcome.out).front());
    EXPECT_EQ(told.at("runtime_calls"), 3U) << outcome.out;
    EXPECT_EQ(told.at("runtime_stays"), 1U) << outcome.out;
    // By place in the program, not by call: there are forty.
    EXPECT_LE(told.at("versions_asked"), 8U) << outcome.out;
    EXPECT_EQ(numbers(lines_of(outcome.out).back()).at("wrong"), 0U) << outcome.out;
  }
}

TEST_F(InterposerTest, WhatIsOutOfMemoryIsSaidInOneLine) {
  const Outcome outcome = run_on_gpu({.scenario = "too-much"}, "--json record");
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_THAT(outcome.err, ::testing::HasSubstr("raise --host-memory or --storage"));
  EXPECT_THAT(lines_of(outcome.err), ::testing::SizeIs(2)) << outcome.err;  // behind the first line
  const std::string record = read_file(folder_ / "record");
  EXPECT_THAT(record, ::testing::HasSubstr("\"refused_allocations\":1,"));
  EXPECT_THAT(record, ::testing::HasSubstr("\"refused_largest_bytes\":10485760000,"));
}

TEST_F(InterposerTest, ASlowLinkCarriesNoMoreThanItIsSaidTo) {
  constexpr double kBytesPerS = 200.0 * (1 << 20);
  const Outcome outcome = run_on_gpu({}, "--link-bandwidth 200MiB --json record");
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_EQ(numbers(lines_of(outcome.out).back()).at("wrong"), 0U) << outcome.out;
  const nlohmann::json record = nlohmann::json::parse(read_file(folder_ / "record"));
  for (const char* const way : {"host_to_device", "device_to_host"}) {
    const double bytes = record["moved_bytes"][way].get<double>();
    EXPECT_GT(bytes, kBytesPerS / 4) << way;
    EXPECT_GE(record["elapsed_s"].get<double>(), bytes / kBytesPerS) << way;
  }
}

TEST_F(InterposerTest, WhatTookHowLongIsToldWhereAFileIsNamed) {
  const Outcome outcome = run_on_gpu({.scenario = "copies"}, "", "SPILLWAY_WORK_TIMES=work");
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const std::string work = read_file(folder_ / "work");
  EXPECT_THAT(work, ::testing::StartsWith(R"({"create": {"count": )"));
  EXPECT_THAT(work, ::testing::HasSubstr(R"("stalled_unmapped": {"count": )"));
  // The program's calls by kind: all of each in our code, and in the driver's own unless we answer.
  const nlohmann::json told = nlohmann::json::parse(work);
  const auto count = [&told](const std::string& kind, const std::string& part) {
    return told.at(kind + part).at("count").get<int>() +
           told.at(kind + part + "_long").at("count").get<int>();
  };
  EXPECT_GE(count("copy", "_ours"), 20);
  EXPECT_EQ(count("copy", "_ours"), count("copy", "_driver"));
  EXPECT_EQ(told.at("copy_ours_median").at("count").get<int>(), count("copy", "_ours"));
  EXPECT_GT(told.at("copy_ours_median").at("s").get<double>(), 0.0);
  EXPECT_GE(count("allocation", "_ours"), 10);
  EXPECT_GT(count("synchronize", "_ours"), 0);
  EXPECT_EQ(told.at("allocation_driver").at("s").get<double>(), 0.0);
  EXPECT_GT(told.at("copy_driver").at("s").get<double>() +
                told.at("copy_driver_long").at("s").get<double>(),
            0.0);
  EXPECT_GT(told.at("timing").at("s").get<double>(), 0.0);
}

// The fake libcufile allocates memory and asks for the context as it works: those calls, by threads
// of ours, are none of the program's.
TEST_F(InterposerTest, StorageIsReachedDirectlyAndWhatItsLibraryCallsIsNotTheProgram) {
  const Outcome outcome =
      run(fmt::format(
              "run --device cuda --device-memory 16MiB --host-memory 8MiB --storage .:256MiB -- "
              "{} dlopen patterns",
              CUDA_PROGRAM),
          fmt::format(
              "SPILLWAY_CUDA_DRIVER='{0}' LD_LIBRARY_PATH=$(dirname '{0}') SPILLWAY_CUFILE='{1}' "
              "SPILLWAY_NVIDIA_FS=/proc SPILLWAY_NVIDIA_FS_NODE=/dev/null "
              "CUFILE_ALLOW_COMPAT_MODE=false SPILLWAY_WORK_TIMES=work",
              FAKE_CUDA_LIBRARY, FAKE_CUFILE_LIBRARY));
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const auto seen = numbers(lines_of(outcome.out).back());
  EXPECT_EQ(seen.at("wrong"), 0U);
  EXPECT_EQ(seen.at("violations"), 0U) << outcome.out;
  const nlohmann::json work = nlohmann::json::parse(read_file(folder_ / "work"));
  EXPECT_GT(work.at("direct_write").at("count").get<int>(), 0);
  EXPECT_EQ(work.at("direct_refused").at("count").get<int>(), 0);
}

TEST_F(InterposerTest, WithoutADriverThereIsNoGpu) {
  const std::string environment = "SPILLWAY_CUDA_DRIVER=/no/such/libcuda.so.1";
  expect_refusal(run("run --device cuda -- true", environment), 125, "no NVIDIA driver");
  EXPECT_EQ(run("run --device auto -- true", environment).status, 0);
  expect_refusal(run("run --device tpu -- true"), 2, "none of auto, cuda and host");
}

TEST_F(InterposerTest, PyTorchKeepsItsOwnAllocator) {
  const std::string driver = fmt::format("SPILLWAY_CUDA_DRIVER='{}'", FAKE_CUDA_LIBRARY);
  const Outcome own = run("run --device cuda -- sh -c 'env | grep -c ALLOC_CONF'", driver);
  EXPECT_EQ(own.out, "0\n");
  const Outcome kept = run("run --device cuda -- printenv PYTORCH_ALLOC_CONF",
                           driver + " PYTORCH_ALLOC_CONF=expandable_segments:True");
  EXPECT_EQ(kept.out, "expandable_segments:True\n");
}

TEST_F(InterposerTest, WhatOnlyTheDriverCanMapIsCountedAndSaid) {
  for (const char* const scenario : {"mapped-by-the-driver", "mapped-by-nccl"}) {
    const Outcome outcome = run_on_gpu({.scenario = scenario});
    ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.err, ::testing::HasSubstr("MiB by cuMemCreate"));
  }
  const Outcome outcome = run_on_gpu({.scenario = "growing"});
  EXPECT_THAT(outcome.err, ::testing::Not(::testing::HasSubstr("past the budget")));
}

TEST_F(InterposerTest, NoReservationOfPyTorchsIsEverFull) {
  const Outcome outcome = run_on_gpu({.scenario = "never-full"});
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.err, ::testing::HasSubstr("segment of PyTorch's has 0 B of 8 MiB in use"));
}

TEST_F(InterposerTest, PyTorchDividesAgainBeforeItIsRefusedAHandle) {
  for (const char* const scenario : {"divided-again", "divided-less"}) {
    const Outcome outcome = run_on_gpu({.scenario = scenario});
    EXPECT_EQ(outcome.status, 0) << scenario << outcome.out << outcome.err;
  }
}

TEST_F(InterposerTest, PoolsBeginAnewWhereADeviceIsReset) {
  const Outcome outcome = run_on_gpu({.scenario = "pools-after-a-reset"});
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
}

// Of 48 MiB that are mapped side by side.
TEST_F(InterposerTest, OfExpandableSegmentsKernelsUseTheTensorsThatTheyAreGiven) {
  for (const auto& [scenario, most_out_mib] : std::map<std::string, std::uint64_t>{
           {"expandable-tensors", 400}, {"expandable-deaths", 8}}) {
    for (const char* const policy : {"base_uvm", "lookahead"}) {
      const Outcome outcome = run_on_gpu({.scenario = scenario, .policy = policy});
      ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
      const auto seen = numbers(lines_of(outcome.out).back());
      EXPECT_EQ(seen.at("wrong") + seen.at("violations"), 0U) << outcome.out;
      EXPECT_LE(seen.at("out"), most_out_mib << 20U) << scenario << ' ' << policy;
      EXPECT_THAT(outcome.err, ::testing::Not(::testing::HasSubstr("more than the device budget")));
    }
  }
}

TEST_F(InterposerTest, JaxAsksForEachArrayUnlessAPersonHasChosen) {
  const std::string driver = fmt::format("SPILLWAY_CUDA_DRIVER='{}'", FAKE_CUDA_LIBRARY);
  const std::string both =
      "run --device cuda -- printenv XLA_PYTHON_CLIENT_ALLOCATOR XLA_PYTHON_CLIENT_PREALLOCATE";
  const Outcome chosen = run(both, driver);
  EXPECT_EQ(chosen.out, "cuda_async\nfalse\n");
  EXPECT_THAT(chosen.err, ::testing::Not(::testing::HasSubstr("JAX")));
  const Outcome kept = run(both, driver +
                                     " XLA_PYTHON_CLIENT_ALLOCATOR=platform "
                                     "XLA_PYTHON_CLIENT_PREALLOCATE=true");
  EXPECT_EQ(kept.out, "platform\ntrue\n");
  EXPECT_THAT(run(both, driver + " SPILLWAY_VERBOSE=1").err,
              ::testing::HasSubstr("XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async for JAX"));
}

}  // namespace
}  // namespace spillway::test
