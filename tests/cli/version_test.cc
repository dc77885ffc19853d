// What --version says, and what a build knows of its commit.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "cli/program.h"

namespace spillway::test {
namespace {

namespace fs = std::filesystem;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::SizeIs;

class Version : public ProgramTest {
 protected:
  std::string shell(const std::string& command) const {
    const fs::path out = folder_ / "shell-output";
    EXPECT_EQ(std::system(
                  fmt::format("cd '{}' && ({}) >'{}' 2>&1", folder_.string(), command, out.string())
                      .c_str()),
              0)
        << command << read_file(out);
    std::string text = read_file(out);
    text.erase(text.find_last_not_of('\n') + 1);
    return text;
  }
  // What a build of the folder `sources` is compiled with.
  [[nodiscard]] std::string generated() const {
    shell(
        fmt::format("cmake -DFOLDER='{0}/sources' -DVERSION=1.2.3 -DOUTPUT='{0}/version.cc' -P "
                    "'{1}/cmake/Version.cmake'",
                    folder_.string(), SPILLWAY_SOURCE_DIR));
    return read_file(folder_ / "version.cc");
  }
};

TEST_F(Version, SaysWhichCommitAndWhichDriver) {
  const Outcome none = run("--version", "SPILLWAY_CUDA_DRIVER=/no/such/libcuda.so.1");
  EXPECT_EQ(none.status, 0);
  EXPECT_THAT(none.err, testing::IsEmpty());
  const std::vector<std::string> lines = lines_of(none.out);
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_THAT(lines[0], ContainsRegex("^spillway [0-9]+\\.[0-9]+\\.[0-9]+, commit [^ ]+$"));
  EXPECT_THAT(lines[1], ContainsRegex("^driver   none: /no/such/libcuda.so.1: "));
#ifdef FAKE_CUDA_LIBRARY
  const Outcome there =
      run("--version", fmt::format("SPILLWAY_CUDA_DRIVER='{}'", FAKE_CUDA_LIBRARY));
  EXPECT_THAT(there.out, HasSubstr(fmt::format("driver   {}, CUDA ",
                                               fs::canonical(FAKE_CUDA_LIBRARY).string())));
#endif
}

TEST_F(Version, OfWhatIsNoCloneTheCommitIsUnknown) {
  fs::create_directories(folder_ / "sources");
  EXPECT_THAT(generated(), HasSubstr("\"unknown\""));
  EXPECT_THAT(generated(), HasSubstr("\"1.2.3\""));
  // Nor is it the commit of a repository around it.
  shell("git init -q . && git -c user.name=a -c user.email=b commit -q --allow-empty -m around");
  EXPECT_THAT(generated(), HasSubstr("\"unknown\""));
}

TEST_F(Version, OfACloneItIsWhatGitSays) {
  shell(
      "git init -q sources && cd sources && echo 1 > file && git add file && "
      "git -c user.name=a -c user.email=b commit -q -m first");
  const std::string commit = shell("git -C sources rev-parse --short=12 HEAD");
  EXPECT_THAT(generated(), HasSubstr("\"" + commit + "\""));
  const auto written = fs::last_write_time(folder_ / "version.cc");
  shell("sleep 0.05");
  (void)generated();
  EXPECT_EQ(fs::last_write_time(folder_ / "version.cc"), written);  // nothing is compiled again
  shell("echo 2 > sources/file");
  EXPECT_THAT(generated(), HasSubstr("\"" + commit + "-dirty\""));
  shell("git -C sources checkout -q file && git -C sources tag v9.8.7");
  EXPECT_THAT(generated(), HasSubstr("\"v9.8.7\""));
}

}  // namespace
}  // namespace spillway::test
