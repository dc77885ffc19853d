// The near device for C++20 programs: devices, buffers, places and kernels that clean up after
// themselves. Layer: front, C API. Header-only, over near.h, which says what each call does. Calls
// throw spillway::Error; destructors do not. Thread-safe as near.h is, except that one object must
// not be moved or destroyed while another thread uses it.
#ifndef SPILLWAY_NEAR_HPP
#define SPILLWAY_NEAR_HPP

#include <spillway/near.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <spillway/spillway.hpp>
#include <type_traits>
#include <utility>

namespace spillway {
inline namespace v0 {

// The defaults; assign to the fields before a device is opened with it.
struct NearOptions : spillwayNearOptions_t {
  NearOptions() : spillwayNearOptions_t{} {
    check(spillwayNearOptionsInit(this, sizeof(spillwayNearOptions_t)));
  }
};

// A step of PyTorch's defaults, without operands.
struct NearAdam : spillwayNearAdam_t {
  NearAdam() : spillwayNearAdam_t{} {
    check(spillwayNearAdamInit(this, sizeof(spillwayNearAdam_t)));
  }
};

// A kernel that was launched. It runs whether or not anybody waits for it.
class NearKernel {
 public:
  NearKernel() = default;
  NearKernel(spillwayNearKernel_t kernel, spillwayNear_t near) : kernel_(kernel), near_(near) {}
  void wait() const { check(spillwayNearWait(kernel_, near_)); }
  [[nodiscard]] bool ended() const {
    int ended = 0;
    check(spillwayNearPoll(&ended, kernel_, near_));
    return ended != 0;
  }

 private:
  spillwayNearKernel_t kernel_ = 0;
  spillwayNear_t near_ = nullptr;
};

// Owns a device; its end waits for the kernels. Buffers and places of it must be gone before it is.
class NearDevice {
 public:
  explicit NearDevice(const spillwayNearOptions_t& options = NearOptions()) {
    check(spillwayNearOpen(&handle_, &options));
  }
  NearDevice(NearDevice&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  NearDevice& operator=(NearDevice&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  NearDevice(const NearDevice&) = delete;
  NearDevice& operator=(const NearDevice&) = delete;
  ~NearDevice() {
    if (handle_ != nullptr) {
      spillwayNearSynchronize(handle_);
      spillwayNearClose(handle_);
    }
  }

  [[nodiscard]] spillwayNear_t handle() const noexcept { return handle_; }
  // 0 bytes: what there is.
  [[nodiscard]] std::uint32_t register_storage(const char* path, std::uint64_t bytes = 0) const {
    std::uint32_t storage = 0;
    check(spillwayNearRegisterStorage(&storage, path, bytes, handle_));
    return storage;
  }
  void copy(spillwayNearLocation_t to, spillwayNearLocation_t from, std::size_t bytes) const {
    check(spillwayNearMemcpy(to, from, bytes, handle_));
  }
  void set_mode(std::uint32_t channel, spillwayNearMode_t mode) const {
    check(spillwayNearSetMode(channel, mode, handle_));
  }
  [[nodiscard]] spillwayNearMode_t mode(std::uint32_t channel) const {
    spillwayNearMode_t now = spillwayNearModeNormal;
    check(spillwayNearGetMode(&now, channel, handle_));
    return now;
  }
  [[nodiscard]] NearKernel launch(const spillwayNearAdam_t& adam, std::uint32_t channel) const {
    spillwayNearKernel_t kernel = 0;
    check(spillwayNearAdamAsync(&kernel, &adam, channel, handle_));
    return {kernel, handle_};
  }
  void synchronize() const { check(spillwayNearSynchronize(handle_)); }
  [[nodiscard]] spillwayNearStatistics_t statistics() const {
    spillwayNearStatistics_t statistics{};
    check(spillwayNearGetStatistics(&statistics, sizeof(statistics), handle_));
    return statistics;
  }
  [[nodiscard]] spillwayNearChannelStatistics_t statistics(std::uint32_t channel) const {
    spillwayNearChannelStatistics_t statistics{};
    check(spillwayNearGetChannelStatistics(&statistics, sizeof(statistics), channel, handle_));
    return statistics;
  }

 private:
  spillwayNear_t handle_ = nullptr;
};

// Owns an array in a channel's memory. Its elements are all zero bytes at first, and the program's
// to touch while the channel is in normal mode. At its end no kernel uses it, or it stays
// allocated.
template <typename T>
  requires std::is_trivially_copyable_v<T>
class NearBuffer {
 public:
  NearBuffer() = default;
  NearBuffer(const NearDevice& near, std::size_t size, std::uint32_t channel)
      : near_(near.handle()), size_(size) {
    void* start = nullptr;
    check(spillwayNearMalloc(&start, bytes_of(size), channel, near_));
    data_ = static_cast<T*>(start);
  }
  NearBuffer(NearBuffer&& other) noexcept { swap(other); }
  NearBuffer& operator=(NearBuffer&& other) noexcept {
    NearBuffer(std::move(other)).swap(*this);
    return *this;
  }
  NearBuffer(const NearBuffer&) = delete;
  NearBuffer& operator=(const NearBuffer&) = delete;
  ~NearBuffer() {
    if (data_ != nullptr) {
      spillwayNearFree(data_, near_);
    }
  }

  [[nodiscard]] T* data() noexcept { return data_; }
  [[nodiscard]] const T* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }
  [[nodiscard]] spillwayNearLocation_t location() const noexcept {
    return spillwayNearAtNear(data_);
  }

  // As many elements as both have.
  void copy_from(std::span<const T> host) {
    check(spillwayNearMemcpy(location(), spillwayNearAtHost(host.data()), common_bytes(host.size()),
                             near_));
  }
  void copy_to(std::span<T> host) const {
    check(spillwayNearMemcpy(spillwayNearAtHost(host.data()), location(), common_bytes(host.size()),
                             near_));
  }

 private:
  static std::size_t bytes_of(std::size_t size) {
    if (size > static_cast<std::size_t>(-1) / sizeof(T)) {
      throw std::bad_array_new_length();
    }
    return size * sizeof(T);
  }
  [[nodiscard]] std::size_t common_bytes(std::size_t size) const {
    return (size < size_ ? size : size_) * sizeof(T);
  }
  void swap(NearBuffer& other) noexcept {
    std::swap(near_, other.near_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  spillwayNear_t near_ = nullptr;
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

// Owns a place on storage.
class NearPlace {
 public:
  NearPlace() = default;
  NearPlace(const NearDevice& near, std::size_t bytes, std::uint32_t storage)
      : near_(near.handle()) {
    check(spillwayNearMallocStorage(&place_, bytes, storage, near_));
  }
  NearPlace(NearPlace&& other) noexcept { swap(other); }
  NearPlace& operator=(NearPlace&& other) noexcept {
    NearPlace(std::move(other)).swap(*this);
    return *this;
  }
  NearPlace(const NearPlace&) = delete;
  NearPlace& operator=(const NearPlace&) = delete;
  ~NearPlace() {
    if (place_ != 0) {
      spillwayNearFreeStorage(place_, near_);
    }
  }

  [[nodiscard]] spillwayNearLocation_t location() const noexcept {
    return spillwayNearAtStorage(place_);
  }

 private:
  void swap(NearPlace& other) noexcept {
    std::swap(near_, other.near_);
    std::swap(place_, other.place_);
  }

  spillwayNear_t near_ = nullptr;
  std::uint64_t place_ = 0;
};

}  // namespace v0
}  // namespace spillway

#endif
