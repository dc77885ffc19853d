// A trace that is not there is the caller's mistake, whichever command it is given to.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/program.h"

namespace spillway {
namespace {

class MissingTrace : public test::ProgramTest {};

// `reproduce` is not among them: it looks for traces in a folder, and says which it lacks.
TEST_F(MissingTrace, IsOneLineAndStatus2InEveryCommand) {
  for (const char* command :
       {"trace info nowhere.swt", "trace convert nowhere.swt to.json", "analyze nowhere.swt",
        "plan nowhere.swt", "simulate --policy ideal,g10 nowhere.swt"}) {
    expect_refusal(command, 2, "nowhere.swt: cannot open: No such file or directory");
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "to.json"));
}

// Nor is there anything below a file.
TEST_F(MissingTrace, AlsoWhereItsFolderIsAFile) {
  std::ofstream(folder_ / "file") << "text";
  expect_refusal("trace info file/nowhere.swt", 2, "file/nowhere.swt: cannot open");
}

}  // namespace
}  // namespace spillway
