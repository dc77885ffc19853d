// Our declarations of libcufile's calls against its own header: every signature, structure and
// value. Compiling it is the test. tools/cuda-headers.sh downloads the header.
#include <gtest/gtest.h>

#if __has_include(<cufile.h>) && __has_include(<cuda.h>)

#include <cufile.h>

#include <type_traits>

#include "platform/cuda/driver/cufile.h"
#include "platform/cuda/same_call.h"

namespace spillway::cuda {
namespace {

// What is returned is the same as well.
template <typename Ours, typename Theirs>
struct SameFunction : std::false_type {};
template <typename Result, typename TheirResult, typename... Ours, typename... Theirs>
  requires(sizeof...(Ours) == sizeof...(Theirs))
struct SameFunction<Result (*)(Ours...), TheirResult(Theirs...)>
    : std::bool_constant<(std::is_same_v<Result, TheirResult> ||
                          (std::is_same_v<Result, CuFileError> &&
                           std::is_same_v<TheirResult, CUfileError_t>)) &&
                         (same_parameter<Ours, Theirs>() && ...)> {};

#define SPILLWAY_COMPARE(field, symbol) \
  static_assert(SameFunction<decltype(CuFile::field), decltype(::symbol)>::value, #symbol)
SPILLWAY_COMPARE(use_count, cuFileUseCount);
SPILLWAY_COMPARE(driver_open, cuFileDriverOpen);
SPILLWAY_COMPARE(handle_deregister, cuFileHandleDeregister);
SPILLWAY_COMPARE(handle_register, cuFileHandleRegister);
SPILLWAY_COMPARE(read, cuFileRead);
SPILLWAY_COMPARE(write, cuFileWrite);
#undef SPILLWAY_COMPARE
// Its structure is smaller than ours, which has room for what is added to it.
static_assert(
    std::is_same_v<decltype(::cuFileDriverGetProperties), CUfileError_t(CUfileDrvProps_t*)>);
static_assert(sizeof(CuFileProperties) >= sizeof(CUfileDrvProps_t));

SPILLWAY_SAME_SIZE(CuFileError, CUfileError_t);
SPILLWAY_SAME_PLACE(CuFileError, error, CUfileError_t, err);
SPILLWAY_SAME_PLACE(CuFileError, driver_error, CUfileError_t, cu_err);
SPILLWAY_SAME_SIZE(CuFileDescription, CUfileDescr_t);
SPILLWAY_SAME_PLACE(CuFileDescription, type, CUfileDescr_t, type);
SPILLWAY_SAME_PLACE(CuFileDescription, file, CUfileDescr_t, handle);
SPILLWAY_SAME_PLACE(CuFileDescription, file.descriptor, CUfileDescr_t, handle.fd);
SPILLWAY_SAME_PLACE(CuFileDescription, operations, CUfileDescr_t, fs_ops);
SPILLWAY_SAME_PLACE(CuFileProperties, module_major, CUfileDrvProps_t, nvfs.major_version);
SPILLWAY_SAME_PLACE(CuFileProperties, module_minor, CUfileDrvProps_t, nvfs.minor_version);
SPILLWAY_SAME_PLACE(CuFileProperties, poll_kib, CUfileDrvProps_t, nvfs.poll_thresh_size);
SPILLWAY_SAME_PLACE(CuFileProperties, direct_io_kib, CUfileDrvProps_t, nvfs.max_direct_io_size);
SPILLWAY_SAME_PLACE(CuFileProperties, file_systems, CUfileDrvProps_t, nvfs.dstatusflags);
SPILLWAY_SAME_PLACE(CuFileProperties, control, CUfileDrvProps_t, nvfs.dcontrolflags);
static_assert(offsetof(CuFileProperties, other) == offsetof(CUfileDrvProps_t, fflags));
SPILLWAY_EQUAL(kCuFileDescriptor, CU_FILE_HANDLE_TYPE_OPAQUE_FD);
SPILLWAY_EQUAL(kCuFileAllowsCompatibility, 1U << CU_FILE_ALLOW_COMPAT_MODE);
#if CUDA_VERSION >= 13000
SPILLWAY_EQUAL(kCuFilePlainIo, 1U << CU_FILE_VANILLA_POSIX_IO_MODE);
SPILLWAY_EQUAL(kCuFileFallsBack, 1U << CU_FILE_FALLBACK_IO_MODE);
#endif
SPILLWAY_EQUAL(kCuFileAlreadyOpen, CU_FILE_DRIVER_ALREADY_OPEN);

TEST(CuFileAbi, DeclarationsAreThoseOfTheLibrary) { SUCCEED() << "it compiles"; }

}  // namespace
}  // namespace spillway::cuda

#else

TEST(CuFileAbi, DeclarationsAreThoseOfTheLibrary) {
  GTEST_SKIP() << "no cufile.h: run tools/cuda-headers.sh";
}

#endif
