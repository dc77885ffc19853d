// A range of addresses, aligned to 2 MiB, without memory until it is touched. Layer: platform,
// common.
#pragma once

#include "base/error.h"
#include "base/units.h"

namespace spillway {

class Reservation {
 public:
  // Readable and writable, private, not counted as used. Where there are not so many addresses it
  // fails with how many there are and what to do: kUnsupported if a limit is in the way,
  // kInvalidInput if nobody could have as many.
  static Result<Reservation> make(Bytes bytes);

  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&&) = delete;
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  ~Reservation();

  [[nodiscard]] char* start() const { return start_; }
  [[nodiscard]] Bytes bytes() const { return bytes_; }

 private:
  Reservation(void* mapping, Bytes mapping_bytes, char* start, Bytes bytes)
      : mapping_(mapping), mapping_bytes_(mapping_bytes), start_(start), bytes_(bytes) {}

  void* mapping_;  // nullptr once it has been moved from
  Bytes mapping_bytes_;
  char* start_;
  Bytes bytes_;
};

}  // namespace spillway
