// Every reason not to use direct storage, on the fake libcufile: storage is reached through pinned
// memory then, as everywhere else.
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "platform/cuda/direct_world.h"

namespace spillway::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Storage works as it does everywhere else; who has asked for more with a word is told in a line.
class NoDirectStorage : public DirectStorageOnFakes {
 protected:
  void expect_staged() {
    open_direct();
    expect_all_staged();
  }
  void expect_all_staged() {
    rewrite_all(1);
    EXPECT_GT(moved(Tier::kDevice, Tier::kStorage), 0U);
    EXPECT_GE(counters().copied_out_bytes, moved(Tier::kDevice, Tier::kStorage));
    EXPECT_EQ(count("direct_read") + count("direct_write") + count("direct_refused"), 0U);
    EXPECT_LE(seen().writes, 1U);
    EXPECT_EQ(seen().handles, 0U);
    const std::scoped_lock lock(said_mutex);
    if (cufile_needs(options.cufile).word) {
      EXPECT_THAT(warned, ElementsAre(StartsWith("direct storage is off: ")));
    } else {
      EXPECT_THAT(warned, IsEmpty());
    }
  }
  void expect_reason(const std::string& reason) const {
    const Result<CuFile> opened = open_cufile(options.cufile);
    ASSERT_FALSE(opened);
    EXPECT_THAT(opened.error().message, HasSubstr(reason));
  }
};

TEST_F(NoDirectStorage, WithoutTheKernelModule) {
  options.cufile.module = "no/such/module";
  expect_staged();
  expect_reason("the kernel module nvidia-fs is not loaded");
}

TEST_F(NoDirectStorage, WithoutTheLibrary) {
  options.cufile.library = "/no/such/libcufile.so.0";
  expect_staged();
  expect_reason("no libcufile");
}

TEST_F(NoDirectStorage, WithALibraryThatLacksTheCalls) {
  options.cufile.library = FAKE_CUDA_LIBRARY;
  expect_staged();
  expect_reason("libcufile has no cuFile");
}

TEST_F(NoDirectStorage, WithALibraryThatDoesNotUseTheModule) {
  files.module_major = files.module_minor = 0;
  expect_staged();
  expect_reason("does not use nvidia-fs");
}

TEST_F(NoDirectStorage, WithCompatibilityModeAllowed) {
  files.control = kCuFileAllowsCompatibility;
  expect_staged();
  expect_reason("may go through host memory all the same");
}

TEST_F(NoDirectStorage, WithALibraryThatIsSetToPlainReadsAndWrites) {
  for (const unsigned control : {kCuFilePlainIo, kCuFileFallsBack}) {
    files.control = control;
    fake_cufile_reset(&files);
    expect_reason("may go through host memory all the same");
  }
  expect_staged();
}

TEST_F(NoDirectStorage, WithASwapFileThatIsRefused) {
  files.register_error = 5008;
  expect_staged();
}

TEST_F(NoDirectStorage, WithATrialThatIsRefused) {
  files.spared = 0;
  files.refused = 1;
  expect_staged();
}

TEST_F(NoDirectStorage, WithATrialThatComesShort) {
  files.spared = 0;
  files.too_short = 1;
  expect_staged();
}

TEST_F(NoDirectStorage, WithOtherBytesReadThanWereWritten) {
  files.wrong_reads = 1;
  expect_staged();
}

TEST_F(NoDirectStorage, WithWritesThatDoNotReachTheFile) {
  files.lost_writes = 1;
  expect_staged();
}

// A library that nobody has opened yet: another file, which the test has loaded already.
class UnopenedLibrary : public NoDirectStorage {
 protected:
  UnopenedLibrary() {
    std::filesystem::copy_file(FAKE_CUFILE_LIBRARY, copy_,
                               std::filesystem::copy_options::overwrite_existing);
    options.cufile.library = copy_;
    library_ = ::dlopen(copy_.c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(library_, nullptr);
    reset_files = found<decltype(fake_cufile_reset)>("fake_cufile_reset");
    count_files = found<decltype(fake_cufile_counters)>("fake_cufile_counters");
  }
  ~UnopenedLibrary() override {
    ::dlclose(library_);
    std::filesystem::remove(copy_);
  }
  template <typename Function>
  Function* found(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(library_, name));
  }
  void expect_unopened(const std::string& reason) {
    expect_staged();
    expect_reason(reason);
    EXPECT_EQ(seen().opens, 0U);
  }

  // Tests run side by side, and a name is loaded once in a process.
  static std::string name() {
    static int number = 0;
    return fmt::format("libcufile_{}_{}.so", ::getpid(), ++number);
  }
  std::filesystem::path copy_ = std::filesystem::absolute(name());
  void* library_ = nullptr;
};

// What the tests below expect of `opens` is worth something.
TEST_F(UnopenedLibrary, IsOpenedWhereEverythingIsThere) {
  open_direct();
  EXPECT_EQ(seen().opens, 1U);
  EXPECT_EQ(seen().handles, 1U);
  rewrite_all(1);
  EXPECT_GT(seen().writes, 1U);
}

TEST_F(UnopenedLibrary, StaysSoWithoutTheUsersWord) {
  const std::string reason = "CUFILE_ALLOW_COMPAT_MODE=false is not set";
  ::unsetenv(kCuFileCompatibilityVariable);
  expect_unopened(reason);
  for (const char* const word : {"", "true", "0", "falsely"}) {
    ::setenv(kCuFileCompatibilityVariable, word, 1);
    expect_reason(reason);
  }
  EXPECT_EQ(seen().opens, 0U);
}

TEST_F(UnopenedLibrary, TakesTheUsersWordInAnyCase) {
  ::setenv(kCuFileCompatibilityVariable, "FaLSE", 1);
  open_direct();
  EXPECT_EQ(seen().opens, 1U);
}

TEST_F(UnopenedLibrary, StaysSoWithoutTheModule) {
  options.cufile.module = "no/such/module";
  expect_unopened("the kernel module nvidia-fs is not loaded");
}

TEST_F(UnopenedLibrary, StaysSoWithoutTheDeviceNode) {
  options.cufile.node = "/no/such/nvidia-fs0";
  expect_unopened("its device node cannot be opened to read and write");
}

TEST_F(UnopenedLibrary, StaysSoWithoutASwapFile) {
  options.host_bytes = 64 * kMiB;
  reset_files(&files);
  open();
  Buffer buffer = allocate(6 * kMiB);
  const CuStream on = stream();
  fill(on, buffer, 1);
  synchronize(on);
  EXPECT_EQ(seen().opens, 0U);
}

TEST_F(UnopenedLibrary, StaysSoWhereKernelsNeedNotSeeWhatADiskWrites) {
  change_driver = [](Driver& /*the same*/) {
    fake_cuda_set_attribute(static_cast<int>(CuAttribute::kRdmaWritesOrdering), 0);
  };
  expect_staged();
  EXPECT_EQ(seen().opens, 0U);
}

TEST_F(UnopenedLibrary, ThatDoesNotOpenIsNotUsed) {
  files.open_error = 5007;
  expect_unopened("cuFileDriverOpen: error 5007");
}

TEST_F(UnopenedLibrary, ThatTheProgramHasOpenedIsNotUsed) {
  reset_files(&files);
  start();
  EXPECT_EQ(found<CuFileError()>("cuFileDriverOpen")().error, 0);
  open(base_uvm, 128 * kMiB);
  expect_all_staged();
  expect_reason("the program uses libcufile itself");
  EXPECT_EQ(seen().opens, 1U);
}

}  // namespace
}  // namespace spillway::cuda
