// See direct_storage.h.
#include "platform/cuda/direct_storage.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "platform/common/service_thread.h"

namespace spillway::cuda {
namespace {

// A disk wants several requests at once; libcufile cuts large ones by itself.
constexpr std::size_t kThreads = 4;

void* pointer(CuAddress address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

// The disk's own errors, which another way would meet as well.
bool is_of_the_disk(int error) {
  return error == EIO || error == ENOSPC || error == EFBIG || error == EDQUOT;
}

// Page-aligned, because the swap file is read past the page cache.
class TrialMemory {
 public:
  TrialMemory()
      : words_(static_cast<std::uint64_t*>(std::aligned_alloc(kPageBytes, kBlockBytes))) {}
  TrialMemory(const TrialMemory&) = delete;
  TrialMemory& operator=(const TrialMemory&) = delete;
  ~TrialMemory() { std::free(words_); }  // NOLINT(*-no-malloc)

  static constexpr std::size_t kWords = kBlockBytes / sizeof(std::uint64_t);
  [[nodiscard]] std::uint64_t* words() const { return words_; }
  void fill() const {
    for (std::size_t i = 0; i < kWords; ++i) {
      words_[i] = word(i);
    }
  }
  void clear() const { std::memset(words_, 0, kBlockBytes); }
  [[nodiscard]] bool holds_it() const {
    for (std::size_t i = 0; i < kWords; ++i) {
      if (words_[i] != word(i)) {
        return false;
      }
    }
    return true;
  }

 private:
  // No two words are the same.
  static std::uint64_t word(std::size_t i) { return (i + 1) * 0x9E37'79B9'7F4A'7C15U; }
  std::uint64_t* words_;
};

}  // namespace

Result<std::unique_ptr<DirectStorage>> DirectStorage::make(const Driver& driver, StorageIo& storage,
                                                           const Options& options) {
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
    const std::scoped_lock lock(mutex_);
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
  CuFileDescription description{};
  description.type = kCuFileDescriptor;
  description.file.descriptor = storage_->file().fd();
  const CuFileError result = calls_.handle_register(&file_, &description);
  if (result.error != 0) {
    file_ = nullptr;
    return make_error(ErrorCode::kUnsupported, "the swap file is refused: {}",
                      error_text("cuFileHandleRegister", result));
  }
  return {};
}

// On memory like that of blocks: a handle, mapped for the device alone.
Status DirectStorage::try_it() {
  CuDevice device = 0;
  CuAddress address = 0;
  CuMemHandle handle = 0;
  CuStream stream = nullptr;
  bool mapped = false;
  const auto prepare = [&] {
    CuResult result = driver_.context_device(&device);
    CuAllocationProperties properties{};
    properties.type = CuAllocationType::kPinned;
    properties.location = {.type = CuLocationType::kDevice, .id = device};
    properties.flags.rdma_capable = 1;
    const CuAccessDescription access{.location = properties.location,
                                     .access = CuAccess::kReadWrite};
    const auto next = [&result](CuResult of_call) { result = of_call; };
    if (result == CuResult::kSuccess) {
      next(driver_.address_reserve(&address, kBlockBytes, 0, 0, 0));
    }
    if (result == CuResult::kSuccess) {
      next(driver_.memory_create(&handle, kBlockBytes, &properties, 0));
    }
    if (result == CuResult::kSuccess) {
      next(driver_.memory_map(address, kBlockBytes, 0, handle, 0));
      mapped = result == CuResult::kSuccess;
    }
    if (result == CuResult::kSuccess) {
      next(driver_.memory_set_access(address, kBlockBytes, &access, 1));
    }
    if (result == CuResult::kSuccess) {
      next(driver_.stream_create(&stream, kCuStreamNonBlocking, 0));
    }
    return result;
  };
  Status fine = check(driver_, "memory that the disk may reach", prepare());
  if (fine) {
    fine = try_on(address, stream);
  }
  if (stream != nullptr) {
    (void)driver_.stream_destroy(stream);
  }
  if (mapped) {
    (void)driver_.memory_unmap(address, kBlockBytes);
  }
  if (handle != 0) {
    (void)driver_.memory_release(handle);
  }
  if (address != 0) {
    (void)driver_.address_free(address, kBlockBytes);
  }
  return fine;
}

// Written from the device, read by the host, and read into the device again: staged transfers of
// the same file must see the same bytes.
Status DirectStorage::try_on(CuAddress address, CuStream stream) {
  const TrialMemory memory;
  const Run start{.at = 0, .bytes = kBlockBytes};
  const auto end = [&](CuResult issued) {
    return issued == CuResult::kSuccess && driver_.stream_synchronize(stream) == CuResult::kSuccess;
  };
  const auto copied_in = [&] {
    return end(driver_.copy_in(address, memory.words(), kBlockBytes, stream));
  };
  const auto failed = [](const char* what) {
    return make_error(ErrorCode::kUnsupported, "tried on the swap file: {}", what);
  };
  memory.fill();
  if (!copied_in()) {
    return failed("the driver refused a copy");
  }
  told_ = true;  // what is refused here is told by what is returned
  if (move_run(true, address, start) != 0) {
    return failed("libcufile could not write from the device");
  }
  memory.clear();
  if (storage_->read_now(memory.words(), kBlockBytes, 0) != 0 || !memory.holds_it()) {
    return failed("other bytes are in the file than were written");
  }
  memory.clear();
  if (!copied_in()) {
    return failed("the driver refused a copy");
  }
  if (move_run(false, address, start) != 0) {
    return failed("libcufile could not read into the device");
  }
  if (!end(driver_.copy_out(memory.words(), address, kBlockBytes, stream)) || !memory.holds_it()) {
    return failed("other bytes came back than were written");
  }
  told_ = false;
  return {};
}

void DirectStorage::start(Transfer transfer) {
  {
    const std::scoped_lock lock(mutex_);
    transfers_.push_back(std::move(transfer));
  }
  wanted_.notify_one();
}

void DirectStorage::work() {
  stay_out_of_captures(driver_);
  (void)driver_.context_set_current(context_);
  std::unique_lock lock(mutex_);
  while (true) {
    wanted_.wait(lock, [this] { return stop_ || !transfers_.empty(); });
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

int DirectStorage::move(const Transfer& transfer) {
  CuAddress address = transfer.address;
  for (const Run& run : transfer.storage) {
    storage_->begins(transfer.write);
    const TimeNs since_ns = now_ns();
    const int error = move_run(transfer.write, address, run);
    storage_->ended(transfer.write, error == 0 ? run.bytes : 0);
    if (options_.times != nullptr) {
      using What = WorkTimes::What;
      options_.times->add(error == kRefused ? What::kDirectRefused
                          : transfer.write  ? What::kDirectWrite
                                            : What::kDirectRead,
                          now_ns() - since_ns);
    }
    if (error != 0) {
      return error;
    }
    address += run.bytes;
  }
  return 0;
}

int DirectStorage::move_run(bool write, CuAddress address, const Run& run) {
  if ((run.at | run.bytes | address) % kPageBytes != 0) {
    return kRefused;  // libcufile would go through host memory for the rest of a page
  }
  if (!storage_->file().intact()) {
    return EBADF;  // nothing may go to a file that is somebody else's
  }
  const auto offset = static_cast<off_t>(run.at);
  errno = 0;
  const ssize_t moved = write ? calls_.write(file_, pointer(address), run.bytes, offset, 0)
                              : calls_.read(file_, pointer(address), run.bytes, offset, 0);
  const int error_number = errno;
  if (moved == static_cast<ssize_t>(run.bytes)) {
    return 0;
  }
  if (moved == -1 && is_of_the_disk(error_number)) {
    // As StorageIo::submit has it.
    return write && error_number == EFBIG ? ENOSPC : error_number;
  }
  tell_refusal(write, run, moved, error_number);
  return kRefused;
}

void DirectStorage::tell_refusal(bool write, const Run& run, ssize_t moved, int error_number) {
  {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(told_, true) || !options_.warn) {
      return;
    }
  }
  const std::string what = moved >= 0    ? fmt::format("{} bytes were moved", moved)
                           : moved == -1 ? std::string(std::strerror(error_number))
                                         : fmt::format("error {}", -moved);
  options_.warn(
      fmt::format("GPUDirect Storage could not {} {} bytes at offset {}: {}; what it "
                  "refuses goes through host memory",
                  write ? "write" : "read", run.bytes, run.at, what));
}

}  // namespace spillway::cuda
