// Policies by name, and what each assumes of the world.
#include "policy/registry.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "policy/deepum.h"
#include "policy/page_machine.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const PolicyTraits& traits_of(std::string_view name) { return find_policy(name).value()->traits; }

TEST(Registry, NamesInTheOrderOfTables) {
  std::vector<std::string_view> names;
  for (const PolicyInfo& info : all_policies()) {
    names.push_back(info.name);
    EXPECT_FALSE(info.summary.empty()) << info.name;
  }
  EXPECT_THAT(names, ElementsAre("ideal", "base_uvm", "deepum", "deepum_plus", "autovm",
                                 "flashneuron", "g10_gds", "g10_host", "g10", "lookahead"));
}

TEST(Registry, FindsEachByItsName) {
  for (const PolicyInfo& info : all_policies()) {
    const Result<const PolicyInfo*> found = find_policy(info.name);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(*found, &info);
  }
}

TEST(Registry, UnknownNamesGetTheListInOneLine) {
  for (const std::string_view name : {"G10", "g1", "", "g10 "}) {
    const Result<const PolicyInfo*> found = find_policy(name);
    ASSERT_FALSE(found.has_value()) << name;
    EXPECT_EQ(found.error().code, ErrorCode::kInvalidInput);
    EXPECT_THAT(found.error().message, HasSubstr(fmt::format("'{}'", name)));
    for (const PolicyInfo& info : all_policies()) {
      EXPECT_THAT(found.error().message, HasSubstr(std::string(info.name)));
    }
    EXPECT_EQ(found.error().message.find('\n'), std::string::npos);
  }
}

TEST(Registry, TraitsAreThoseOfThePapers) {
  for (const PolicyInfo& info : all_policies()) {
    EXPECT_EQ(info.traits.unlimited_device, info.name == "ideal") << info.name;
    // Unified memory alone is not told when the program's allocator frees (DeepUM section 5.2).
    EXPECT_EQ(info.traits.told_of_deaths, info.name != "base_uvm") << info.name;
    // DeepUM drops dead blocks when they become victims, not before.
    EXPECT_EQ(info.traits.reclaims_dead_first, info.name != "deepum" && info.name != "deepum_plus")
        << info.name;
  }
  // G10 section 7.2: only the full G10 has the extended unified memory.
  EXPECT_TRUE(traits_of("g10").pages);
  for (const std::string_view name : {"flashneuron", "g10_gds", "g10_host"}) {
    EXPECT_FALSE(traits_of(name).pages) << name;
  }
  for (const std::string_view name : {"flashneuron", "g10_gds"}) {
    EXPECT_FALSE(traits_of(name).uses_host) << name;
    EXPECT_TRUE(traits_of(name).uses_storage) << name;
  }
  EXPECT_FALSE(traits_of("deepum").uses_storage);
  // AutoVM section 3.2: unified memory, host memory below it.
  EXPECT_TRUE(traits_of("autovm").pages);
  EXPECT_FALSE(traits_of("autovm").uses_storage);
  EXPECT_TRUE(traits_of("deepum_plus").uses_storage);
}

TEST(Registry, MakesPoliciesThatBearTheirNames) {
  const Trace trace =
      test::trace_of_uses({test::weight(1), test::intermediate(2)}, {{0, 1}, {1}, {0}});
  for (const PolicyInfo& info : all_policies()) {
    const Result<std::unique_ptr<Policy>> made = info.make(trace, test::page_machine(100), {});
    ASSERT_TRUE(made.has_value()) << info.name << ": " << made.error().message;
    EXPECT_EQ((*made)->name(), info.name);
    EXPECT_EQ((*made)->recomputes(), info.traits.recomputes) << info.name;
  }
}

TEST(Registry, OptionsReachDeepUm) {
  EXPECT_EQ(deepum_options({}).degree, 32U);
  EXPECT_EQ(deepum_plus_options({}).degree, 8U);
  EXPECT_EQ(deepum_options({}).table.num_rows, 2048U);
  PolicyOptions options;
  options.prefetch_degree = 3;
  options.table_rows = 64;
  for (const DeepUmOptions& result : {deepum_options(options), deepum_plus_options(options)}) {
    EXPECT_EQ(result.degree, 3U);
    EXPECT_EQ(result.table.num_rows, 64U);
  }
}

}  // namespace
}  // namespace spillway
