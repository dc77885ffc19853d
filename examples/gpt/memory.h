// Where the model's arrays live: in a space of Spillway, or in plain memory for comparison.
// Layer: example. What is special about programming with Spillway is in this file and memory.cc.
// Not thread-safe. Failures are spillway::Error or std::bad_alloc.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <spillway/spillway.hpp>
#include <utility>

namespace gpt {

class Memory;

// Owns floats, all 0 at first. The memory that it came from must outlive it.
class Array {
 public:
  Array() = default;
  Array(Array&& other) noexcept { swap(other); }
  Array& operator=(Array&& other) noexcept {
    Array(std::move(other)).swap(*this);
    return *this;
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array();

  [[nodiscard]] float* data() { return data_; }
  [[nodiscard]] const float* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t bytes() const { return size_ * sizeof(float); }

 private:
  friend class Memory;
  void swap(Array& other) noexcept;

  Memory* memory_ = nullptr;
  spillway::Buffer<float> buffer_;  // empty where data_ is plain memory
  float* data_ = nullptr;
  std::size_t size_ = 0;
};

class Memory {
 public:
  Memory() = default;  // plain memory, as much as there is
  explicit Memory(const spillway::Options& options) : space_(std::in_place, options) {}

  [[nodiscard]] Array make(std::size_t size);
  // A training step has ended: policies that plan ahead want to know where the next one begins.
  void step_ended();
  // The array's contents are dead until a launch overwrites them.
  void discard(Array& array);
  [[nodiscard]] std::size_t allocated_bytes() const { return allocated_bytes_; }
  // Empty for plain memory.
  [[nodiscard]] std::optional<spillwayStatistics_t> statistics() const;

  // A kernel that uses these arrays and nothing else of this memory.
  template <typename Kernel>
  void launch(const char* name, std::initializer_list<spillwayAccess_t> accesses, Kernel kernel) {
    std::optional<spillway::Launch> launch;
    if (space_) {
      launch.emplace(*space_, name, accesses);
    }
    kernel();
  }

 private:
  friend class Array;
  std::optional<spillway::Space> space_;
  std::size_t allocated_bytes_ = 0;
};

// What a launch does with an array.
[[nodiscard]] inline spillwayAccess_t reads(const Array& array) {
  return {array.data(), array.bytes(), spillwayAccessRead};
}
[[nodiscard]] inline spillwayAccess_t writes_part(const Array& array) {
  return {array.data(), array.bytes(), spillwayAccessWrite};
}
[[nodiscard]] inline spillwayAccess_t updates(const Array& array) {
  return {array.data(), array.bytes(), spillwayAccessReadWrite};
}
[[nodiscard]] inline spillwayAccess_t overwrites(const Array& array) {
  return {array.data(), array.bytes(), spillwayAccessOverwrite};
}

}  // namespace gpt
