// Synchronization points in both formats, and the version of the native one that has them.
#include <gtest/gtest.h>

#include <string>

#include "trace/example_traces.h"
#include "trace/format/kernel_trace_writer.h"
#include "trace/format/native_format.h"
#include "trace/format/native_writer.h"
#include "trace/trace_bytes.h"

namespace spillway {
namespace {

// What needs no version 2 stays the version 1 that it was.
TEST(Synchronization, IsKeptInTheLowestVersionThatHasIt) {
  const std::string plain = encode_native_trace(tiny_trace()).value();
  const std::string synchronizing = encode_native_trace(synchronizing_trace()).value();
  EXPECT_EQ(plain[kNativeMagic.size()], 1);
  EXPECT_EQ(synchronizing[kNativeMagic.size()], 2);
  const Result<Trace> read = read_bytes(synchronizing);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(*read, synchronizing_trace());
}

TEST(Synchronization, MayBeMissingInVersion2) {
  const RawRecords start = RawRecords().header().tensor(1, 8192).tensor(4096, 0, 0);
  const Result<Trace> flagged =
      read_bytes(RawRecords(start).flagged_kernel(0, "a", 5, {0}, {1}).end(2, 1).file(2));
  const Result<Trace> plain =
      read_bytes(RawRecords(start).kernel("a", 5, {0}, {1}).end(2, 1).file());
  ASSERT_TRUE(flagged.has_value()) << flagged.error().message;
  ASSERT_TRUE(plain.has_value()) << plain.error().message;
  EXPECT_EQ(*flagged, *plain);
}

TEST(Synchronization, FlagsThatEndInTheMiddleAreTruncated) {
  EXPECT_EQ(complaint(RawRecords().header().number(3).file(2)),
            "t: the flags of a kernel: the records end in the middle of it (record at byte 14 of "
            "the records)");
}

// Readers of kernel-trace/1 that do not know the field skip it; what has none is written as before.
TEST(Synchronization, IsAFieldOfKernelTraceOnlyWhereTheHostWaits) {
  EXPECT_EQ(encode_kernel_trace(tiny_trace()).find("sync"), std::string::npos);
  const std::string json = encode_kernel_trace(synchronizing_trace());
  EXPECT_EQ(json.find("\"sync\":true"), json.rfind("\"sync\""));
  const Result<Trace> read = read_bytes(json);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(*read, synchronizing_trace());
}

}  // namespace
}  // namespace spillway
