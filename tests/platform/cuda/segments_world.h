// A world with segments whose tensors are reported as PyTorch reports them. Test helper.
#pragma once

#include <memory>

#include "heap/segments.h"
#include "platform/cuda/cuda_world.h"
#include "policy/lookahead.h"

namespace spillway::cuda {

class SegmentsWorld : public CudaWorld {
 protected:
  SegmentsWorld() {
    config.device_bytes = 64 * kMiB;
    options.host_bytes = 256 * kMiB;
    options.bypass_after = 4;
    options.bypass_after_at_most = 4;
  }
  void SetUp() override {
    open(policy);
    on = stream();
    segments = std::make_unique<Segments>(*platform);
  }
  void TearDown() override {
    synchronize(on);
    whole();
    segments.reset();
    CudaWorld::TearDown();
  }

  // As PyTorch reports it.
  void born(std::uint64_t address, Bytes bytes) {
    if (!segments->write_down(address, static_cast<std::int64_t>(bytes))) {
      segments->born(address, bytes);
    }
  }
  void died(std::uint64_t address) {
    if (!segments->write_down(address, -1)) {
      (void)segments->died(address);
    }
  }

  Lookahead policy;
  CuStream on = nullptr;
  std::unique_ptr<Segments> segments;
};

}  // namespace spillway::cuda
