// An open file descriptor, closed at the end of its life. Layer: platform, common.
#pragma once

namespace spillway {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();

  [[nodiscard]] int get() const { return fd_; }  // -1: none
  int release();

 private:
  int fd_ = -1;
};

}  // namespace spillway
