// A CUDA platform on the fake driver, and a program's thread on it as its interposer would drive
// it: launches of test kernels, copies and memsets between before_launch and after_launch.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "platform/common/sparse_kernels.h"
#include "platform/cuda/cuda_platform.h"
#include "platform/cuda/fake_device.h"
#include "policy/base_uvm.h"
#include "policy/lookahead.h"

namespace spillway::cuda {

class CudaWorld : public FakeDevice {
 protected:
  CudaWorld() {
    config.stuck_after_ns = 30'000'000'000;
    options.device_bytes = 16 * kMiB;
    options.host_bytes = 128 * kMiB;
    options.block_bytes = 8 * kMiB;
    options.pinned_piece_bytes = 8 * kMiB;
    options.address_bytes = 4 * kGiB;
    options.on_fatal = [this](const Error& error) {
      const std::scoped_lock lock(said_mutex);
      fatal.push_back(error.message);
    };
    options.warn = [this](std::string_view line) {
      const std::scoped_lock lock(said_mutex);
      warned.emplace_back(line);
    };
  }

  // With `options` and `config`.
  void open(Policy& policy, Bytes storage_bytes = 0) {
    start();
    if (change_driver != nullptr) {
      change_driver(driver);
    }
    std::optional<SwapFile> file;
    if (storage_bytes > 0) {
      Result<SwapFile> opened = SwapFile::open(".", storage_bytes);
      ASSERT_TRUE(opened) << opened.error().message;
      file.emplace(std::move(*opened));
    }
    Result<std::unique_ptr<CudaPlatform>> made =
        CudaPlatform::create(driver, options, std::move(file), policy);
    ASSERT_TRUE(made) << made.error().message;
    platform = std::move(*made);
    wrong = pinned(1);
    *wrong = 0;
  }
  void open() { open(base_uvm); }
  void SetUp() override {}
  // Everything has come back, and the budget was kept to.
  void TearDown() override {
    platform.reset();
    const FakeCudaCounters left = counters();
    EXPECT_EQ(left.handles + left.mappings + left.reservations, 0U);
    EXPECT_LE(left.peak_handle_bytes,
              most_handle_bytes > 0 ? most_handle_bytes : options.device_bytes);
    EXPECT_THAT(fatal, ::testing::IsEmpty());
    FakeDevice::TearDown();
  }

  // Words of 8 bytes, with the pattern that they should hold.
  struct Buffer {
    std::uint64_t address = 0;
    std::uint64_t words = 0;
    std::uint64_t seed = 0;
    [[nodiscard]] Bytes bytes() const { return 8 * words; }
  };
  Buffer allocate(Bytes bytes) const {
    const Result<std::uint64_t> address = platform->memory().allocate(bytes);
    EXPECT_TRUE(address) << address.error().message;
    return {.address = address.value_or(0), .words = bytes / 8, .seed = 0};
  }

