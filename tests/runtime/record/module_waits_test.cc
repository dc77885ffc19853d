// Waits by module: what is one line to a reader, and how much it waited.
#include "runtime/record/module_waits.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(ModuleWaits, LayersAreOneName) {
  EXPECT_EQ(without_numbers("transformer.h.12.mlp"), "transformer.h.*.mlp");
  EXPECT_EQ(without_numbers("transformer.h.12 (backward)"), "transformer.h.* (backward)");
  EXPECT_EQ(without_numbers("features.0"), "features.*");
  EXPECT_EQ(without_numbers("conv1"), "conv1");
  EXPECT_EQ(without_numbers("3"), "3");  // of a model that is a list
  EXPECT_EQ(without_numbers("3 (backward)"), "3 (backward)");
  EXPECT_EQ(without_numbers("optimizer"), "optimizer");
  EXPECT_EQ(without_numbers("a..b."), "a..b.");  // whatever a script may call itself
}

TEST(ModuleWaits, AreSumsLongestFirst) {
  const auto row = [](const char* name, const char* module, TimeNs host_ns, TimeNs storage_ns) {
    return LaunchWaits{.name = name,
                       .module = module,
                       .launches = 2,
                       .blocks = 3,
                       .wait_ns = host_ns + storage_ns + 1,
                       .host_ns = host_ns,
                       .storage_ns = storage_ns,
                       .fresh_ns = 1};
  };
  LaunchWaits idle = row("optimizer add", "optimizer", 0, 0);
  idle.wait_ns = 0;
  LaunchWaits seldom = row("h.1.mlp copy", "h.1.mlp", 0, 0);
  seldom.wait_ns = seldom.fresh_ns = 0;
  const std::vector<LaunchWaits> sums = waits_by_module(
      {row("sum", "", 20, 0), row("h.0.mlp addmm", "h.0.mlp", 10, 1),
       row("h.1.mlp addmm", "h.1.mlp", 10, 2), row("h.1.mlp gelu", "h.1.mlp", 10, 3),
       row("h.1.mlp (backward) mm", "h.1.mlp (backward)", 5, 0), idle, seldom});
  ASSERT_EQ(sums.size(), 3U);
  EXPECT_EQ(sums[0].name, "h.*.mlp");
  EXPECT_EQ(sums[0].launches, 8U);
  EXPECT_EQ(sums[0].blocks, 12U);
  EXPECT_EQ(sums[0].wait_ns, 39);
  EXPECT_EQ(sums[0].host_ns, 30);
  EXPECT_EQ(sums[0].storage_ns, 6);
  EXPECT_EQ(sums[0].fresh_ns, 3);
  EXPECT_EQ(sums[1].name, "(no module)");
  EXPECT_EQ(sums[2].name, "h.*.mlp (backward)");
}

TEST(ModuleWaits, AreNothingWhereNoModuleIsKnown) {
  EXPECT_TRUE(waits_by_module({}).empty());
  EXPECT_TRUE(waits_by_module({{.name = "sum", .module = "", .wait_ns = 5}}).empty());
}

}  // namespace
}  // namespace spillway
