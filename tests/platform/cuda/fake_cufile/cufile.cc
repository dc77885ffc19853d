// The calls of libcufile that Spillway makes, on the fake driver's memory and real files.
// docs/testing.md. Fake libcufile.
#include "platform/cuda/driver/cufile.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "fake_cuda.h"
#include "fake_cufile.h"

using spillway::cuda::CuContext;
using spillway::cuda::CuFileDescription;
using spillway::cuda::CuFileError;
using spillway::cuda::CuFileHandle;
using spillway::cuda::CuFileProperties;
using spillway::cuda::CuResult;

extern "C" {
// Of the driver, whichever answers: what libcufile calls beside a transfer.
CuResult cuCtxGetCurrent(CuContext* context);
CuResult cuMemAlloc_v2(std::uint64_t* address, std::size_t bytes);
CuResult cuMemFree_v2(std::uint64_t address);
}

namespace {

constexpr int kNotOpen = 5001;
constexpr int kNotSupported = 5008;
constexpr int kPointerInvalid = 5012;
constexpr int kFileFlags = 5019;
constexpr int kNoSuchHandle = 5027;
constexpr int kNoContext = 5047;
constexpr std::uint64_t kPage = 4096;
constexpr std::size_t kOwnBytes = 1U << 20U;

struct Library {
  Library() { fake_cufile_default_config(&config); }
  std::mutex mutex;
  std::condition_variable changed;  // the configuration
  FakeCuFileConfig config{};
  FakeCuFileCounters counters{};
  std::set<int*> files;  // a handle is a descriptor's place
};

Library& library() {
  static Library one;
  return one;
}

CuFileError error(int number) { return {number, CuResult::kSuccess}; }

// In [0, 1), from the seed and the number of the transfer.
double dice(std::uint64_t seed, std::uint64_t number) {
  std::uint64_t x = seed * 0x9E37'79B9'7F4A'7C15U + number * 0xBF58'476D'1CE4'E5B9U;
  x = (x ^ (x >> 30U)) * 0xBF58'476D'1CE4'E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D0'49BB'1331'11EBU;
  return static_cast<double>((x ^ (x >> 31U)) >> 11U) * 0x1p-53;
}

int wrong_call(int number) {
  const std::lock_guard lock(library().mutex);
  ++library().counters.wrong_calls;
  return -number;
}

struct Fate {
  bool refused = false;
  bool too_short = false;
  bool fails = false;
};

Fate fate_of_next(const FakeCuFileConfig& config) {
  Library& it = library();
  const std::lock_guard lock(it.mutex);
  const std::uint64_t number = it.counters.begun++;
  if (number < config.spared) {
    return {};
  }
  const double thrown = dice(config.seed, number);
  Fate fate;
  fate.refused = thrown < config.refused;
  fate.too_short = !fate.refused && thrown < config.refused + config.too_short;
  fate.fails =
      !fate.refused && !fate.too_short && thrown < config.refused + config.too_short + config.fails;
  it.counters.refused += fate.refused ? 1U : 0U;
  it.counters.too_short += fate.too_short ? 1U : 0U;
  it.counters.failed += fate.fails ? 1U : 0U;
  return fate;
}

// All of it, or -1 and errno.
bool move_all(bool write, int fd, char* memory, std::size_t bytes, off_t offset) {
  for (std::size_t done = 0; done < bytes;) {
    const off_t at = offset + static_cast<off_t>(done);
    const ssize_t moved = write ? ::pwrite(fd, memory + done, bytes - done, at)
                                : ::pread(fd, memory + done, bytes - done, at);
    if (moved <= 0) {
      errno = moved == 0 ? EIO : errno;
      return false;
    }
    done += static_cast<std::size_t>(moved);
  }
  return true;
}

ssize_t move(bool write, CuFileHandle handle, void* base, std::size_t bytes, off_t offset,
             off_t base_offset) {
  FakeCuFileConfig config{};
  int fd = -1;
  {
    const std::lock_guard lock(library().mutex);
    config = library().config;
    const auto file = library().files.find(static_cast<int*>(handle));
    fd = file == library().files.end() ? -1 : **file;
  }
  CuContext context = nullptr;
  char* const memory = static_cast<char*>(base) + base_offset;
  const auto address = reinterpret_cast<std::uint64_t>(memory);
  if (fd < 0) {
    return wrong_call(kNoSuchHandle);
  }
  if (cuCtxGetCurrent(&context) != CuResult::kSuccess || context == nullptr) {
    return wrong_call(kNoContext);
  }
  if ((address | bytes | static_cast<std::uint64_t>(offset)) % kPage != 0) {
    return wrong_call(kNotSupported);
  }
  // Host memory behind the device's addresses has not been made for it either, and is refused.
  if (fake_cuda_is_for_rdma(address) == 0) {
    return -kPointerInvalid;
  }
  const Fate fate = fate_of_next(config);
  if (fate.refused) {
    return -kNotSupported;
  }
  if (fate.fails) {
    errno = config.fails_with;
    return -1;
  }
  void* const use = fake_cuda_use_begins(address, bytes, write ? 0 : 1);
  if (use == nullptr) {
    return wrong_call(kPointerInvalid);
  }
  {
    std::unique_lock lock(library().mutex);
    library().changed.wait(lock, [] { return library().config.held == 0; });
  }
  std::this_thread::sleep_for(std::chrono::nanoseconds(config.slow_ns));
  const std::size_t moved_bytes = fate.too_short ? bytes / 2 / kPage * kPage : bytes;
  const bool done =
      (write && config.lost_writes != 0) || move_all(write, fd, memory, moved_bytes, offset);
  const int error_number = errno;
  if (done && !write && config.wrong_reads != 0) {
    memory[moved_bytes / 2] = static_cast<char>(memory[moved_bytes / 2] ^ 1);
  }
  fake_cuda_use_ends(use);
  if (!done) {
    errno = error_number;
    return -1;
  }
  const std::lock_guard lock(library().mutex);
  FakeCuFileCounters& counters = library().counters;
  if (!fate.too_short) {
    ++(write ? counters.writes : counters.reads);
    (write ? counters.write_bytes : counters.read_bytes) += moved_bytes;
  }
  return static_cast<ssize_t>(moved_bytes);
}

}  // namespace

