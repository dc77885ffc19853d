// An optimizer's step on the near device: the same bits as over whole tensors, and what is refused.
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <array>
#include <cmath>
#include <cstring>

#include "base/rng.h"
#include "platform/near/near_world.h"
#include "platform/near/update_kernel.h"

namespace spillway::near::test {
namespace {

using optimizer::Operands;
using optimizer::Options;
using optimizer::Step;
using optimizer::Update;

Update near_adam(const Options& options = {}) {
  const auto update = Update::make(options);
  EXPECT_TRUE(update) << update.error();
  return *update;
}

class NearUpdates : public NearWorld {
 protected:
  struct Tensors {
    float* parameter;
    float* gradient;
    float* first;
    float* second;
  };
  float* floats(std::size_t count, std::uint32_t channel = 0) const {
    return reinterpret_cast<float*>(near_memory(count * sizeof(float), channel));  // NOLINT
  }
  static Operands in_place(const Tensors& of) {
    return {.parameter = of.parameter,
            .gradient = of.gradient,
            .first = of.first,
            .second = of.second,
            .max_second = nullptr,
            .parameter_out = of.parameter,
            .first_out = of.first,
            .second_out = of.second,
            .max_second_out = nullptr,
            .gradient_out = nullptr};
  }
  Tensors tensors(std::size_t count, std::uint32_t channel = 0) const {
    return {floats(count, channel), floats(count, channel), floats(count, channel),
            floats(count, channel)};
  }
};

// Sizes around blocks; the last block is a part of one, or whole.
TEST_F(NearUpdates, HasTheBitsOfAnUpdateOfWholeTensors) {
  const Update adam = near_adam();
  for (const std::size_t count :
       {std::size_t{1}, std::size_t{63}, kNearBlockElements - 1, kNearBlockElements,
        kNearBlockElements + 1, 2 * kNearBlockElements, 2 * kNearBlockElements + 77,
        7 * kNearBlockElements + 4095}) {
    SCOPED_TRACE(count);
    const Tensors on_device = tensors(count);
    std::array<std::vector<float>, 4> plain;
    Rng rng(count);
    for (std::vector<float>& values : plain) {
      values.resize(count);
      for (float& value : values) value = static_cast<float>(rng.uniform());
    }
    const std::array<float*, 4> all{on_device.parameter, on_device.gradient, on_device.first,
                                    on_device.second};
    for (std::size_t i = 0; i < 4; ++i) {
      ASSERT_TRUE(device->copy(at_near(all[i]), at_host(plain[i].data()), count * sizeof(float)));
    }
    for (int t = 1; t <= 3; ++t) {
      const Step step{.step = static_cast<double>(t), .learning_rate = 0.01};
      accelerate(0);
      const Result<KernelTicket> kernel =
          device->update_async(0, adam, step, in_place(on_device), count);
      ASSERT_TRUE(kernel) << kernel.error().message;
      ASSERT_TRUE(device->wait(*kernel));
      normal(0);
      adam.run(step, in_place({plain[0].data(), plain[1].data(), plain[2].data(), plain[3].data()}),
               count, 0, count);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      std::vector<float> result(count);
      ASSERT_TRUE(device->copy(at_host(result.data()), at_near(all[i]), count * sizeof(float)));
      EXPECT_EQ(std::memcmp(result.data(), plain[i].data(), count * sizeof(float)), 0) << i;
      EXPECT_TRUE(device->free(at_near(all[i])));
    }
  }
}

// Other rules, types and implementations of PyTorch's, whose bits may depend on where a tensor
// ends.
TEST_F(NearUpdates, HasTheBitsOfEveryRuleAndType) {
  using optimizer::NumberType;
  using optimizer::Rule;
  using optimizer::Variant;
  constexpr std::size_t kCount = 2 * kNearBlockElements + 77;
  std::vector<Options> all(6);
  all[1].variant = Variant::kFusedCpu;
  all[1].amsgrad = true;
  all[2].variant = Variant::kFusedCpu;
  all[2].parameter_type = all[2].gradient_type = NumberType::kBfloat16;
  all[3].parameter_type = all[3].gradient_type = NumberType::kBfloat16;
  all[3].torch_threads = 3;
  all[4].rule = Rule::kSgd;
  all[4].nesterov = true;
  all[5].rule = Rule::kAdagrad;
  int done = 0;
  for (const Options& kind : all) {
    SCOPED_TRACE(&kind - all.data());
    const auto update = Update::make(kind);
    if (!update) {
      continue;  // where the bits cannot be had
    }
    const auto bytes_of = [&](std::size_t operand) {
      const NumberType type = operand == 1 ? kind.gradient_type : kind.parameter_type;
      return kCount * (type == NumberType::kFloat32 ? 4 : 2);
    };
    std::array<char*, 5> near{};
    std::array<std::vector<char>, 5> plain;
    Rng rng(7);
    for (std::size_t i = 0; i < near.size(); ++i) {
      near[i] = near_memory(bytes_of(i));
      plain[i].resize(bytes_of(i));
      for (std::size_t at = 0; at < kCount; ++at) {
        const auto value = static_cast<float>(rng.uniform());
        const std::size_t each = bytes_of(i) / kCount;  // of bfloat16, the upper half
        std::memcpy(plain[i].data() + at * each,
                    reinterpret_cast<const char*>(&value) + sizeof(value) - each, each);  // NOLINT
      }
      ASSERT_TRUE(device->copy(at_near(near[i]), at_host(plain[i].data()), bytes_of(i)));
    }
    const auto operands = [](const auto& at) {
      return Operands{.parameter = at(0),
                      .gradient = at(1),
                      .first = at(2),
                      .second = at(3),
                      .max_second = at(4),
                      .parameter_out = at(0),
                      .first_out = at(2),
                      .second_out = at(3),
                      .max_second_out = at(4),
                      .gradient_out = nullptr};
    };
    for (int t = 1; t <= 3; ++t) {
      const Step step{.step = static_cast<double>(t),
                      .learning_rate = 0.01,
                      .weight_decay = 0.1,
                      .momentum = 0.9};
      accelerate(0);
      const Result<KernelTicket> kernel = device->update_async(
          0, *update, step, operands([&](std::size_t i) -> void* { return near[i]; }), kCount);
      ASSERT_TRUE(kernel) << kernel.error().message;
      ASSERT_TRUE(device->wait(*kernel));
      normal(0);
      update->run(step, operands([&](std::size_t i) -> void* { return plain[i].data(); }), kCount,
                  0, kCount);
    }
    for (std::size_t i = 0; i < near.size(); ++i) {
      std::vector<char> result(bytes_of(i));
      ASSERT_TRUE(device->copy(at_host(result.data()), at_near(near[i]), bytes_of(i)));
      EXPECT_TRUE(result == plain[i]) << i;
      EXPECT_TRUE(device->free(at_near(near[i])));
    }
    ++done;
  }
  EXPECT_GE(done, 1);
}

TEST_F(NearUpdates, ResultsMayLieElsewhereInTheChannel) {
  constexpr std::size_t kCount = kNearBlockElements + 100;
  const Tensors in = tensors(kCount);
  const Tensors out = tensors(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    in.parameter[i] = 2;
    in.gradient[i] = static_cast<float>(i);
  }
  Operands operands = in_place(in);
  operands.parameter_out = out.parameter;
  operands.first_out = out.first;
  operands.second_out = out.second;
  accelerate(0);
  const Result<KernelTicket> kernel = device->update_async(0, near_adam(), {}, operands, kCount);
  ASSERT_TRUE(kernel) << kernel.error().message;
  ASSERT_TRUE(device->wait(*kernel));
  normal(0);
  EXPECT_EQ(in.parameter[kCount - 1], 2);
  EXPECT_EQ(in.first[kCount - 1], 0);
  EXPECT_FLOAT_EQ(out.parameter[kCount - 1], 2 - 1e-3F);
  EXPECT_GT(out.first[kCount - 1], 0);
}

TEST_F(NearUpdates, RefusesOperandsThatItCannotUse) {
  const Update adam = near_adam();
  const Tensors of = tensors(100);
  const float* const elsewhere = floats(100, 1);
  std::vector<float> host(100);
  expect_refused(device->update_async(0, adam, {}, in_place(of), 100), ErrorCode::kMode,
                 "in normal mode");
  accelerate(0);
  accelerate(1);
  const auto refused = [&](const Operands& operands, std::size_t count, const char* words) {
    expect_refused(device->update_async(0, adam, {}, operands, count), ErrorCode::kInvalidInput,
                   words);
  };
  refused(in_place(of), 0, "0 elements");
  refused(in_place(of), ~std::size_t{0} / 2, "elements");
  refused(in_place(of), 101, "beyond the end");
  Operands wrong = in_place(of);
  wrong.gradient = elsewhere;
  refused(wrong, 100, "the gradient of the update, at 0x");
  refused(wrong, 100, "in another channel; copy it into memory of channel 0");
  wrong.gradient = host.data();
  refused(wrong, 100, "not memory of this near device");
  wrong.gradient = nullptr;
  refused(wrong, 100, "the gradient of the update is NULL");
  wrong = in_place(of);
  wrong.second_out = nullptr;
  refused(wrong, 100, "the second state of the update is NULL");
  wrong = in_place(of);
  wrong.parameter = wrong.parameter_out = reinterpret_cast<char*>(of.parameter) + 2;  // NOLINT
  refused(wrong, 99, "multiple of the 4 bytes");
  // Results over something else: another operand, a part of it, or a part of their own input.
  wrong = in_place(of);
  wrong.first_out = of.second;
  refused(wrong, 100, "the result for the first state overlaps the second state");
  wrong = in_place(of);
  wrong.gradient = of.parameter;
  refused(wrong, 100, "the result for the parameter overlaps the gradient");
  wrong = in_place(of);
  wrong.parameter_out = of.parameter + 49;
  refused(wrong, 50, "the result for the parameter overlaps the parameter");
  const Tensors more = tensors(100);
  wrong = in_place(of);
  wrong.first_out = more.first;
  wrong.second_out = more.first;
  refused(wrong, 100, "the result for the second state overlaps the first state");
  EXPECT_EQ(device->channel_statistics(0)->kernels, 0U);
  expect_refused(device->update_async(5, adam, {}, in_place(of), 100), ErrorCode::kInvalidInput,
                 "no channel has the number 5");
  EXPECT_TRUE(device->free(at_near(of.parameter))) << "nothing that was refused holds anything";
}

#if defined(__x86_64__)
// A program that flushes subnormal numbers to zero opens a device that does not.
TEST_F(NearUpdates, KeepsSubnormalNumbers) {
  constexpr unsigned kFlush = 0x8040;  // what is read and what is written
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | kFlush);
  start();
  _mm_setcsr(before);
  const Tensors of = tensors(1);
  *of.parameter = 1e-40F;
  accelerate(0);
  const Result<KernelTicket> kernel =
      device->update_async(0, near_adam(), {.weight_decay = 1}, in_place(of), 1);
  ASSERT_TRUE(kernel) << kernel.error().message;
  EXPECT_TRUE(device->wait(*kernel));
  normal(0);
  EXPECT_GT(*of.first, 0);
}
#endif

// What a rule does not use may be anything.
TEST_F(NearUpdates, IgnoresWhatTheRuleDoesNotRead) {
  const Tensors of = tensors(10);
  float host = 1;
  Operands operands = in_place(of);
  operands.max_second = operands.max_second_out = &host;
  accelerate(0);
  const Result<KernelTicket> kernel = device->update_async(0, near_adam(), {}, operands, 10);
  ASSERT_TRUE(kernel) << kernel.error().message;
  EXPECT_TRUE(device->wait(*kernel));
  EXPECT_EQ(host, 1);
}

}  // namespace
}  // namespace spillway::near::test
