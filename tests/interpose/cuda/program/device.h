// A program's view of the device: buffers of 64-bit words with patterns, kernels that check and
// write them. Counts what is wrong. Test program.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "driver_ways.h"
#include "launch_words.h"

namespace spillway::cuda::test {

struct Buffer {
  CuAddress address = 0;
  std::uint64_t words = 0;
  std::uint64_t seed = 0;
};

// What is known of what a kernel reads: it is as PyTorch has it for what it computes word by word;
// Spillway, where it is there, has been told; nothing.
enum class Reads : std::uint8_t { kKnown, kTold, kUnknown };

class Device {
 public:
  // `as_pytorchs`: what fills, rewrites and adds has names that only PyTorch's kernels have.
  Device(const Calls& calls, std::uint64_t device_mib, bool as_pytorchs);

  // What a call gave must be this, or the program ends with a line.
  void expect(CuResult result, const char* what, CuResult expected = CuResult::kSuccess) const {
    if (result != expected) {
      std::printf("%s: %u instead of %u\n", what, static_cast<unsigned>(result),
                  static_cast<unsigned>(expected));
      std::exit(4);
    }
  }
  void require(bool fine, const char* what) const {
    if (!fine) {
      std::printf("wrong: %s\n", what);
      std::exit(4);
    }
  }

  [[nodiscard]] CuStream stream(unsigned flags = kCuStreamNonBlocking) const;
  [[nodiscard]] Buffer allocate(std::uint64_t bytes, CuStream stream) const;
  void free(const Buffer& buffer, CuStream stream) const {
    expect(calls.cuMemFreeAsync(buffer.address, stream), "cuMemFreeAsync");
  }
  void fill(Buffer& buffer, std::uint64_t seed, CuStream stream) const;
  // Checks the pattern, writes another.
  void rewrite(Buffer& buffer, std::uint64_t seed, CuStream stream) const;
  void check(Buffer& buffer, CuStream stream) const { rewrite(buffer, buffer.seed, stream); }
  // to[i] += from[i], or to all buffers whose addresses stand in an array on the device.
  void add(const Buffer& to, const Buffer& from, CuStream stream) const;
  // to[i] = from[i] + 1.
  void pointwise(const Buffer& to, const Buffer& from, Reads reads, CuStream stream) const;
  void add_listed(const Buffer& list, std::uint64_t count, std::uint64_t words,
                  CuStream stream) const;
  // The same, where the list lies in pinned host memory.
  void add_listed_on_host(const std::uint64_t* list, std::uint64_t count, std::uint64_t words,
                          CuStream stream) const;
  // The same for a buffer whose address stands in a table whose address stands in another.
  void add_listed_twice(const Buffer& outer, const Buffer& inner, std::uint64_t words,
                        CuStream stream) const;
  void synchronize(CuStream stream) const {
    expect(calls.cuStreamSynchronize(stream), "cuStreamSynchronize");
  }
  [[nodiscard]] std::vector<std::uint64_t> words_of(const Buffer& buffer) const;
  [[nodiscard]] std::uint64_t wrong_words() const;
  // Adds 1 to the words of the tensor that a map describes, which is given by value or lies on the
  // device.
  void add_mapped(const CuTensorMap& map, std::uint64_t words, CuStream stream) const;
  void add_mapped_at(const Buffer& map, std::uint64_t named, std::uint64_t words,
                     CuStream stream) const;
  // As `fill`, by a kernel of a library, which runs in its stream's context.
  void fill_by_library(Buffer& buffer, std::uint64_t seed, CuStream stream) const;
  // The kernel of `rewrite`: address, words, pattern, next pattern.
  [[nodiscard]] CuFunction rewrite_kernel() const { return rewrite_; }
  // The kernel of `add`: to, from, words.
  [[nodiscard]] CuFunction add_kernel() const { return add_; }
  // The primary context.
  [[nodiscard]] CuContext context() const { return context_; }

  // After everything has ended: says what was wrong, and which rules were broken. The exit status.
  [[nodiscard]] int finish() const;

  const Calls& calls;

 private:
  void launch(CuFunction function, CuStream stream, std::vector<std::uint64_t> parameters) const;

  CuContext context_ = nullptr;
  CuFunction fill_ = nullptr;
  CuFunction rewrite_ = nullptr;
  CuFunction add_ = nullptr;
  CuFunction add_listed_ = nullptr;
  CuFunction add_listed_on_host_ = nullptr;
  CuFunction add_listed_twice_ = nullptr;
  CuFunction add_mapped_ = nullptr;
  CuFunction add_mapped_at_ = nullptr;
  CuFunction pointwise_ = nullptr;
  CuFunction unknown_pointwise_ = nullptr;
  CuFunction told_pointwise_ = nullptr;
};

// Captures what `call` puts on the stream, and runs that as a graph, to its end.
template <typename Call>
void run_as_graph(const Device& device, CuStream stream, const Call& call) {
  device.expect(device.calls.cuStreamBeginCapture_v2(stream, 0), "cuStreamBeginCapture");
  call();
  CuGraph graph = nullptr;
  CuGraphExec exec = nullptr;
  device.expect(device.calls.cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
  device.expect(device.calls.cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
  device.expect(device.calls.cuGraphLaunch(exec, stream), "cuGraphLaunch");
  device.synchronize(stream);
  device.expect(device.calls.cuGraphExecDestroy(exec), "cuGraphExecDestroy");
  device.expect(device.calls.cuGraphDestroy(graph), "cuGraphDestroy");
}

}  // namespace spillway::cuda::test
