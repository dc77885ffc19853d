// What the program is about to put on a stream, and a launch that can be repeated. Layer: platform,
// cuda.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "platform/common/launch_log.h"
#include "platform/cuda/driver/driver.h"

namespace spillway::cuda {

// Bytes of one allocation that a launch uses.
struct CudaOperand {
  std::uint64_t address = 0;
  Bytes bytes = 0;
  AccessMode mode = AccessMode::kReadWrite;
};

// A stored launch with all of its parameters by value. Any thread may launch it, with the context
// current in which the program issued it.
class Relaunch {
 public:
  Relaunch() = default;
  Relaunch(const Relaunch&) = delete;
  Relaunch& operator=(const Relaunch&) = delete;
  virtual ~Relaunch() = default;
  [[nodiscard]] virtual CuResult launch(CuStream stream) const = 0;
};

// A launch that can be repeated to make its result again. It writes nothing but `makes`, does not
// read `makes`, and writes the same bytes whenever `reads` hold the same bytes. All of these are
// the space's memory.
struct ReplayableLaunch {
  CudaOperand makes;  // what the program has asked for, from an allocation's start
  std::vector<CudaOperand> reads;
  // Launches of one kind write the same part of as many bytes.
  std::uint64_t kind = 0;
  // It writes every byte of `makes`; one that does not is a defect.
  bool whole = false;
  // It uses memory that belongs to its stream, so it is repeated there.
  bool on_its_stream = false;
  std::shared_ptr<const Relaunch> how;
};

// What the program is about to put on a stream.
struct CudaLaunch {
  CuStream stream = nullptr;
  LaunchHash hash;         // whether two are the same
  std::uint64_t kind = 0;  // hash_launch of the kernel's name, where it is known already
  std::string_view name;   // for people, who are told of the calling thread's module as well
  std::span<const CudaOperand> operands;
  // A copy or memset: the driver refuses it on addresses without memory, so the thread waits until
  // its operands are there instead of putting it behind a stream wait.
  bool needs_mapping = false;
  bool sparse = false;  // it uses only a little of its large operands
  // It may store addresses of some operands (AccessMode::kExpose), so it is never bypassed.
  bool exposes = false;
  // It may write memory whose address has escaped, without naming it.
  bool reaches = false;
  // Its kernel may start before the one before it on its stream has ended (programmatic launches).
  bool starts_early = false;
  // Where stores_launches(), of one that can be launched again: what it makes (an address), and
  // how. Asked in before_launch.
  std::uint64_t makes = 0;
  std::function<ReplayableLaunch()> keep = nullptr;
  // The result of an earlier launch that only this launch completes; 0: none.
  std::uint64_t completes = 0;
};

}  // namespace spillway::cuda
