// Every reason not to use direct storage, on the fake libcufile: storage is reached through pinned
// memory then, as everywhere else.
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "platform/cuda/direct_world.h"

namespace spillway::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Nobody is told: storage works as it does everywhere else.
class NoDirectStorage : public DirectStorageOnFakes {
 protected:
  void expect_staged() {
    open_direct();
    rewrite_all(1);
    EXPECT_GT(moved(Tier::kDevice, Tier::kStorage), 0U);
    EXPECT_GE(counters().copied_out_bytes, moved(Tier::kDevice, Tier::kStorage));
    EXPECT_EQ(count("direct_read") + count("direct_write") + count("direct_refused"), 0U);
    EXPECT_LE(seen().writes, 1U);
    EXPECT_EQ(seen().handles, 0U);
    EXPECT_THAT(warned, IsEmpty());
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
  expect_reason("CUFILE_ALLOW_COMPAT_MODE=false");
}

TEST_F(NoDirectStorage, WithALibraryThatIsSetToPlainReadsAndWrites) {
  for (const unsigned control : {kCuFilePlainIo, kCuFileFallsBack}) {
    files.control = control;
    fake_cufile_reset(&files);
    expect_reason("set to go through host memory");
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

// A library that nobody has opened yet: another file.
class UnopenedLibrary : public NoDirectStorage {
 protected:
  UnopenedLibrary() {
    std::filesystem::copy_file(FAKE_CUFILE_LIBRARY, copy_,
                               std::filesystem::copy_options::overwrite_existing);
    options.cufile.library = copy_;
    library_ = ::dlopen(options.cufile.library.c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(library_, nullptr);
  }
  ~UnopenedLibrary() override {
    ::dlclose(library_);
    std::filesystem::remove(copy_);
  }
  template <typename Function>
  Function* found(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(library_, name));
  }

  // Tests run side by side.
  std::filesystem::path copy_ =
      std::filesystem::absolute(fmt::format("libcufile_unopened_{}.so", ::getpid()));
  void* library_ = nullptr;
};

TEST_F(UnopenedLibrary, ThatDoesNotOpenIsNotUsed) {
  files.open_error = 5007;
  found<decltype(fake_cufile_reset)>("fake_cufile_reset")(&files);
  expect_staged();
  expect_reason("cuFileDriverOpen: error 5007");
}

TEST_F(UnopenedLibrary, ThatTheProgramHasOpenedIsNotUsed) {
  found<decltype(fake_cufile_reset)>("fake_cufile_reset")(&files);
  start();
  EXPECT_EQ(found<CuFileError()>("cuFileDriverOpen")().error, 0);
  expect_staged();
  expect_reason("the program uses libcufile itself");
}

}  // namespace
}  // namespace spillway::cuda