  // Of which nobody is told, if that may be; otherwise between before_launch and after_launch.
  template <typename Call>
  CuResult issue(CuStream on, std::span<const CudaOperand> operands, std::string_view name,
                 bool needs_mapping, const Call& call) const {
    if (platform->bypass().begin_bypassed(on)) {
      const CuResult result = call();
      platform->bypass().end_bypassed();
      return result;
    }
    std::vector<LaunchOperand> identity;
    for (const CudaOperand& operand : operands) {
      identity.push_back({.allocation = operand.address, .bytes = operand.bytes});
    }
    const std::uint64_t launch =
        platform->launches().before_launch({.stream = on,
                                            .hash = hash_launch(name, identity),
                                            .name = name,
                                            .operands = operands,
                                            .needs_mapping = needs_mapping,
                                            .sparse = uses_a_little(name)});
    const CuResult result = call();
    platform->launches().after_launch(launch, result == CuResult::kSuccess);
    return result;
  }
  // A check that may store the address of what it checks in `table`, where others find it.
  void expose(CuStream on, const Buffer& buffer, const Buffer& table) const {
    const CudaOperand operands[] = {operand(buffer, AccessMode::kExpose),
                                    operand(table, AccessMode::kExpose)};
    rewrite_reaching(on, operands, buffer, buffer.seed);
  }
  // A rewrite of what is there, whose address it has from `table`.
  void rewrite_unseen(CuStream on, Buffer& buffer, const Buffer& table, std::uint64_t seed) const {
    const CudaOperand operands[] = {operand(table, AccessMode::kExpose)};
    rewrite_reaching(on, operands, buffer, seed);
    synchronize(on);  // nothing keeps it there
    buffer.seed = seed;
  }
  // Words of a buffer before `words`; without, all.
  static CudaOperand operand(const Buffer& buffer, AccessMode mode) {
    return {.address = buffer.address, .bytes = buffer.bytes(), .mode = mode};
  }
  void fill(CuStream on, Buffer& buffer, std::uint64_t seed) const {
    const CudaOperand it = operand(buffer, AccessMode::kOverwrite);
    EXPECT_EQ(
        issue(on, {&it, 1}, "fill", false,
              [&] { return launch(test::kernels().fill, on, buffer.address, buffer.words, seed); }),
        CuResult::kSuccess);
    buffer.seed = seed;
  }
  // Checks the pattern and writes another. Words that are wrong are counted in `wrong`.
  void rewrite(CuStream on, Buffer& buffer, std::uint64_t seed,
               std::string_view name = "rewrite") const {
    const CudaOperand it = operand(buffer, AccessMode::kReadWrite);
    EXPECT_EQ(issue(on, {&it, 1}, name, false,
                    [&] {
                      return launch(test::kernels().rewrite, on, buffer.address, buffer.words,
                                    buffer.seed, seed, address_of(wrong));
                    }),
              CuResult::kSuccess);
    buffer.seed = seed;
  }
  // As a rewrite with the same pattern, said to be read only.
  void check(CuStream on, const Buffer& buffer) const {
    const CudaOperand it = operand(buffer, AccessMode::kRead);
    EXPECT_EQ(issue(on, {&it, 1}, "check", false,
                    [&] {
                      return launch(test::kernels().rewrite, on, buffer.address, buffer.words,
                                    buffer.seed, buffer.seed, address_of(wrong));
                    }),
              CuResult::kSuccess);
  }
  void synchronize(CuStream on) const {
    platform->streams().before_wait(on);
    EXPECT_EQ(driver.stream_synchronize(on), CuResult::kSuccess);
    platform->streams().after_wait(on);
  }
  void whole() const {
    const Status status = platform->check_invariants();
    EXPECT_TRUE(status) << status.error().message;
  }
  [[nodiscard]] std::uint64_t wrong_words() const {
    return __atomic_load_n(wrong, __ATOMIC_ACQUIRE);
  }
  // Of the engine's statistics.
  [[nodiscard]] Bytes moved(Tier from, Tier to) const {
    return platform->stats().engine.moved(from, to);
  }

  void rewrite_reaching(CuStream on, std::span<const CudaOperand> operands, const Buffer& buffer,
                        std::uint64_t seed) const {
    const std::uint64_t told =
        platform->launches().before_launch({.stream = on,
                                            .hash = hash_launch("reaching", {}),
                                            .name = "reaching",
                                            .operands = operands,
                                            .exposes = true,
                                            .reaches = true});
    const CuResult result = launch(test::kernels().rewrite, on, buffer.address, buffer.words,
                                   buffer.seed, seed, address_of(wrong));
    platform->launches().after_launch(told, result == CuResult::kSuccess);
    EXPECT_EQ(result, CuResult::kSuccess);
  }

  CudaOptions options;
  // The platform's threads ask its policy until it is destroyed, behind the test's body.
  BaseUvm base_uvm;
  Lookahead lookahead;
  void (*change_driver)(Driver&) = nullptr;  // calls of the driver that the platform gets instead
  Bytes most_handle_bytes = 0;               // where it is another than the budget
  std::unique_ptr<CudaPlatform> platform;
  std::uint64_t* wrong = nullptr;  // words
  std::mutex said_mutex;
  std::vector<std::string> fatal;
  std::vector<std::string> warned;
};

}  // namespace spillway::cuda
