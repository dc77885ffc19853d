// libspillway_near's updates of tensors on a GPU, over the CUDA platform on the fake driver: what
// libspillway_cuda.so is between the two in a program, this file is here.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "base/rng.h"
#include "near/at_host_answers.h"
#include "near/near.h"
#include "platform/cuda/cuda_world.h"

namespace {
spillway::cuda::CudaPlatform* the_platform = nullptr;
}

extern "C" {

int spillway_at_host_begin(const spillway_at_host_operand* operands, size_t count, size_t parts,
                           void* stream, uint64_t* updates) {
  std::vector<std::vector<spillway::ProgramOperand>> all;
  for (size_t i = 0; i < parts; ++i) {
    all.push_back(spillway::near::named(operands + i * count, count));
  }
  const std::vector<spillway::UpdateId> begun =
      the_platform->updates().begin_updates(all, static_cast<spillway::cuda::CuStream>(stream));
  std::copy(begun.begin(), begun.end(), updates);
  return begun.empty() ? 0 : 1;
}

int spillway_at_host_takes() { return the_platform->updates().takes_updates() ? 1 : 0; }

uint64_t spillway_at_host_next() { return the_platform->updates().next_update().value_or(0); }

size_t spillway_at_host_extents(uint64_t update, size_t operand, spillway_at_host_extent* to,
                                size_t most) {
  return spillway::near::known_extents().tell(
      update, operand, to, most, [&] { return the_platform->updates().update_extents(update); });
}

void spillway_at_host_end(uint64_t update) {
  spillway::near::known_extents().forget(update);
  the_platform->updates().end_update(update);
}

void spillway_at_host_send(const void* start, size_t bytes) {
  the_platform->hints().send_to_host(reinterpret_cast<std::uintptr_t>(start), bytes);
}

}  // extern "C"

namespace spillway::cuda {
namespace {

// Two parts, the second of which ends in the middle of a block.
constexpr std::size_t kElements = (std::size_t{5} << 20U) + 100;
constexpr Bytes kTensorBytes = 4 * kElements;
using Values = std::vector<float>;
// Parameter, gradient, and two moments.
using Operands = std::array<Values, 4>;

class NearUpdates : public CudaWorld {
 protected:
  NearUpdates() {
    options.device_bytes = 64 * kMiB;
    options.host_bytes = 256 * kMiB;
  }
  void begin() {
    CudaWorld::open();
    the_platform = platform.get();
    on = stream();
    staging = pinned<float>(kElements);
    for (Buffer& buffer : device) {
      buffer = allocate(kTensorBytes);
    }
    for (Buffer& buffer : filler) {
      buffer = allocate(16 * kMiB);
    }
    Rng rng(7);
    for (Values& values : host) {
      values.resize(kElements);
      for (float& value : values) {
        value = static_cast<float>(rng.uniform() - 0.5);
      }
    }
    std::transform(host[3].begin(), host[3].end(), host[3].begin(),
                   [](float value) { return value * value; });
  }
  void TearDown() override {
    spillway_near_wait();
    CudaWorld::TearDown();
  }

  void copy(const Buffer& buffer, float* values, std::size_t count, bool out) const {
    if (!out) {
      std::copy_n(values, count, staging);
    }
    const CudaOperand it{.address = buffer.address,
                         .bytes = 4 * count,
                         .mode = out ? AccessMode::kRead : AccessMode::kReadWrite};
    EXPECT_EQ(issue(on, {&it, 1}, "copy", true,
                    [&] {
                      return out ? driver.copy_out(staging, buffer.address, 4 * count, on)
                                 : driver.copy_in(buffer.address, staging, 4 * count, on);
                    }),
              CuResult::kSuccess);
    synchronize(on);
    if (out) {
      std::copy_n(staging, count, values);
    }
  }
  // All of it, of which the states have to leave.
  void upload() {
    for (const std::size_t i : {2U, 3U, 0U}) {
      copy(device[i], host[i].data(), kElements, false);
    }
    for (Buffer& buffer : filler) {
      fill(on, buffer, 1);
    }
    copy(device[1], host[1].data(), kElements, false);
    platform->wait_until_idle();
  }
  void expect_same() {
    Values found(kElements);
    for (const std::size_t i : {0U, 2U, 3U}) {
      copy(device[i], found.data(), kElements, true);
      EXPECT_EQ(std::memcmp(found.data(), host[i].data(), kTensorBytes), 0) << "operand " << i;
    }
  }