extern "C" {

void fake_cufile_default_config(FakeCuFileConfig* config) {
  *config = {};
  config->module_major = 2;
  config->module_minor = 17;
  config->spared = 2;
  config->fails_with = EIO;
}

void fake_cufile_reset(const FakeCuFileConfig* config) {
  Library& it = library();
  const std::lock_guard lock(it.mutex);
  it.config = *config;
  it.counters = {};
}

void fake_cufile_change(const FakeCuFileConfig* config) {
  const std::lock_guard lock(library().mutex);
  library().config = *config;
  library().changed.notify_all();
}

void fake_cufile_counters(FakeCuFileCounters* counters) {
  const std::lock_guard lock(library().mutex);
  *counters = library().counters;
  counters->handles = library().files.size();
}

long cuFileUseCount() {
  const std::lock_guard lock(library().mutex);
  return static_cast<long>(library().counters.opens);
}

CuFileError cuFileDriverOpen() {
  {
    const std::lock_guard lock(library().mutex);
    if (library().config.open_error != 0) {
      return error(library().config.open_error);
    }
    ++library().counters.opens;
  }
  // Memory of its own, as libcufile takes some for transfers of memory that nobody has registered.
  std::uint64_t own = 0;
  if (cuMemAlloc_v2(&own, kOwnBytes) == CuResult::kSuccess) {
    (void)cuMemFree_v2(own);
  }
  return error(0);
}

CuFileError cuFileDriverGetProperties(CuFileProperties* properties) {
  const std::lock_guard lock(library().mutex);
  *properties = {};
  properties->module_major = library().config.module_major;
  properties->module_minor = library().config.module_minor;
  properties->control = library().config.control;
  return error(0);
}

CuFileError cuFileHandleRegister(CuFileHandle* handle, CuFileDescription* description) {
  const std::lock_guard lock(library().mutex);
  if (library().config.register_error != 0) {
    return error(library().config.register_error);
  }
  if (description->type != spillway::cuda::kCuFileDescriptor ||
      description->operations != nullptr) {
    return error(kNotOpen);
  }
  // As libcufile does; a descriptor keeps these for ever.
  const int flags = ::fcntl(description->file.descriptor, F_GETFL);
  if (flags < 0 || (flags & (O_TMPFILE | O_DIRECTORY)) != 0) {
    return error(kFileFlags);
  }
  *handle = *library().files.insert(new int(description->file.descriptor)).first;
  return error(0);
}

void cuFileHandleDeregister(CuFileHandle handle) {
  const std::lock_guard lock(library().mutex);
  int* const file = static_cast<int*>(handle);
  if (library().files.erase(file) > 0) {
    delete file;
  }
}

ssize_t cuFileRead(CuFileHandle handle, void* memory, std::size_t bytes, off_t offset,
                   off_t memory_offset) {
  return move(false, handle, memory, bytes, offset, memory_offset);
}

ssize_t cuFileWrite(CuFileHandle handle, const void* memory, std::size_t bytes, off_t offset,
                    off_t memory_offset) {
  return move(true, handle, const_cast<void*>(memory), bytes, offset, memory_offset);
}

}  // extern "C"
