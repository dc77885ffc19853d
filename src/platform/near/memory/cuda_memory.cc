// See cuda_memory.h.
#include "platform/near/memory/cuda_memory.h"

#include <mutex>
#include <utility>

namespace spillway::near {
namespace {

using cuda::CuContext;
using cuda::CuDevice;
using cuda::CuResult;
using cuda::CuStream;
using cuda::Driver;

class CudaMemory final : public GpuMemory {
 public:
  CudaMemory(const Driver& driver, CuDevice device) : driver_(driver), device_(device) {}
  ~CudaMemory() override {
    if (stream_ != nullptr) {
      const InContext inside(*this);
      driver_.stream_destroy(stream_);
    }
    if (context_ != nullptr) {
      driver_.primary_context_release(device_);
    }
  }

  Status start() {
    Status done = cuda::check(driver_, "cuDevicePrimaryCtxRetain",
                              driver_.primary_context_retain(&context_, device_));
    if (done) {
      const InContext inside(*this);
      done = cuda::check(driver_, "cuStreamCreateWithPriority",
                         driver_.stream_create(&stream_, cuda::kCuStreamNonBlocking, 0));
    }
    return done;
  }

  Result<Address> allocate(Bytes bytes) override {
    const InContext inside(*this);
    cuda::CuAddress start = 0;
    const CuResult result = driver_.memory_alloc(&start, bytes);
    if (result == CuResult::kOutOfMemory) {
      return make_error(ErrorCode::kNoRoom, "the GPU has no {}: {}", format_bytes(bytes),
                        cuda::error_text(driver_, "cuMemAlloc", result));
    }
    const Status done = told("cuMemAlloc", result);
    return done ? Result<Address>(start) : tl::unexpected<Error>(done.error());
  }
  Status free(Address start) override {
    const InContext inside(*this);
    return told("cuMemFree", driver_.memory_free(start));
  }
  Status copy_in(Address to, const void* from, Bytes bytes) override {
    const InContext inside(*this);
    return ended("cuMemcpyHtoDAsync", driver_.copy_in(to, from, bytes, stream_));
  }
  Status copy_out(void* to, Address from, Bytes bytes) override {
    const InContext inside(*this);
    return ended("cuMemcpyDtoHAsync", driver_.copy_out(to, from, bytes, stream_));
  }
  Status copy_within(Address to, Address from, Bytes bytes) override {
    const InContext inside(*this);
    return ended("cuMemcpyDtoDAsync", driver_.copy_within(to, from, bytes, stream_));
  }

 private:
  // The context is the calling thread's while this lives, and its captures are left alone.
  class InContext {
   public:
    explicit InContext(const CudaMemory& memory) : driver_(memory.driver_) {
      pushed_ = driver_.context_push(memory.context_) == CuResult::kSuccess;
      capture_mode_ = cuda::kCuCaptureRelaxed;
      exchanged_ = driver_.thread_capture_mode(&capture_mode_) == CuResult::kSuccess;
    }
    InContext(const InContext&) = delete;
    InContext& operator=(const InContext&) = delete;
    ~InContext() {
      if (exchanged_) {
        driver_.thread_capture_mode(&capture_mode_);
      }
      if (pushed_) {
        CuContext popped = nullptr;
        driver_.context_pop(&popped);
      }
    }

   private:
    const Driver& driver_;
    bool pushed_ = false;
    bool exchanged_ = false;
    unsigned capture_mode_ = 0;
  };

  // The driver's refusals are failures of what was asked for, not of the machine.
  Status told(const char* symbol, CuResult result) const {
    if (result == CuResult::kSuccess) {
      return {};
    }
    return make_error(result == CuResult::kInvalidValue ? ErrorCode::kInvalidInput : ErrorCode::kIo,
                      "{}", cuda::error_text(driver_, symbol, result));
  }
  Status ended(const char* symbol, CuResult result) const {
    Status done = told(symbol, result);
    return done ? told("cuStreamSynchronize", driver_.stream_synchronize(stream_)) : done;
  }

  const Driver driver_;
  const CuDevice device_;
  CuContext context_ = nullptr;
  CuStream stream_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<GpuMemory>> open_cuda_memory(int device, const std::string& path) {
  const Result<Driver> driver = cuda::open_driver(path);
  if (!driver) {
    return tl::unexpected<Error>(driver.error());
  }
  CuDevice found = 0;
  Status done = cuda::check(*driver, "cuInit", driver->init(0));
  if (done) {
    done = cuda::check(*driver, "cuDeviceGet", driver->device_get(&found, device));
  }
  if (!done) {
    return tl::unexpected<Error>(done.error());
  }
  auto memory = std::make_unique<CudaMemory>(*driver, found);
  if (done = memory->start(); !done) {
    return tl::unexpected<Error>(done.error());
  }
  return std::unique_ptr<GpuMemory>(std::move(memory));
}

}  // namespace spillway::near