  static spillway_near_tensor tensor_of(const std::array<float*, 4>& at) {
    spillway_near_tensor tensor{};
    tensor.step.step = 3;
    tensor.step.learning_rate = 1e-2;
    tensor.step.beta1 = 0.9;
    tensor.step.beta2 = 0.999;
    tensor.step.epsilon = 1e-8;
    tensor.step.gradient_scale = 1;
    tensor.elements = kElements;
    tensor.parameter = tensor.parameter_out = at[0];
    tensor.gradient = at[1];
    tensor.first = tensor.first_out = at[2];
    tensor.second = tensor.second_out = at[3];
    return tensor;
  }
  static spillway_near_update* make_update() {
    spillway_near_options made{};
    made.rule = SPILLWAY_NEAR_ADAM;
    made.variant = SPILLWAY_NEAR_FUSED_CUDA;
    made.torch_threads = 1;
    made.compute_capability = 90;
    made.decoupled_decay = 1;
    std::string why(200, ' ');
    spillway_near_update* const update = spillway_near_make(&made, why.data(), why.size());
    EXPECT_NE(update, nullptr) << why;
    return update;
  }
  // On the device's tensors; both objects are gone when it returns.
  bool update_on_gpu(const Buffer* scale = nullptr, const Buffer* found_inf = nullptr) const {
    const auto pointer = [](const Buffer& buffer) {
      return reinterpret_cast<float*>(buffer.address);  // NOLINT(performance-no-int-to-ptr)
    };
    const spillway_near_tensor tensor =
        tensor_of({pointer(device[0]), pointer(device[1]), pointer(device[2]), pointer(device[3])});
    spillway_near_update* const update = make_update();
    std::string why(200, ' ');
    spillway_near_pool* const pool = spillway_near_pool_make(2, why.data(), why.size());
    EXPECT_NE(pool, nullptr) << why;
    uint8_t taken = 7;
    spillway_near_update_on_gpu(pool, update, &tensor, 1, on, &taken,
                                scale != nullptr ? pointer(*scale) : nullptr,
                                found_inf != nullptr ? pointer(*found_inf) : nullptr);
    spillway_near_pool_free(pool);
    spillway_near_free(update);
    EXPECT_LT(taken, 2);
    return taken == 1;
  }
  // Memory may still have to be pinned. Once.
  bool update_soon(const Buffer* scale = nullptr, const Buffer* found_inf = nullptr) const {
    bool taken = false;
    return soon([&] { return taken = taken || update_on_gpu(scale, found_inf); });
  }
  void update_at_home(double scale) {
    spillway_near_tensor tensor =
        tensor_of({host[0].data(), host[1].data(), host[2].data(), host[3].data()});
    tensor.step.gradient_scale = scale;
    spillway_near_update* const update = make_update();
    spillway_near_run(nullptr, update, &tensor, 1);
    spillway_near_free(update);
  }
  Buffer scalar(float value) {
    const Buffer made = allocate(4);
    copy(made, &value, 1, false);
    return made;
  }

  CuStream on = nullptr;
  float* staging = nullptr;
  Operands host;
  std::array<Buffer, 4> device;
  std::array<Buffer, 4> filler;
};

TEST_F(NearUpdates, HaveTheBitsThatTheHostWouldHaveHad) {
  begin();
  upload();
  ASSERT_TRUE(update_soon());
  spillway_near_wait();
  update_at_home(1);
  expect_same();
  EXPECT_GE(platform->stats().engine.updates, 2U);
  whole();
}

TEST_F(NearUpdates, DivideByAScaleThatTheDeviceHas) {
  begin();
  upload();
  const Buffer scale = scalar(4);
  const Buffer found_inf = scalar(0);
  ASSERT_TRUE(update_soon(&scale, &found_inf));
  spillway_near_wait();
  update_at_home(4);
  expect_same();
}

TEST_F(NearUpdates, ChangeNothingWhereAGradientIsInfinite) {
  begin();
  upload();
  const Buffer found_inf = scalar(1);
  ASSERT_TRUE(update_soon(nullptr, &found_inf));
  spillway_near_wait();
  expect_same();
}

TEST_F(NearUpdates, TheChildOfAForkHasNone) {
  begin();
  upload();
  ASSERT_TRUE(update_soon());
  const pid_t child = ::fork();
  if (child == 0) {
    const bool taken = update_on_gpu();
    spillway_near_wait();
    ::_exit(taken ? 1 : 0);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace spillway::cuda
