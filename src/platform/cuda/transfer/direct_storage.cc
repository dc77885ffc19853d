// See direct_storage.h.
#include "platform/cuda/transfer/direct_storage.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "platform/common/process/service_thread.h"

namespace spillway::cuda {
namespace {

// A disk wants several requests at once; libcufile cuts large ones by itself.
constexpr std::size_t kThreads = 4;

void* pointer(CuAddress address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

// Below it, what a disk has written need not be visible to kernels without a flush.
constexpr int kOrderedForTheDevice = 100;

Status check_order_of_writes(const Driver& driver) {
  CuDevice device = 0;
  int ordering = 0;
  Status asked = check(driver, "cuCtxGetDevice", driver.context_device(&device));
  if (asked) {
    asked = check(driver, "cuDeviceGetAttribute",
                  driver.device_attribute(&ordering, CuAttribute::kRdmaWritesOrdering, device));
  }
  if (asked && ordering < kOrderedForTheDevice) {
    return make_error(ErrorCode::kUnsupported,
                      "what a disk writes to this device need not be visible to kernels");
  }
  return asked;
}

// libcufile refuses descriptors that were opened with O_TMPFILE, which they keep for ever.
Descriptor open_again(int fd) {
  const std::string path = fmt::format("/proc/self/fd/{}", fd);
  const int flags = O_RDWR | O_CLOEXEC;
  const int direct = ::open(path.c_str(), flags | O_DIRECT);
  return Descriptor(direct >= 0 ? direct : ::open(path.c_str(), flags));
}

}  // namespace

Result<std::unique_ptr<DirectStorage>> DirectStorage::make(const Driver& driver, StorageIo& storage,
                                                           const Options& options) {
  if (Status ordered = check_order_of_writes(driver); !ordered) {
    return tl::unexpected<Error>(ordered.error());
  }
  const Result<CuFile> calls = open_cufile(options.place);
  if (!calls) {
    return tl::unexpected<Error>(calls.error());
  }
  std::unique_ptr<DirectStorage> made(new DirectStorage(driver, storage, options, *calls));
  Status fine = check(driver, "cuCtxGetCurrent", driver.context_get_current(&made->context_));
  if (fine) {
    fine = made->register_file();
  }
  if (fine) {
    fine = made->try_it();
  }
  if (!fine) {
    return tl::unexpected<Error>(fine.error());
  }
  for (std::size_t i = 0; i < kThreads; ++i) {
    made->threads_.push_back(service_thread("spw-cuda-direct", [it = made.get()] { it->work(); }));
  }
  return made;
}

DirectStorage::DirectStorage(const Driver& driver, StorageIo& storage, Options options,
                             const CuFile& calls)
    : driver_(driver), storage_(&storage), options_(std::move(options)), calls_(calls) {}

DirectStorage::~DirectStorage() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  wanted_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
  if (file_ != nullptr) {
    calls_.handle_deregister(file_);
  }
}

Status DirectStorage::register_file() {
  descriptor_ = open_again(storage_->file().fd());
  if (!storage_->file().is_behind(descriptor_.get())) {
    return make_error(ErrorCode::kUnsupported, "the swap file cannot be opened again");
  }
  CuFileDescription description{};
  description.type = kCuFileDescriptor;
  description.file.descriptor = descriptor_.get();
  const CuFileError result = calls_.handle_register(&file_, &description);
  if (result.error != 0) {
    file_ = nullptr;
    return make_error(ErrorCode::kUnsupported, "the swap file is refused: {}",
                      error_text("cuFileHandleRegister", result));
  }
  return {};
}

void DirectStorage::start(Transfer transfer) {
  {
    const MutexLock lock(mutex_);
    transfers_.push_back(std::move(transfer));
  }
  wanted_.notify_one();
}

void DirectStorage::work() {
  stay_out_of_captures(driver_);
  (void)driver_.context_set_current(context_);
  MutexLock lock(mutex_);
  while (true) {
    mutex_.wait(wanted_,
                [this]() SPILLWAY_REQUIRES(mutex_) { return stop_ || !transfers_.empty(); });
    if (transfers_.empty()) {
      return;
    }
    const Transfer transfer = std::move(transfers_.front());
    transfers_.pop_front();
    lock.unlock();
    transfer.done(move(transfer));
    lock.lock();
  }
}

bool DirectStorage::move(const Transfer& transfer) {
  CuAddress address = transfer.address;
  for (const Run& run : transfer.storage) {
    storage_->begins(transfer.write);
    const TimeNs since_ns = now_ns();
    const std::string reason = move_run(transfer.write, address, run);
    const bool moved = reason.empty();
    storage_->ended(transfer.write, moved ? run.bytes : 0);
    if (options_.times != nullptr) {
      using What = WorkTimes::What;
      options_.times->add(!moved           ? What::kDirectRefused
                          : transfer.write ? What::kDirectWrite
                                           : What::kDirectRead,
                          now_ns() - since_ns);
    }
    if (!moved) {
      tell_refusal(transfer.write, run, reason);
      return false;
    }
    address += run.bytes;
  }
  return true;
}

// Empty if all of it has been moved, or why not.
std::string DirectStorage::move_run(bool write, CuAddress address, const Run& run) {
  if ((run.at | run.bytes | address) % kPageBytes != 0) {
    return "no whole pages";  // libcufile would go through host memory for the rest of one
  }
  if (!storage_->file().is_behind(descriptor_.get())) {
    return std::strerror(EBADF);  // nothing may go to a file that is somebody else's
  }
  const auto offset = static_cast<off_t>(run.at);
  errno = 0;
  const ssize_t moved = write ? calls_.write(file_, pointer(address), run.bytes, offset, 0)
                              : calls_.read(file_, pointer(address), run.bytes, offset, 0);
  const int error_number = errno;
  if (moved == static_cast<ssize_t>(run.bytes)) {
    return {};
  }
  return moved >= 0    ? fmt::format("{} bytes were moved", moved)
         : moved == -1 ? std::string(std::strerror(error_number))
                       : fmt::format("error {}", -moved);
}

void DirectStorage::tell_refusal(bool write, const Run& run, const std::string& reason) {
  {
    const MutexLock lock(mutex_);
    if (std::exchange(told_, true) || !options_.warn) {
      return;
    }
  }
  options_.warn(
      fmt::format("GPUDirect Storage could not {} {} bytes at offset {}: {}; what it "
                  "refuses goes through host memory",
                  write ? "write" : "read", run.bytes, run.at, reason));
}

}  // namespace spillway::cuda
