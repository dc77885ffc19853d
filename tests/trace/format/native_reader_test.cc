// The native format: round trips, and every way in which a file can be wrong.
#include "trace/format/native_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "trace/bad_traces.h"
#include "trace/example_traces.h"
#include "trace/format/kernel_trace_writer.h"
#include "trace/format/native_writer.h"
#include "trace/limits.h"
#include "trace/trace_bytes.h"
#include "trace/validate.h"

namespace spillway {

std::vector<BadTrace> bad_native_traces() {
  const auto tensors = [] { return RawRecords().header().tensor(1, 8192).tensor(4096, 0, 1); };
  const std::string good =
      tensors().kernel("a", 5, {0}, {1}).kernel("b", 5, {0}, {}).end(2, 2).file();
  std::string flipped = good;
  flipped[good.size() - 1] = static_cast<char>(flipped[good.size() - 1] ^ 1);
  std::string header_flipped = good;
  header_flipped[12] = '\0';
  RawRecords many;
  many.header().tensor(1, 8192).number(3).number(0).text("k").number(1).number(0).number(0);
  many.number(1ULL << 60U).number(0);
  const std::string long_name(kMaxTextBytes + 1, 'n');

  return {
      {"empty", "", "t: the file is empty"},
      {"text.swt", "hello",
       "t: byte 0: neither a native Spillway trace (.swt) nor kernel-trace/1 (.json, .json.gz)"},
      {"magic_cut.swt", good.substr(0, 5), "t: byte 5: the file is truncated; copy it again"},
      {"version_cut.swt", good.substr(0, 10), "t: byte 10: the file is truncated; copy it again"},
      {"version_3.swt", tensors().file(3),
       "t: byte 8: version 3 of the trace format; this program reads versions 1 and 2"},
      {"kernel_flags.swt", tensors().flagged_kernel(2, "a", 5, {0}, {1}).file(2),
       "t: kernels[0]: unknown flags 2 (record at byte 24 of the records)"},
      {"no_records.swt", good.substr(0, 12), "t: byte 12: the file is truncated; copy it again"},
      {"trailing.swt", good + "x",
       fmt::format("t: byte {}: something follows the end of the trace", good.size())},
      {"checksum.swt", flipped,
       "t: byte 12: the compressed records are corrupt (Restored data doesn't match checksum)"},
      {"zstd_magic.swt", header_flipped,
       "t: byte 12: the compressed records are corrupt (Unknown frame descriptor)"},
      {"records_cut.swt", tensors().file(),
       "t: the tag of a record: the records end in the middle of it (record at byte 24 of the "
       "records)"},
      {"no_header.swt", RawRecords().tensor(1, 1).file(),
       "t: the first record is not the header (record at byte 0 of the records)"},
      {"two_headers.swt", RawRecords().header().header().file(),
       "t: a second header (record at byte 14 of the records)"},
      {"unknown_tag.swt", RawRecords().header().number(77).file(),
       "t: a record with the unknown tag 77 (record at byte 14 of the records)"},
      {"unknown_flags.swt", RawRecords().header().tensor(8, 4096).file(),
       "t: tensors[0]: unknown flags 8 (record at byte 14 of the records)"},
      {"number_too_long.swt", RawRecords().header().raw(std::string(11, '\xff')).file(),
       "t: the tag of a record: a number of more than 64 bits (record at byte 14 of the records)"},
      {"header_cut.swt", RawRecords().number(1).text("a\nb").file(),
       "t: device: the records end in the middle of it (record at byte 0 of the records)"},
      {"name_not_text.swt", tensors().kernel("a\nb", 5, {0}, {1}).file(),
       "t: kernels[0].name: not UTF-8 text without control characters (record at byte 24 of the "
       "records)"},
      {"name_too_long.swt", tensors().kernel(long_name, 5, {0}, {1}).file(),
       "t: the name of a kernel: 65537 bytes long; at most 65536 are allowed (record at byte 24 of "
       "the records)"},
      {"name_reference.swt",
       tensors().number(3).number(5).number(1).number(0).number(0).number(0).number(0).file(),
       "t: kernels[0].name: refers to name 5 of 0 (record at byte 24 of the records)"},
      {"size_zero.swt", RawRecords().header().tensor(1, 0).file(),
       "t: tensors[0].bytes: 0; must be 1 to 1125899906842624 (record at byte 14 of the records)"},
      {"size_absurd.swt", RawRecords().header().tensor(1, (1ULL << 50U) + 1).file(),
       "t: tensors[0].bytes: 1125899906842625; must be 1 to 1125899906842624 (record at byte 14 of "
       "the records)"},
      {"no_duration.swt", tensors().kernel("a", 0, {0}, {1}).file(),
       "t: kernels[0].duration_ns: 0 ns; must be 1 to 9007199254740992 ns (record at byte 24 of "
       "the records)"},
      {"duration_absurd.swt", tensors().kernel("a", 1ULL << 63U, {0}, {1}).file(),
       "t: kernels[0].duration_ns: 9223372036854775808 ns; at most 9007199254740992 are allowed "
       "(record at byte 24 of the records)"},
      {"id_out_of_range.swt", tensors().kernel("a", 5, {0}, {1}).kernel("b", 5, {1}, {}).file(),
       "t: kernels[1].reads[0]: tensor 2 does not exist; the trace has 2 tensors (record "
       "at byte 35 of the records)"},
      {"id_negative.swt", tensors().kernel("a", 5, {-1}, {}).file(),
       "t: kernels[0].reads[0]: tensor -1 does not exist; the trace has 2 tensors (record "
       "at byte 24 of the records)"},
      {"id_twice.swt", tensors().kernel("a", 5, {0, 0}, {}).file(),
       "t: kernels[0].reads[1]: tensor 0 is listed twice in the reads of this kernel (record at "
       "byte 24 of the records)"},
      {"list_claims_2_to_60.swt", many.file(),
       "t: kernels[0].reads: 1152921504606846976 tensors; the trace has 1 (record at byte 18 of "
       "the records)"},
      {"end_claims_2_to_60.swt",
       tensors().kernel("a", 5, {0}, {1}).kernel("b", 5, {0}, {}).end(1ULL << 60U, 2).file(),
       "t: the end record counts 1152921504606846976 tensors and 2 kernels, but the file has 2 and "
       "2; records are missing (record at byte 45 of the records)"},
      {"after_end.swt",
       tensors().kernel("a", 5, {0}, {1}).kernel("b", 5, {0}, {}).end(2, 2).number(2).file(),
       "t: records follow the end record (record at byte 45 of the records)"},
      {"tensor_after_kernel.swt", tensors().kernel("a", 5, {0}, {1}).tensor(1, 4096).file(),
       "t: tensors[2]: comes after kernels (record at byte 35 of the records)"},
      {"no_kernels.swt", tensors().end(2, 0).file(),
       "t: kernels: none; an iteration has at least one (record at byte 24 of the records)"},
      {"dies_before_birth.swt", RawRecords().header().tensor(4096, 3, 2).file(),
       "t: tensors[0]: a cycle in lifetimes: dies in kernels[2], before its birth in kernels[3] "
       "(record at byte 14 of the records)"},
      {"birth_absurd.swt", RawRecords().header().tensor(4096, 0, 1ULL << 40U).file(),
       "t: tensors[0]: lives from kernels[0] to kernels[1099511627776]; there are at most 4194304 "
       "kernels (record at byte 14 of the records)"},
      {"persistent_with_lifetime.swt",
       RawRecords()
           .header()
           .tensor(kPersistentFlag | kLifetimeFlag, 4096)
           .number(0)
           .number(0)
           .file(),
       "t: tensors[0]: persistent, but with a recorded lifetime (record at byte 14 of the "
       "records)"},
      {"persistent_scratch.swt",
       RawRecords().header().tensor(kPersistentFlag | kScratchFlag, 4096).file(),
       "t: tensors[0]: both persistent and scratch; scratch dies with its kernel (record at byte "
       "14 of the records)"},
      {"used_before_birth.swt",
       RawRecords().header().tensor(4096, 1, 1).kernel("a", 5, {}, {0}).file(),
       "t: kernels[0].writes[0]: tensor 0 is used outside its recorded lifetime, kernels[1] to "
       "kernels[1] (record at byte 20 of the records)"},
      {"used_after_death.swt",
       RawRecords()
           .header()
           .tensor(4096, 0, 0)
           .kernel("a", 5, {}, {0})
           .kernel("b", 5, {0}, {})
           .file(),
       "t: kernels[1].reads[0]: tensor 0 is used outside its recorded lifetime, kernels[0] to "
       "kernels[0] (record at byte 30 of the records)"},
      {"born_late.swt",
       RawRecords()
           .header()
           .tensor(4096, 0, 1)
           .kernel("a", 5, {}, {})
           .kernel("b", 5, {}, {0})
           .file(),
       "t: kernels[1].writes[0]: tensor 0 is first used here, but its recorded birth is kernels[0] "
       "(record at byte 29 of the records)"},
      {"never_dies.swt",
       RawRecords()
           .header()
           .tensor(4096, 0, 1)
           .kernel("a", 5, {}, {0})
           .kernel("b", 5, {}, {})
           .end(1, 2)
           .file(),
       "t: tensors[0]: its recorded death is kernels[1], which does not use it (record at byte 39 "
       "of the records)"},
      {"never_born.swt",
       RawRecords().header().tensor(4096, 0, 0).kernel("a", 5, {}, {}).end(1, 1).file(),
       "t: tensors[0]: no kernel uses it, but its recorded birth is kernels[0] (record at byte 29 "
       "of the records)"},
      {"scratch_of_two.swt",
       RawRecords()
           .header()
           .tensor(kScratchFlag, 4096)
           .kernel("a", 5, {}, {0})
           .kernel("b", 5, {}, {0})
           .file(),
       "t: kernels[1].writes[0]: tensor 0 is scratch of kernels[0]; scratch belongs to one kernel "
       "(record at byte 28 of the records)"},
      {"scratch_read.swt",
       RawRecords().header().tensor(kScratchFlag, 4096).kernel("a", 5, {0}, {}).file(),
       "t: kernels[0].reads[0]: tensor 0 is scratch, which only the writes of its one kernel name "
       "(record at byte 18 of the records)"},
      {"cycle.swt",
       RawRecords()
           .header()
           .tensor(4096, 0, 1)
           .kernel("a", 5, {0}, {})
           .kernel("b", 5, {}, {0})
           .file(),
       "t: kernels[1].writes[0]: tensor 0 was read by kernels[0] before this first write: a cycle "
       "in lifetimes; only a persistent tensor lives into the next iteration (record at byte 30 of "
       "the records)"},
  };
}

namespace {

TEST(NativeFormat, KeepsTheTinyTrace) {
  const Trace trace = tiny_trace();
  ASSERT_TRUE(validate_trace(trace, "tiny"));
  const Result<std::string> bytes = encode_native_trace(trace);
  ASSERT_TRUE(bytes.has_value());
  const Result<Trace> read = read_bytes(*bytes);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(*read, trace);
}

TEST(NativeFormat, KeepsGeneratedTraces) {
  for (const Trace& trace : generated_traces()) {
    const Result<std::string> bytes = encode_native_trace(trace);
    ASSERT_TRUE(bytes.has_value());
    const Result<Trace> read = read_bytes(*bytes);
    ASSERT_TRUE(read.has_value()) << read.error().message;
    EXPECT_EQ(*read, trace) << trace.model;
    EXPECT_LT(bytes->size(), gzip(encode_kernel_trace(trace)).value().size());
  }
}

TEST(NativeFormat, KeepsUnusedTensorsAndTheLargestNumbers) {
  Trace trace;
  trace.batch_size = ~std::uint64_t{0};
  trace.tensors = {{.bytes = kMaxTensorBytes, .persistent = true, .scratch = false},
                   {.bytes = 1, .persistent = false, .scratch = false}};
  trace.kernels = {{"\xc3\xa9", kMaxDurationNs, kMaxDurationNs, kMaxDurationNs, {}, {}}};
  const Result<std::string> bytes = encode_native_trace(trace);
  ASSERT_TRUE(bytes.has_value());
  const Result<Trace> read = read_bytes(*bytes);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(*read, trace);
}

TEST(NativeFormat, IsReadAcrossEveryChunkBoundary) {
  const Trace trace = tiny_trace();
  const Result<std::string> bytes = encode_native_trace(trace);
  ASSERT_TRUE(bytes.has_value());
  DrippingSource source(*bytes);
  const Result<Trace> read = read_trace(source, "t");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(*read, trace);
}

// The order of the stream, and the lifetimes that only this format has.
TEST(NativeFormat, DeliversRecordByRecord) {
  class Log : public TraceVisitor {
   public:
    Status on_header(TraceHeader header) override {
      lines.push_back(header.model);
      return {};
    }
    Status on_tensor(TensorId id, const Tensor& /*tensor*/,
                     const std::optional<RecordedLifetime>& lifetime) override {
      lines.push_back(lifetime ? fmt::format("{}: {}-{}", id, lifetime->birth, lifetime->death)
                               : fmt::format("{}", id));
      return {};
    }
    Status on_kernel(KernelIndex index, Kernel kernel) override {
      lines.push_back(kernel.name);
      if (index == 1) {
        return make_error(ErrorCode::kCannotRun, "enough");
      }
      return {};
    }
    std::vector<std::string> lines;
  };
  const Result<std::string> bytes = encode_native_trace(tiny_trace());
  ASSERT_TRUE(bytes.has_value());
  MemorySource source(*bytes);
  Log log;
  const Status status = visit_trace(source, "t", log);
  EXPECT_THAT(log.lines, testing::ElementsAre("tiny", "0", "1: 0-1", "2: 0-1", "3: 1-2", "4: 0-0",
                                              "forward", "backward"));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kCannotRun);
  EXPECT_THAT(status.error().message, testing::StartsWith("t: enough"));
}

TEST(NativeFormat, SaysWhatIsWrongAndWhere) {
  for (const BadTrace& bad : bad_native_traces()) {
    EXPECT_EQ(complaint(bad.bytes), bad.message) << bad.name;
  }
}

TEST(NativeFormat, RefusesEveryTruncation) {
  const Result<std::string> bytes = encode_native_trace(tiny_trace());
  ASSERT_TRUE(bytes.has_value());
  for (std::size_t length = 0; length < bytes->size(); ++length) {
    EXPECT_NE(complaint(bytes->substr(0, length)), "good") << length;
  }
}

TEST(NativeFormat, RefusesEveryFlippedBit) {
  const Trace trace = tiny_trace();
  const Result<std::string> bytes = encode_native_trace(trace);
  ASSERT_TRUE(bytes.has_value());
  for (std::size_t bit = 0; bit < bytes->size() * 8; ++bit) {
    std::string damaged = *bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const Result<Trace> read = read_bytes(damaged);
    // A few bits of a zstd frame mean nothing; then nothing may have changed.
    EXPECT_TRUE(!read || *read == trace) << bit;
  }
}

}  // namespace
}  // namespace spillway
