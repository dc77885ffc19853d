// File descriptors that other processes of the same user ask for, by a number, over a socket that
// has a name. Layer: platform, common. What they are of it does not know.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/units.h"
#include "platform/common/process/descriptor.h"

namespace spillway {

// Neither side waits longer for the other.
inline constexpr TimeNs kDescriptorPatienceNs = 10'000'000'000;

struct SharedDescriptor {
  Descriptor descriptor;
  std::array<std::uint64_t, 3> words = {};  // what the other side has to know of it
};

// What has this number, at this place; nullopt: nothing. Called by a thread of ours.
using FindDescriptor =
    std::function<std::optional<SharedDescriptor>(std::uint64_t number, std::uint32_t place)>;

// Serves from now on until the process ends; children of a fork do not. Once in a process.
// `begin` is called by the thread that serves, before anything else. The name is that of an
// abstract socket.
Status serve_descriptors(const std::string& name, std::function<void()> begin, FindDescriptor find);

// The other side: asks who serves under this name.
class DescriptorClient {
 public:
  // Fails with kIo if nobody does.
  static Result<DescriptorClient> ask(const std::string& name, std::uint64_t number);
  // One after the other, from the first place on. Fails with kIo if there is none, or if nothing
  // comes for long.
  [[nodiscard]] Result<SharedDescriptor> next() const;

 private:
  explicit DescriptorClient(Descriptor socket) : socket_(std::move(socket)) {}

  Descriptor socket_;
};

}  // namespace spillway
