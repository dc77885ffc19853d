// Kineto traces: kernels, memory and operands on the host and with a device.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "trace/format/kernel_trace_writer.h"
#include "trace/import.h"
#include "trace/import_examples.h"

namespace spillway {
namespace kineto_import {
namespace {

using test::kernel;
using test::kineto_event;
using test::kineto_file;
using test::kineto_memory;
using test::kineto_op;
using testing::Contains;
using testing::HasSubstr;

Result<Imported> imported(const std::string& text, const ImportOptions& options = {}) {
  MemorySource file(text);
  return import_trace({file, "kineto"}, nullptr, options);
}

void expect_error(const std::string& text, const std::string& message) {
  const Result<Imported> result = imported(text);
  ASSERT_FALSE(result.has_value()) << message;
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidInput);
  EXPECT_THAT(result.error().message, HasSubstr(message));
}

TEST(KinetoImport, OnTheHostOutermostOperatorsAreKernels) {
  const Result<Imported> result = imported(test::kineto_host_example());
  ASSERT_TRUE(result.has_value()) << result.error().message;
  // 0 was there before and is freed behind relu_; 1 is mv's result; 2 lives inside of ger; 3 is the
  // gradient; 4 is the weight, found again by size in the optimizer; 5 the input, found again in
  // the backward pass by the sequence number.
  EXPECT_EQ(result->trace.kernels, (std::vector<Kernel>{kernel("aten::mv", 5000, {0, 4, 5}, {1}),
                                                        kernel("aten::relu_", 2000, {0, 1}, {}),
                                                        kernel("aten::ger", 8000, {1, 5}, {2, 3}),
                                                        kernel("aten::add_", 4000, {3, 4}, {})}));
  EXPECT_EQ(result->trace.tensors, (std::vector<Tensor>{{64, false, false},
                                                        {32, false, false},
                                                        {16, false, true},
                                                        {128, false, false},
                                                        {128, true, false},
                                                        {16, true, false}}));
  EXPECT_EQ(result->iteration, "all of the file");
}

TEST(KinetoImport, WithADeviceItsKernelsCount) {
  const Result<Imported> result = imported(test::kineto_device_example());
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->trace.device, "NVIDIA H100");
  EXPECT_EQ(result->trace.kernels, (std::vector<Kernel>{kernel("prepare", 2000, {2, 3}, {0}),
                                                        kernel("gemm", 7500, {2, 3}, {1}),
                                                        kernel("Memcpy DtoH", 1000, {0}, {})}));
  // mm's result, its workspace, its two inputs, and what else of the 4096 bytes was there before.
  EXPECT_EQ(result->trace.tensors, (std::vector<Tensor>{{1024, false, false},
                                                        {512, false, true},
                                                        {1024, true, false},
                                                        {1024, true, false},
                                                        {2048, true, false}}));
  EXPECT_THAT(result->notes, Contains(HasSubstr("2 KiB of the 4 KiB that the allocator had")));
}

TEST(KinetoImport, AnIterationSeesMemoryFromBefore) {
  const std::string text = kineto_file(
      {kineto_event("user_annotation", "ProfilerStep#4", 10, 10), kineto_op("aten::a", 11, 2, 1),
       kineto_memory(12, 100, 40), kineto_memory(13, 200, 24),
       kineto_event("user_annotation", "ProfilerStep#5", 30, 20), kineto_op("aten::b", 31, 2, 2),
       kineto_memory(34, 100, -40), kineto_op("aten::c", 41, 2, 3), kineto_memory(42, 300, 16)});
  const Result<Imported> last = imported(text);
  ASSERT_TRUE(last.has_value()) << last.error().message;
  EXPECT_EQ(last->iteration, "ProfilerStep#5");
  // 100 dies in it, 200 outlives it, 300 is born in it.
  EXPECT_EQ(last->trace.tensors,
            (std::vector<Tensor>{{40, false, false}, {24, true, false}, {16, false, true}}));
  EXPECT_EQ(last->trace.kernels, (std::vector<Kernel>{kernel("aten::b", 2000, {0}, {}),
                                                      kernel("aten::c", 2000, {}, {2})}));
  EXPECT_EQ(imported(text, {.iteration = 4}).value().trace.kernels.size(), 1U);
}

TEST(KinetoImport, EachKernelHoldsOneBlockThatItDoesNotUse) {
  std::vector<std::string> events;
  for (std::uint64_t i = 0; i < 4; ++i) {
    const double us = 10.0 * static_cast<double>(i + 1);
    events.push_back(kineto_op("aten::k", us, 5, i + 1));
    events.push_back(kineto_memory(us + 1, 100 + i, static_cast<std::int64_t>(8 * (i + 1))));
  }
  for (std::uint64_t i = 0; i < 3; ++i) {  // all at once, behind the last kernel
    events.push_back(kineto_memory(50, 100 + i, -static_cast<std::int64_t>(8 * (i + 1))));
  }
  const Trace trace = imported(kineto_file(events)).value().trace;
  // The largest as long as it was there: 24 until kernel 3. The others die early, 16 in 2, 8 in 1.
  EXPECT_EQ(
      trace.kernels,
      (std::vector<Kernel>{kernel("aten::k", 5000, {}, {0}), kernel("aten::k", 5000, {0}, {1}),
                           kernel("aten::k", 5000, {1}, {2}), kernel("aten::k", 5000, {2}, {3})}));
}

TEST(KinetoImport, CompressedIsReadAlike) {
  const std::string text = test::kineto_host_example();
  EXPECT_EQ(imported(gzip(text).value()).value().trace, imported(text).value().trace);
}

TEST(KinetoImport, WhatWasNotRecordedIsSaid) {
  const Result<Imported> result = imported(kineto_file({kineto_op("aten::a", 1, 1, 1)}));
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_THAT(result->notes, Contains(HasSubstr("profile_memory=True")));
  EXPECT_THAT(result->notes, Contains(HasSubstr("record_shapes=True")));
}

TEST(KinetoImport, BadFilesAreRefusedWithTheirPlace) {
  expect_error(kineto_file({kineto_op("aten::a", -1, 1, 1)}), "kineto: traceEvents[0]: ts and dur");
  expect_error(kineto_file({kineto_op("aten::a", 1, 1e300, 1)}), "traceEvents[0]: ts and dur");
  expect_error(kineto_file({kineto_memory(1, 1, std::int64_t{1} << 60)}),
               "traceEvents[0]: [memory] has");
  expect_error(kineto_file({"7"}), "traceEvents[0]: an event without \"ph\"");
  expect_error(kineto_file({}), "the iteration: kernels: none");
  expect_error(R"({"schemaVersion": 1})", "the document: no list \"traceEvents\"");
  expect_error(R"({"traceEvents": [], "traceEvents": []})", "must be one list");
  expect_error(R"({"traceEvents": 7})", "must be one list");
  expect_error(kineto_file({std::string(100, '[') + std::string(100, ']')}),
               "traceEvents[0]: lists and objects nested more than 64 deep");
  expect_error(kineto_file({R"({"ph": "X"})"}) + "x", "of the JSON text");
  std::string long_list = "[0";
  for (int i = 0; i < (1 << 20); ++i) {
    long_list += ",0";
  }
  expect_error(kineto_file({long_list + "]"}), "traceEvents[0]: more than 1048576 values");
}

}  // namespace
}  // namespace kineto_import
}  // namespace spillway
