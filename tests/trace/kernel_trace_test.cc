// kernel-trace/1: import against hand-written JSON and against the writer; mistakes by JSON path.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/units.h"
#include "trace/bad_traces.h"
#include "trace/example_traces.h"
#include "trace/format/kernel_trace_writer.h"
#include "trace/trace_bytes.h"

namespace spillway {
namespace {

std::string document(const std::string& tensors, const std::string& kernels,
                     const std::string& format = "kernel-trace/1") {
  return R"({"format":")" + format + R"(","model":"m","batch_size":8,"tensors":[)" + tensors +
         R"(],"kernels":[)" + kernels + "]}";
}

std::string tensor(const std::string& bytes = "4096", bool persistent = false) {
  return R"({"bytes":)" + bytes + R"(,"persistent":)" + (persistent ? "true" : "false") + "}";
}

std::string kernel(const std::string& reads, const std::string& writes,
                   const std::string& ms = "1.5") {
  return R"({"name":"k","ms":)" + ms + R"(,"reads":[)" + reads + R"(],"writes":[)" + writes + "]}";
}

const std::string kTwo = tensor() + "," + tensor();  // two intermediate tensors

}  // namespace

std::vector<BadTrace> bad_kernel_traces() {
  const std::string good = document(kTwo, kernel("0", "1"));
  const std::string zipped = gzip(good).value();
  std::string bad_crc = zipped;
  bad_crc[zipped.size() - 8] = static_cast<char>(bad_crc[zipped.size() - 8] ^ 1);
  return {
      {"cut.json", good.substr(0, good.size() - 1),
       fmt::format("t: byte {0} of the JSON text: parse error at line 1, column {0}: syntax error "
                   "while parsing object - unexpected end of input; expected '}}'",
                   good.size())},
      {"trailing.json", good + "x",
       fmt::format("t: byte {0} of the JSON text: parse error at line 1, column {0}: syntax error "
                   "while parsing value - invalid literal; last read: '1]}}]}}x'; expected end of "
                   "input",
                   good.size() + 1)},
      {"cut.json.gz", zipped.substr(0, zipped.size() - 20),
       fmt::format("t: byte {}: the gzip stream is truncated; copy the file again",
                   zipped.size() - 20)},
      {"crc.json.gz", bad_crc,
       fmt::format("t: byte {}: the gzip stream is corrupt (incorrect data check)",
                   zipped.size() - 4)},
      {"trailing.json.gz", zipped + "xx",
       fmt::format("t: byte {}: the gzip stream is corrupt (incorrect header check)",
                   zipped.size() + 2)},
      {"version.json", document(kTwo, kernel("0", "1"), "kernel-trace/2"),
       "t: format: \"kernel-trace/2\" is not a version that this program reads; it reads "
       "kernel-trace/1"},
      {"no_format.json", R"({"tensors":[],"kernels":[]})",
       "t: tensors: comes before \"format\"; a file that is read in a stream says first what it "
       "is"},
      {"order.json", R"({"format":"kernel-trace/1","kernels":[],"tensors":[]})",
       "t: kernels: comes before \"tensors\"; a file that is read in a stream has the tensors "
       "first"},
      {"no_kernels.json", R"({"format":"kernel-trace/1","tensors":[]})",
       "t: the document: no \"kernels\"; a trace lists its kernels"},
      {"empty_kernels.json", document(kTwo, ""), "t: kernels: none; an iteration has at least one"},
      {"array.json", "{}", "t: the document: no \"format\"; it must say kernel-trace/1"},
      {"twice.json", R"({"format":"kernel-trace/1","format":"kernel-trace/1"})",
       "t: format: given twice"},
      {"tensors_object.json", R"({"format":"kernel-trace/1","tensors":{}})",
       "t: tensors: expected an array, found an object"},
      {"tensor_number.json", document("7", ""), "t: tensors[0]: expected an object, found 7"},
      {"size_negative.json", document(tensor() + "," + tensor("-4096"), ""),
       "t: tensors[1].bytes: expected a whole number that is not negative, found -4096"},
      {"size_fraction.json", document(tensor("4096.5"), ""),
       "t: tensors[0].bytes: expected a whole number that is not negative, found 4096.5"},
      {"size_zero.json", document(tensor("0"), ""),
       "t: tensors[0].bytes: 0; must be 1 to 1125899906842624"},
      {"size_absurd.json", document(tensor("18446744073709551615"), ""),
       "t: tensors[0].bytes: 18446744073709551615; must be 1 to 1125899906842624"},
      {"size_overflow.json", document(tensor("1e999"), ""),
       "t: byte 79 of the JSON text: number overflow parsing '1e999'"},
      {"no_size.json", document(R"({"persistent":true})", ""),
       "t: tensors[0]: no \"bytes\"; a tensor has a size"},
      {"no_persistent.json", document(R"({"bytes":4096})", ""),
       "t: tensors[0]: no \"persistent\"; it says whether the tensor lives on"},
      {"persistent_null.json", document(R"({"bytes":4096,"persistent":null})", ""),
       "t: tensors[0].persistent: expected true or false, found null"},
      {"no_duration.json",
       document(kTwo, kernel("0", "1") + R"(,{"name":"k","reads":[],"writes":[]})"),
       "t: kernels[1]: no \"ms\"; a kernel has a duration"},
      {"duration_zero.json", document(kTwo, kernel("0", "1", "0.0")),
       "t: kernels[0].ms: 0 ms; must be 1 to 9007199254740992 ns"},
      {"duration_negative.json", document(kTwo, kernel("0", "1", "-1.5")),
       "t: kernels[0].ms: -1.5 ms; must be 1 to 9007199254740992 ns"},
      {"duration_absurd.json", document(kTwo, kernel("0", "1", "1e300")),
       "t: kernels[0].ms: 1e+300 ms; must be 1 to 9007199254740992 ns"},
      {"duration_text.json", document(kTwo, kernel("0", "1", "\"1\"")),
       "t: kernels[0].ms: expected a number, found a string"},
      {"sync_number.json",
       document(kTwo, R"({"name":"k","ms":1,"reads":[0],"writes":[1],"sync":1})"),
       "t: kernels[0].sync: expected true or false, found 1"},
      {"id_out_of_range.json", document(kTwo, kernel("0", "1") + "," + kernel("0,1,2", "")),
       "t: kernels[1].reads[2]: tensor 2 does not exist; the trace has 2 tensors"},
      {"id_negative.json", document(kTwo, kernel("0", "-1")),
       "t: kernels[0].writes[0]: expected a tensor id, found -1"},
      {"id_fraction.json", document(kTwo, kernel("0.5", "")),
       "t: kernels[0].reads[0]: expected a tensor id, found 0.5"},
      {"id_list.json", document(kTwo, kernel("[0]", "")),
       "t: kernels[0].reads[0]: expected a tensor id, found an array"},
      {"id_twice.json", document(kTwo, kernel("0,1,0", "")),
       "t: kernels[0].reads[2]: lists more than the 2 tensors of the trace"},
      {"id_twice_written.json", document(kTwo, kernel("", "1,1")),
       "t: kernels[0].writes[1]: tensor 1 is listed twice in the writes of this kernel"},
      {"name_control.json", document(kTwo, R"({"name":"a\nb","ms":1,"reads":[],"writes":[]})"),
       "t: kernels[0].name: not UTF-8 text without control characters"},
      {"cycle.json",
       document(kTwo, kernel("0", "1") + "," + kernel("1", "") + "," + kernel("", "0")),
       "t: kernels[2].writes[0]: tensor 0 was read by kernels[0] before this first write: a cycle "
       "in lifetimes; only a persistent tensor lives into the next iteration"},
  };
}

namespace {

TEST(KernelTrace, ImportsWhatTheFileSays) {
  const Result<Trace> read = read_bytes(R"( {
    "format": "kernel-trace/1", "model": "bert", "batch_size": 256, "gpu": "A100-40GB",
    "dtype": "float32", "comment": {"tensors": [1, {"kernels": []}]},
    "tensors": [{"bytes": 8192, "persistent": true}, {"persistent": false, "bytes": 4096, "x": []},
                {"bytes": 4096, "persistent": false}, {"bytes": 4096, "persistent": true}],
    "kernels": [{"name": "Add_Forward", "ms": 0.4280325, "input_fault_ms": 60.5941774,
                 "all_fault_ms": 0.1, "reads": [0], "writes": [1, 2]},
                {"writes": [3], "reads": [1], "ms": 2, "name": "Sum_\u00e9", "sync": true}] } )");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  Trace expected;
  expected.model = "bert";
  expected.batch_size = 256;
  expected.device = "A100-40GB";
  expected.dtype = "float32";
  expected.tensors = {{8192, true, false},
                      {4096, false, false},
                      {4096, false, true},  // written once, read by none: scratch
                      {4096, true, false}};
  expected.kernels = {{"Add_Forward", 428'033, 60'594'177, 100'000, {0}, {1, 2}},
                      {"Sum_\xc3\xa9", 2'000'000, 0, 0, {1}, {3}, true}};
  EXPECT_EQ(*read, expected);
}

TEST(KernelTrace, WriterAndImporterAgree) {
  std::vector<Trace> traces = generated_traces();
  traces.push_back(tiny_trace());
  traces.push_back(synchronizing_trace());
  for (Trace& trace : traces) {
    const std::string json = encode_kernel_trace(trace);
    for (Tensor& tensor : trace.tensors) {
      tensor.bytes = round_up(tensor.bytes, kPageBytes);  // the format's granularity
    }
    for (const std::string& bytes : {json, gzip(json).value()}) {
      const Result<Trace> read = read_bytes(bytes);
      ASSERT_TRUE(read.has_value()) << read.error().message;
      EXPECT_EQ(*read, trace) << trace.model;
    }
  }
}

TEST(KernelTrace, ReadsSeveralGzipMembersAsOne) {
  const std::string json = encode_kernel_trace(tiny_trace());
  const Result<Trace> read =
      read_bytes(gzip(json.substr(0, 100)).value() + gzip(json.substr(100)).value());
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(*read, tiny_trace());
}

TEST(KernelTrace, IsReadAcrossEveryChunkBoundary) {
  const std::string json = encode_kernel_trace(tiny_trace());
  for (const std::string& bytes : {json, gzip(json).value()}) {
    DrippingSource source(bytes);
    const Result<Trace> read = read_trace(source, "t");
    ASSERT_TRUE(read.has_value()) << read.error().message;
    EXPECT_EQ(*read, tiny_trace());
  }
}

TEST(KernelTrace, SaysWhatIsWrongAndWhere) {
  for (const BadTrace& bad : bad_kernel_traces()) {
    EXPECT_EQ(complaint(bad.bytes), bad.message) << bad.name;
  }
}

TEST(KernelTrace, RefusesEveryTruncation) {
  const std::string json = encode_kernel_trace(tiny_trace());
  for (std::size_t length = 0; length < json.size() - 1; ++length) {  // the last byte is a newline
    EXPECT_NE(complaint(json.substr(0, length)), "good") << length;
  }
  const std::string zipped = gzip(json).value();
  for (std::size_t length = 0; length < zipped.size(); ++length) {
    EXPECT_NE(complaint(zipped.substr(0, length)), "good") << length;
  }
}

// A short file can inflate to a name that has no end; the reader must not wait for it.
TEST(KernelTrace, DoesNotHoldAnEndlessString) {
  const std::string json = R"({"format":"kernel-trace/1","model":")" + std::string(8 << 20, 'x');
  EXPECT_EQ(complaint(gzip(json).value()),
            "t: byte 65536 of the JSON text: a string, number or gap of more than 1048576 bytes");
}

TEST(KernelTrace, DoesNotNestWithoutEnd) {
  const std::string json = R"({"x":)" + std::string(1 << 20, '[');
  EXPECT_THAT(complaint(json), testing::HasSubstr("unexpected end of input"));
}

}  // namespace
}  // namespace spillway
