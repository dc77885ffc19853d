// Readers deliver while they read, and stop at the limits however little a file needs to pass them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "trace/example_traces.h"
#include "trace/format/kernel_trace_writer.h"
#include "trace/format/native_writer.h"
#include "trace/limits.h"
#include "trace/trace_bytes.h"

namespace spillway {
namespace {

// Knows how much of the file the reader has asked for.
class CountingSource : public ByteSource {
 public:
  explicit CountingSource(std::string_view bytes) : bytes_(bytes) {}
  Result<std::string_view> next() override {
    const std::string_view piece = bytes_.substr(0, 256);
    bytes_.remove_prefix(piece.size());
    delivered += piece.size();
    return piece;
  }
  std::size_t delivered = 0;

 private:
  std::string_view bytes_;
};

// Notes how far into the file the reader was at the first tensor and the middle kernel.
class Watcher : public TraceVisitor {
 public:
  Watcher(const CountingSource& source, std::size_t kernels)
      : source_(source), middle_(kernels / 2) {}
  Status on_header(TraceHeader /*header*/) override { return {}; }
  Status on_tensor(TensorId id, const Tensor& /*tensor*/,
                   const std::optional<RecordedLifetime>& /*lifetime*/) override {
    if (id == 0) {
      at_first_tensor = source_.delivered;
    }
    return {};
  }
  Status on_kernel(KernelIndex index, Kernel /*kernel*/) override {
    if (index == middle_) {
      at_middle_kernel = source_.delivered;
    }
    return {};
  }
  std::size_t at_first_tensor = 0;
  std::size_t at_middle_kernel = 0;

 private:
  const CountingSource& source_;
  std::size_t middle_;
};

TEST(Streaming, RecordsArriveWhileTheFileIsRead) {
  TransformerShape shape = small_transformer();
  shape.layers = 200;
  const Trace trace = generate_transformer(shape);
  const std::string json = encode_kernel_trace(trace);
  for (const std::string& bytes : {json, gzip(json).value(), encode_native_trace(trace).value()}) {
    CountingSource source(bytes);
    Watcher watcher(source, trace.kernels.size());
    const Status status = visit_trace(source, "t", watcher);
    ASSERT_TRUE(status) << status.error().message;
    EXPECT_EQ(source.delivered, bytes.size());
    EXPECT_LT(watcher.at_first_tensor, bytes.size() / 2);
    EXPECT_LT(watcher.at_middle_kernel, bytes.size() * 9 / 10);
  }
}

// A file of kilobytes that decompresses to more tensors than a trace may have.
TEST(Streaming, TensorsEndAtTheLimit) {
  RawRecords records;
  records.header();
  for (std::uint64_t i = 0; i <= kMaxTensors; ++i) {
    records.tensor(kPersistentFlag, 1);
  }
  const std::string file = records.file();
  EXPECT_LT(file.size(), 10'000U);
  EXPECT_THAT(complaint(file),
              testing::StartsWith("t: tensors[4194304]: more than 4194304 tensors"));
}

// Names are shared in the file but not in memory: 64 KiB at 6 bytes a kernel.
TEST(Streaming, NamesEndAtTheLimit) {
  RawRecords records;
  records.header().kernel(std::string(kMaxTextBytes, 'n'), 1, {}, {});
  for (std::uint64_t i = 0; i < kMaxTotalTextBytes / kMaxTextBytes; ++i) {
    records.number(3).number(1).number(1).number(0).number(0).number(0).number(0);
  }
  EXPECT_THAT(complaint(records.file()),
              testing::StartsWith("t: kernels[4096].name: names exceed 268435456 bytes together"));
}

}  // namespace
}  // namespace spillway
