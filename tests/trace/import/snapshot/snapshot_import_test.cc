// Memory snapshots: the history as kernels, and a pickle that is read without running it.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "trace/import.h"
#include "trace/import_examples.h"

namespace spillway {
namespace snapshot_import {
namespace {

using test::allocator_event;
using test::kernel;
using test::pickled;
using test::pickled_dict;
using test::pickled_list;
using testing::HasSubstr;

Result<Imported> imported(const std::string& bytes, const ImportOptions& options = {}) {
  MemorySource file(bytes);
  return import_trace({file, "s.pickle"}, nullptr, options);
}

void expect_error(const std::string& bytes, const std::string& message) {
  const Result<Imported> result = imported(bytes);
  ASSERT_FALSE(result.has_value()) << message;
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidInput);
  EXPECT_THAT(result.error().message, HasSubstr(message));
}

TEST(SnapshotImport, AllocationsAndFreesAreKernels) {
  const Result<Imported> result = imported(test::snapshot_example());
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(
      result->trace.kernels,
      (std::vector<Kernel>{kernel("alive before", 1, {1}, {}),
                           kernel("allocate train.py:12 step", 5000, {}, {2}),
                           kernel("free", 15000, {1}, {}), kernel("allocate", 2000, {}, {3}),
                           kernel("free", 1000, {2}, {}), kernel("alive at the end", 1, {3}, {})}));
  EXPECT_EQ(
      result->trace.tensors,
      (std::vector<Tensor>{
          {4084, true, false}, {256, false, false}, {512, false, false}, {1024, false, false}}));
}

TEST(SnapshotImport, AnnotationsMarkIterations) {
  std::vector<std::string> history;
  for (std::uint64_t i = 0; i < 6; ++i) {
    history.push_back(allocator_event("alloc", 1000 + i, 8, 1000 + 10 * i));
  }
  const auto mark = [](const std::string& name, const std::string& stage, std::uint64_t time_us) {
    return pickled_dict({pickled("name"), pickled(name), pickled("stage"), pickled(stage),
                         pickled("device"), pickled(0), pickled("time_us"), pickled(time_us)});
  };
  const std::string name = "Optimizer.step#SGD.step";
  const std::string bytes =
      "\x80\x04" +
      pickled_dict({pickled("device_traces"), pickled_list({pickled_list(history)}),
                    pickled("external_annotations"),
                    pickled_list({mark(name, "START", 1005), mark("other", "START", 1006),
                                  mark(name, "END", 1015), mark(name, "START", 1030),
                                  mark(name, "END", 1045)})}) +
      ".";
  // The second ends between the events at 1040 and 1050; what is alive at its begin outlives it.
  const Result<Imported> last = imported(bytes);
  ASSERT_TRUE(last.has_value()) << last.error().message;
  EXPECT_EQ(last->iteration, "iteration 1 of 0 to 1, each up to an optimizer's step");
  EXPECT_EQ(last->trace.tensors.size(), 5U);
  EXPECT_EQ(last->trace.kernels.size(), 6U);  // 1020, 1030, 1040, and each alive at the end
  EXPECT_EQ(imported(bytes, {.iteration = 0}).value().trace.kernels.size(), 4U);
}

TEST(SnapshotImport, WhatWouldRunIsRefused) {
  // What pickle makes of os.system("true").
  expect_error(
      "\x80\x02"
      "cposix\nsystem\nX\x04" +
          std::string(3, '\0') + "true\x85R.",
      "s.pickle: byte 2: instruction 0x63 (GLOBAL): a memory snapshot is data alone");
  expect_error(std::string("\x80\x04\x8c\x05posix\x8c\x06system\x93)R."),
               "byte 17: instruction 0x93 (STACK_GLOBAL)");
  expect_error("\x80\x02)R.", "byte 3: instruction 0x52 (REDUCE)");
  expect_error("\x80\x02}b.", "byte 3: instruction 0x62 (BUILD)");
  expect_error("\x80\x02P1\n.", "byte 2: instruction 0x50: a memory snapshot");
}

TEST(SnapshotImport, BrokenPicklesAreRefusedWithTheirByte) {
  const std::string good = test::snapshot_example();
  for (std::size_t length = 2; length < good.size(); ++length) {
    expect_error(good.substr(0, length), fmt::format("byte {}: the file is truncated", length));
  }
  expect_error(good + "N", fmt::format("byte {}: something follows the end", good.size()));
  expect_error("\x80\x06N.", "neither a Chakra execution trace");
  expect_error(
      "\x80\x02"
      "e.",
      "byte 2: no mark on the stack");
  expect_error(
      "\x80\x02"
      "a.",
      "byte 2: too few values on the stack");
  expect_error("\x80\x02}Na.", "byte 4: adds to something");
  expect_error("\x80\x02}(Nu.", "byte 5: adds to something");
  expect_error("\x80\x02h\x07.", "byte 2: value 7 was not kept");
  expect_error("\x80\x02(q\x01.", "byte 3: nothing to keep");
  expect_error("\x80\x02NN.", "byte 4: the pickle ends with something else than one value");
  expect_error(std::string("\x80\x02X\xff\xff\xff\x7f", 7), "byte 2: text of 2147483647 bytes");
  expect_error("\x80\x02N.", "no \"device_traces\"");
  expect_error("\x80\x02" + pickled_dict({pickled("device_traces"), pickled_list({"]"})}) + ".",
               "device_traces: no events");
  expect_error("\x80\x02" +
                   pickled_dict({pickled("device_traces"),
                                 pickled_list({pickled_list(
                                     {allocator_event("alloc", 1, 1, 1),
                                      pickled_dict({pickled("action"), pickled("alloc")})})})}) +
                   ".",
               "s.pickle: device_traces[0][1]: alloc has addr and size");
}

TEST(SnapshotImport, AListInItselfIsRead) {
  // x = []; x.append(x): a history without actions.
  expect_error("\x80\x02" +
                   pickled_dict({pickled("device_traces"), "]q" + std::string("\x01") +
                                                               "h\x01"
                                                               "a"}) +
                   ".",
               "device_traces[0][0]: an event without an action");
}

}  // namespace
}  // namespace snapshot_import
}  // namespace spillway
