// The recorded traces of the G10 artifact, where the checkout has them beside it: all import, and
// their kernel times add up to the published ideal times.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "trace/format/kernel_trace_writer.h"
#include "trace/format/native_writer.h"
#include "trace/read.h"
#include "trace/trace_bytes.h"

namespace spillway {
namespace {

class ReferenceTraces : public testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path folder =
        std::filesystem::path(SPILLWAY_SHARED_DIR) / "traces" / "a100";
    if (!std::filesystem::is_directory(folder)) {
      GTEST_SKIP() << "no recorded traces at " << folder;
    }
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const Result<Trace> trace = read_trace(entry.path());
      ASSERT_TRUE(trace.has_value()) << trace.error().message;
      traces_.push_back(*trace);
    }
  }

  std::vector<Trace> traces_;
};

TEST_F(ReferenceTraces, AddUpToThePublishedIdealTimes) {
  std::ifstream csv(std::filesystem::path(SPILLWAY_SHARED_DIR) / "reference" / "g10.csv");
  if (!csv) {
    GTEST_SKIP() << "no reference figures";
  }
  std::map<std::pair<std::string, std::uint64_t>, double> ideal_s;
  for (const Trace& trace : traces_) {
    TimeNs sum = 0;
    for (const Kernel& kernel : trace.kernels) {
      sum += kernel.duration_ns;
    }
    ideal_s[{trace.model, trace.batch_size}] = to_seconds(sum);
  }
  EXPECT_EQ(traces_.size(), 21U);
  std::size_t rows = 0;
  for (std::string line; std::getline(csv, line);) {
    std::istringstream fields(line);
    std::vector<std::string> row;
    for (std::string field; std::getline(fields, field, ',');) {
      row.push_back(field);
    }
    if (row.size() == 7 && row[3] == "ideal" &&
        (row[0] == "fig11_overall" || row[0] == "fig15_batch")) {
      const double expected = std::stod(row[6]);
      const auto found = ideal_s.find({row[1], std::stoull(row[2])});
      ASSERT_NE(found, ideal_s.end()) << line;
      EXPECT_NEAR(found->second, expected, 0.001 * expected) << line;
      ++rows;
    }
  }
  EXPECT_EQ(rows, 26U);
}

TEST_F(ReferenceTraces, SurviveBothFormats) {
  for (const Trace& trace : traces_) {
    const Result<Trace> native = read_bytes(encode_native_trace(trace).value());
    ASSERT_TRUE(native.has_value()) << native.error().message;
    EXPECT_EQ(*native, trace) << trace.model;
    const Result<Trace> json = read_bytes(encode_kernel_trace(trace));
    ASSERT_TRUE(json.has_value()) << json.error().message;
    EXPECT_EQ(*json, trace) << trace.model;
  }
}

// The README of the traces: a kernel's scratch is a tensor that it writes.
TEST_F(ReferenceTraces, ConvolutionsHaveScratch) {
  for (const Trace& trace : traces_) {
    std::size_t scratch = 0;
    for (const Tensor& tensor : trace.tensors) {
      scratch += tensor.scratch ? 1 : 0;
    }
    if (trace.model == "bert") {
      EXPECT_EQ(scratch, 0U);
    } else if (trace.model == "inceptionv3") {
      EXPECT_EQ(scratch, 846U);
    }
  }
}

}  // namespace
}  // namespace spillway
