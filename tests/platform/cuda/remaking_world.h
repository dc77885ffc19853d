// A CUDA world whose program has kernels that are known to make one buffer out of others, as the
// interposer knows PyTorch's pointwise kernels.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "platform/cuda/cuda_world.h"

namespace spillway::cuda {

class RemakingWorld : public CudaWorld {
 protected:
  // ReplayableLaunch::kind: whatever the size, they write all of it, or half.
  static constexpr std::uint64_t kDerives = 1;
  static constexpr std::uint64_t kMakes = 2;
  static constexpr std::uint64_t kMakesHalf = 3;
  // ReplayableLaunch's, as of a matrix product with a workspace.
  bool makes_whole = false;
  bool stays_on_stream = false;
  mutable std::atomic<CuStream> ran_on{nullptr};  // what derives, last

  RemakingWorld() {
    options.own_launches = {
        .fingerprint =
            [this](CuStream on, CuAddress from, Bytes bytes, std::uint64_t* to) {
              return launch(test::kernels().mix, on, address_of(to), from, bytes / 8);
            },
        .fill =
            [this](CuStream on, CuAddress to, Bytes bytes, std::uint32_t pattern) {
              return launch(test::kernels().fill, on, to, bytes / 8, pattern);
            }};
  }

  // `to` gets the pattern of `seed`, out of `from` (at least as long), whose words are checked each
  // time that the kernel runs. The driver refuses it when and if that is `refused`.
  void derive(CuStream on, Buffer& to, const Buffer& from, std::uint64_t seed,
              const bool* refused = nullptr) const {
    const CudaOperand operands[] = {operand(to, AccessMode::kReadWrite),
                                    operand(from, AccessMode::kRead)};
    const Buffer made = to;
    const auto call = [this, made, from, seed, refused](CuStream stream) {
      ran_on = stream;
      if (refused != nullptr && *refused) {
        return CuResult::kInvalidValue;
      }
      return launch(test::kernels().derive, stream, made.address, from.address, made.words,
                    from.seed, seed, address_of(wrong));
    };
    EXPECT_EQ(issue_known(on, operands, "derive", kDerives, call), CuResult::kSuccess);
    to.seed = seed;
  }
  // The same out of nothing.
  void make(CuStream on, Buffer& to, std::uint64_t seed, std::uint64_t kind = kMakes) const {
    const CudaOperand it = operand(to, AccessMode::kReadWrite);
    const Buffer made = to;
    const auto call = [this, made, seed](CuStream stream) {
      return launch(test::kernels().fill, stream, made.address, made.words, seed);
    };
    EXPECT_EQ(issue_known(on, {&it, 1}, "make", kind, call), CuResult::kSuccess);
    to.seed = seed;
  }
  // The first half of it. What lies behind stays as it is.
  void make_half(CuStream on, Buffer& to, std::uint64_t seed) const {
    const CudaOperand it = operand(to, AccessMode::kReadWrite);
    const Buffer made = to;
    const auto call = [this, made, seed](CuStream stream) {
      return launch(test::kernels().fill, stream, made.address, made.words / 2, seed);
    };
    EXPECT_EQ(issue_known(on, {&it, 1}, "make half", kMakesHalf, call), CuResult::kSuccess);
    to.seed = seed;
  }
  // Kernels that only read, of which that is known, or not.
  void look(CuStream on, const Buffer& buffer) const { verify(on, buffer, AccessMode::kRead); }
  void use(CuStream on, const Buffer& buffer) const { verify(on, buffer, AccessMode::kReadWrite); }
  [[nodiscard]] Bytes given_up() const { return platform->stats().engine.given_up_bytes; }

 private:
  void verify(CuStream on, const Buffer& buffer, AccessMode mode) const {
    const CudaOperand it = operand(buffer, mode);
    EXPECT_EQ(issue(on, {&it, 1}, "verify", false,
                    [&] {
                      return launch(test::kernels().verify, on, buffer.address, buffer.words,
                                    buffer.seed, address_of(wrong));
                    }),
              CuResult::kSuccess);
  }

  using Again = std::function<CuResult(CuStream)>;
  class Kept final : public Relaunch {
   public:
    explicit Kept(Again again) : again_(std::move(again)) {}
    [[nodiscard]] CuResult launch(CuStream stream) const override { return again_(stream); }

   private:
    Again again_;
  };

  // The first operand is what it makes.
  CuResult issue_known(CuStream on, std::span<const CudaOperand> operands, std::string_view name,
                       std::uint64_t kind, const Again& call) const {
    if (platform->bypass().begin_bypassed(on)) {
      const CuResult result = call(on);
      platform->bypass().end_bypassed();
      return result;
    }
    std::vector<LaunchOperand> identity;
    for (const CudaOperand& operand : operands) {
      identity.push_back({.allocation = operand.address, .bytes = operand.bytes});
    }
    const std::uint64_t launch = platform->launches().before_launch(
        {.stream = on,
         .hash = hash_launch(name, identity),
         .name = name,
         .operands = operands,
         .needs_mapping = false,
         .makes = operands[0].address,
         .keep = [&] {
           return ReplayableLaunch{.makes = operands[0],
                                   .reads = {operands.begin() + 1, operands.end()},
                                   .kind = kind,
                                   .whole = makes_whole,
                                   .on_its_stream = stays_on_stream,
                                   .how = std::make_shared<const Kept>(call)};
         }});
    const CuResult result = call(on);
    platform->launches().after_launch(launch, result == CuResult::kSuccess);
    return result;
  }
};

}  // namespace spillway::cuda
