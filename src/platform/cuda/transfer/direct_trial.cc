// Direct storage, tried before it is used: the same bytes through the device, the file and the
// host. See direct_storage.h.
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "platform/cuda/memory/device_blocks.h"
#include "platform/cuda/memory/handle_pool.h"
#include "platform/cuda/memory/host_handles.h"
#include "platform/cuda/transfer/direct_storage.h"

namespace spillway::cuda {
namespace {

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

// On memory as blocks have it: one block, by the pool's own calls.
Status DirectStorage::try_it() {
  constexpr BlockId kBlock = 0;
  CuDevice device = 0;
  CuAddress address = 0;
  CuStream stream = nullptr;
  CuResult result = driver_.context_device(&device);
  HandlePool pool(driver_, device, kBlockBytes);
  pool.make_for_direct_storage(true);
  HostHandles on_host(driver_, device, pool.times());
  DeviceBlocks blocks(driver_, pool, on_host, device);
  if (result == CuResult::kSuccess) {
    result = driver_.address_reserve(&address, kBlockBytes, 0, 0, 0);
  }
  if (result == CuResult::kSuccess) {
    result = blocks.back(kBlock, address, kBlockBytes);
  }
  if (result == CuResult::kSuccess) {
    result = driver_.stream_create(&stream, kCuStreamNonBlocking, 0);
  }
  Status fine = check(driver_, "memory that the disk may reach", result);
  if (fine) {
    fine = try_on(address, stream);
  }
  if (stream != nullptr) {
    (void)driver_.stream_destroy(stream);
  }
  (void)blocks.drop(kBlock);
  (void)pool.release_free();
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
  const auto failed = [](std::string_view what) {
    return make_error(ErrorCode::kUnsupported, "tried on the swap file: {}", what);
  };
  memory.fill();
  if (!copied_in()) {
    return failed("the driver refused a copy");
  }
  if (const std::string reason = move_run(true, address, start); !reason.empty()) {
    return failed("libcufile could not write from the device: " + reason);
  }
  memory.clear();
  if (storage_->read_now(memory.words(), kBlockBytes, 0) != 0 || !memory.holds_it()) {
    return failed("other bytes are in the file than were written");
  }
  memory.clear();
  if (!copied_in()) {
    return failed("the driver refused a copy");
  }
  if (const std::string reason = move_run(false, address, start); !reason.empty()) {
    return failed("libcufile could not read into the device: " + reason);
  }
  if (!end(driver_.copy_out(memory.words(), address, kBlockBytes, stream)) || !memory.holds_it()) {
    return failed("other bytes came back than were written");
  }
  return {};
}

}  // namespace spillway::cuda
