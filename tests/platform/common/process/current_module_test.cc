// In which module a thread runs: each thread's own, kept when the caller's text is gone, and not
// without bound.
#include "platform/common/process/current_module.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "platform/common/kept_names.h"

namespace spillway {
namespace {

TEST(CurrentModule, IsEachThreadsOwnAndStays) {
  EXPECT_EQ(current_module(), "");
  std::string_view kept;
  {
    std::string name = "transformer.h.12.mlp";
    set_current_module(name);
    kept = current_module();
    name.assign(name.size(), 'x');
  }
  EXPECT_EQ(kept, "transformer.h.12.mlp");
  std::thread([kept] {
    EXPECT_EQ(current_module(), "");
    set_current_module(std::string("transformer.h.12") + ".mlp");
    EXPECT_EQ(current_module().data(), kept.data());  // kept once
  }).join();
  set_current_module({});
  EXPECT_EQ(current_module(), "");
  EXPECT_EQ(kept, "transformer.h.12.mlp");
}

TEST(KeptNames, OneMoreThanItKeepsIsAnother) {
  KeptNames names;
  const std::string_view first = names.keep("0", "(others)");
  for (std::size_t i = 1; i < KeptNames::kMost; ++i) {
    names.keep(std::to_string(i), "(others)");
  }
  EXPECT_EQ(names.keep("one more", "(others)"), "(others)");
  EXPECT_EQ(names.keep("0", "(others)").data(), first.data());
}

}  // namespace
}  // namespace spillway
