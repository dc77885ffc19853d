// Spillway for C++20 programs: spaces, buffers and launches that clean up after themselves, and a
// memory resource for standard containers. Layer: front, C API. Header-only, over spillway.h, which
// says what each call does. Calls throw spillway::Error; destructors do not. Thread-safe as
// spillway.h is, except that one object must not be moved or destroyed while another thread uses
// it.
#ifndef SPILLWAY_SPILLWAY_HPP
#define SPILLWAY_SPILLWAY_HPP

#include <spillway/spillway.h>

#include <cstddef>
#include <initializer_list>
#include <memory_resource>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace spillway {
inline namespace v0 {

class Error : public std::runtime_error {
 public:
  Error(spillwayError_t code, const char* message)
      : std::runtime_error(std::string(spillwayGetErrorName(code)) + ": " + message), code_(code) {}
  [[nodiscard]] spillwayError_t code() const noexcept { return code_; }

 private:
  spillwayError_t code_;
};

inline void check(spillwayError_t code) {
  if (code != spillwaySuccess) {
    throw Error(code, spillwayGetLastErrorMessage());
  }
}

// What the environment says; assign to the fields before a space is made from it.
struct Options : spillwaySpaceOptions_t {
  Options() : spillwaySpaceOptions_t{} {
    check(spillwaySpaceOptionsInit(this, sizeof(spillwaySpaceOptions_t)));
  }
};

// Owns a space. Buffers and launches of it must be gone before it is.
class Space {
 public:
  explicit Space(const spillwaySpaceOptions_t& options = Options()) {
    check(spillwaySpaceCreate(&handle_, &options));
  }
  Space(Space&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Space& operator=(Space&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Space(const Space&) = delete;
  Space& operator=(const Space&) = delete;
  ~Space() { spillwaySpaceDestroy(handle_); }

  [[nodiscard]] spillwaySpace_t handle() const noexcept { return handle_; }
  void iteration_end() const { check(spillwayIterationEnd(handle_)); }
  void synchronize() const { check(spillwaySynchronize(handle_)); }
  [[nodiscard]] spillwayStatistics_t statistics() const {
    spillwayStatistics_t statistics{};
    check(spillwayGetStatistics(&statistics, sizeof(statistics), handle_));
    return statistics;
  }

 private:
  spillwaySpace_t handle_ = nullptr;
};

// Owns an array of elements whose bytes may be all zero, as they are at first.
template <typename T>
  requires std::is_trivially_copyable_v<T>
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Space& space, std::size_t size) : space_(space.handle()), size_(size) {
    if (size > static_cast<std::size_t>(-1) / sizeof(T)) {
      throw std::bad_array_new_length();
    }
    void* start = nullptr;
    check(spillwayMalloc(&start, size * sizeof(T), space_));
    data_ = static_cast<T*>(start);
  }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (data_ != nullptr) {
      spillwayFree(data_, space_);
    }
  }

  [[nodiscard]] T* data() noexcept { return data_; }
  [[nodiscard]] const T* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }
  [[nodiscard]] T* begin() noexcept { return data_; }
  [[nodiscard]] T* end() noexcept { return data_ + size_; }
  [[nodiscard]] const T* begin() const noexcept { return data_; }
  [[nodiscard]] const T* end() const noexcept { return data_ + size_; }
  [[nodiscard]] T& operator[](std::size_t i) noexcept { return data_[i]; }
  [[nodiscard]] const T& operator[](std::size_t i) const noexcept { return data_[i]; }

  // An empty buffer has nothing that could move.
  void prefetch(spillwayTier_t to = spillwayTierDevice) const {
    if (size_ > 0) check(spillwayMemPrefetchAsync(data_, size_bytes(), to, space_));
  }
  void pre_evict(spillwayTier_t to) const {
    if (size_ > 0) check(spillwayMemPreEvictAsync(data_, size_bytes(), to, space_));
  }
  void discard() {
    if (size_ > 0) check(spillwayMemDiscard(data_, size_bytes(), space_));
  }
  void discard_lazy() {
    if (size_ > 0) check(spillwayMemDiscardLazy(data_, size_bytes(), space_));
  }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(space_, other.space_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  spillwaySpace_t space_ = nullptr;
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

// What a launch does with a buffer that is not empty.
template <typename T>
[[nodiscard]] spillwayAccess_t read(const Buffer<T>& buffer) {
  return {buffer.data(), buffer.size_bytes(), spillwayAccessRead};
}
template <typename T>
[[nodiscard]] spillwayAccess_t write(Buffer<T>& buffer) {
  return {buffer.data(), buffer.size_bytes(), spillwayAccessWrite};
}
template <typename T>
[[nodiscard]] spillwayAccess_t read_write(Buffer<T>& buffer) {
  return {buffer.data(), buffer.size_bytes(), spillwayAccessReadWrite};
}
template <typename T>
[[nodiscard]] spillwayAccess_t overwrite(Buffer<T>& buffer) {
  return {buffer.data(), buffer.size_bytes(), spillwayAccessOverwrite};
}

// Runs from its construction, which waits until the memory is there, to its destruction.
class Launch {
 public:
  Launch(const Space& space, const char* name, std::span<const spillwayAccess_t> accesses)
      : space_(space.handle()) {
    check(spillwayLaunchBegin(&launch_, name, accesses.data(), accesses.size(), space_));
  }
  Launch(const Space& space, const char* name, std::initializer_list<spillwayAccess_t> accesses)
      : Launch(space, name, std::span(accesses.begin(), accesses.size())) {}
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
  ~Launch() { spillwayLaunchEnd(launch_, space_); }

 private:
  spillwaySpace_t space_;
  spillwayLaunch_t launch_ = 0;
};

// For std::pmr containers of much data: every allocation is one of the space, so a container that
// makes many small ones wants a std::pmr::monotonic_buffer_resource in between. Throws
// std::bad_alloc. The space must outlive it.
class MemoryResource : public std::pmr::memory_resource {
 public:
  explicit MemoryResource(const Space& space) : space_(space.handle()) {}

 private:
  static constexpr std::size_t kAlignment = std::size_t{2} << 20;  // what spillwayMalloc gives

  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    void* start = nullptr;
    // Of 0 bytes, too, a pointer that is not null is expected.
    if (alignment > kAlignment ||
        spillwayMalloc(&start, bytes == 0 ? 1 : bytes, space_) != spillwaySuccess) {
      throw std::bad_alloc();
    }
    return start;
  }
  void do_deallocate(void* start, std::size_t /*bytes*/, std::size_t /*alignment*/) override {
    spillwayFree(start, space_);
  }
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    const auto* const same = dynamic_cast<const MemoryResource*>(&other);
    return same != nullptr && same->space_ == space_;
  }

  spillwaySpace_t space_;
};

}  // namespace v0
}  // namespace spillway

#endif
