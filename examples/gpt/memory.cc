// See memory.h.
#include "memory.h"

#include <algorithm>
#include <new>

namespace gpt {
namespace {

constexpr std::align_val_t kAlignment{64};

}  // namespace

Array::~Array() {
  if (data_ == nullptr) {
    return;
  }
  memory_->allocated_bytes_ -= bytes();
  if (buffer_.size() == 0) {
    ::operator delete(data_, kAlignment);
  }
}

void Array::swap(Array& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(buffer_, other.buffer_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
}

Array Memory::make(std::size_t size) {
  Array array;
  if (space_) {
    array.buffer_ = spillway::Buffer<float>(*space_, size);
    array.data_ = array.buffer_.data();
  } else {
    array.data_ = static_cast<float*>(::operator new(size * sizeof(float), kAlignment));
    std::fill_n(array.data_, size, 0.0F);
  }
  array.memory_ = this;
  array.size_ = size;
  allocated_bytes_ += array.bytes();
  return array;
}

// Lazily: the launch that overwrites the array is what makes it usable again.
void Memory::discard(Array& array) { array.buffer_.discard_lazy(); }

void Memory::step_ended() {
  if (space_) {
    space_->iteration_end();
  }
}

std::optional<spillwayStatistics_t> Memory::statistics() const {
  return space_ ? std::optional(space_->statistics()) : std::nullopt;
}

}  // namespace gpt
