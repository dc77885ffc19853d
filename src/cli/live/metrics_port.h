// A port of the loopback at which others may read a text: one GET, one answer. Layer: cli.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/error.h"
#include "platform/common/process/descriptor.h"

namespace spillway {

class MetricsPort {
 public:
  // Port 0 takes one that is free. kInvalidInput where it cannot be had.
  [[nodiscard]] static Result<MetricsPort> open(std::uint16_t port);
  [[nodiscard]] std::uint16_t number() const { return number_; }
  // Answers until `stop` can be read, whoever is ready, and waits for nobody: each has two seconds
  // from connecting on, and of more than 16 at once the oldest is given up. `text` is asked for
  // anew each time.
  void answer_until(int stop, const std::function<std::string()>& text) const;

 private:
  MetricsPort(Descriptor socket, std::uint16_t number)
      : socket_(std::move(socket)), number_(number) {}

  Descriptor socket_;
  std::uint16_t number_;
};

}  // namespace spillway
