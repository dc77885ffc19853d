// The fuzz corpus as a test: every file of it, and seeded mutations of every file.
//
// The corpus is made from this project's own traces and mistakes:
//   SPILLWAY_WRITE_CORPUS=fuzz/corpus trace_test --gtest_filter='Corpus.*'
// writes whatever is missing; files that a fuzzer found stay.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/rng.h"
#include "trace/bad_traces.h"
#include "trace/example_traces.h"
#include "trace/format/kernel_trace_writer.h"
#include "trace/format/native_reader.h"
#include "trace/format/native_writer.h"
#include "trace/import_examples.h"
#include "trace/reader_contract.h"
#include "trace/trace_bytes.h"

namespace spillway {
namespace {

struct Seed {
  std::string name;
  std::string bytes;
};

constexpr std::size_t kMostSeedBytes = 4096;

void add_small(std::vector<Seed>& seeds, const std::string& name, const std::string& bytes) {
  if (bytes.size() <= kMostSeedBytes) {
    seeds.push_back({name, bytes});
  }
}

std::vector<Seed> native_seeds() {
  std::vector<Seed> seeds;
  std::vector<Trace> traces = generated_traces();
  traces.push_back(tiny_trace());
  for (const Trace& trace : traces) {
    add_small(seeds, trace.model + ".swt", encode_native_trace(trace).value());
  }
  add_small(seeds, "synchronizing.swt", encode_native_trace(synchronizing_trace()).value());
  // Bare records, which the fuzz target reads without the compression.
  add_small(seeds, "two_kernels.records",
            RawRecords()
                .header()
                .tensor(1, 8192)
                .tensor(4096, 0, 1)
                .tensor(kScratchFlag, 512)
                .kernel("a", 5, {0}, {1, 1})
                .kernel("b", 5, {-1, -1}, {0})
                .end(3, 2)
                .bytes());
  add_small(seeds, "flagged_kernels.records",
            RawRecords()
                .header()
                .tensor(1, 8192)
                .tensor(4096, 0, 1)
                .flagged_kernel(0, "a", 5, {0}, {1})
                .flagged_kernel(1, "b", 5, {0}, {})
                .end(2, 2)
                .bytes());
  for (const BadTrace& bad : bad_native_traces()) {
    add_small(seeds, bad.name, bad.bytes);
  }
  return seeds;
}

std::vector<Seed> kernel_trace_seeds() {
  std::vector<Seed> seeds;
  const std::string json = encode_kernel_trace(tiny_trace());
  add_small(seeds, "tiny.json", json);
  add_small(seeds, "tiny.json.gz", gzip(json).value());
  for (const Trace& trace : generated_traces()) {
    add_small(seeds, trace.model + ".json.gz", gzip(encode_kernel_trace(trace)).value());
  }
  add_small(seeds, "synchronizing.json", encode_kernel_trace(synchronizing_trace()));
  for (const BadTrace& bad : bad_kernel_traces()) {
    add_small(seeds, bad.name, bad.bytes);
  }
  return seeds;
}

std::vector<Seed> import_seeds(const std::string& reader) {
  if (reader == "chakra_import") {
    return {{"example.json", test::chakra_example()},
            {"example.json.gz", gzip(test::chakra_example()).value()},
            {"times.json", test::kineto_file({test::kineto_op("aten::mm", 12, 6.5, 12)})}};
  }
  if (reader == "kineto_import") {
    return {{"host.json", test::kineto_host_example()},
            {"device.json", test::kineto_device_example()},
            {"device.json.gz", gzip(test::kineto_device_example()).value()}};
  }
  return {{"example.pickle", test::snapshot_example()},
          {"global.pickle",
           "\x80\x02"
           "cposix\nsystem\n)R."},
          {"in_itself.pickle", "\x80\x04]\x94h" + std::string(1, '\0') + "a."}};
}

// As a file and as bare records of each version, as the fuzz targets do.
std::string breach(const std::string& bytes) {
  std::string found = file_breach(bytes);
  for (const std::uint32_t version : {kNativeVersion, kNativeVersionWithKernelFlags}) {
    if (!found.empty()) {
      break;
    }
    MemorySource records(bytes);
    TraceBuilder builder;
    const Status status = read_native_records(records, version, builder);
    found =
        status ? contract_breach(builder.take()) : contract_breach(tl::unexpected(status.error()));
  }
  return found;
}

// One to four changes: a byte replaced, a bit flipped, a piece cut out, doubled or cut off.
std::string mutated(std::string bytes, Rng& rng) {
  const std::uint64_t changes = 1 + rng.below(4);
  for (std::uint64_t i = 0; i < changes && !bytes.empty(); ++i) {
    const std::size_t at = rng.below(bytes.size());
    const std::size_t length = std::min<std::size_t>(1 + rng.below(16), bytes.size() - at);
    switch (rng.below(5)) {
      case 0:
        bytes[at] = static_cast<char>(rng.next());
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << rng.below(8)));
        break;
      case 2:
        bytes.erase(at, length);
        break;
      case 3:
        bytes.insert(at, bytes.substr(at, length));
        break;
      default:
        bytes.resize(at);
    }
  }
  return bytes;
}

class Corpus : public testing::TestWithParam<const char*> {
 protected:
  std::vector<Seed> seeds() const {
    const std::string reader = GetParam();
    return reader.ends_with("_import") ? import_seeds(reader)
           : reader == "native_trace"  ? native_seeds()
                                       : kernel_trace_seeds();
  }
  std::string breach_of(const std::string& bytes) const {
    const std::string reader = GetParam();
    if (!reader.ends_with("_import")) {
      return breach(bytes);
    }
    const std::string found = import_breach(bytes);
    return found.empty() && reader == "chakra_import"
               ? import_breach(test::chakra_example(), bytes) + import_breach(bytes, times_)
               : found;
  }

 private:
  const std::string times_ = test::kineto_file({test::kineto_op("aten::mm", 12, 6.5, 12)});
};

TEST_P(Corpus, FilesInTheTreeKeepTheContract) {
  const std::filesystem::path folder =
      std::filesystem::path(SPILLWAY_SOURCE_DIR) / "fuzz" / "corpus" / GetParam();
  std::size_t files = 0;
  ASSERT_TRUE(std::filesystem::is_directory(folder)) << folder;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    EXPECT_EQ(breach_of(bytes), "") << entry.path();
    ++files;
  }
  EXPECT_GE(files, seeds().size());
}

TEST_P(Corpus, MutationsKeepTheContract) {
  Rng rng(20240611);
  for (const Seed& seed : seeds()) {
    for (int round = 0; round < 200; ++round) {
      const std::string bytes = mutated(seed.bytes, rng);
      ASSERT_EQ(breach_of(bytes), "") << seed.name << ", round " << round;
    }
  }
}

TEST_P(Corpus, TruncationsKeepTheContract) {
  for (const Seed& seed : seeds()) {
    for (std::size_t length = 0; length < std::min<std::size_t>(seed.bytes.size(), 512); ++length) {
      ASSERT_EQ(breach_of(seed.bytes.substr(0, length)), "")
          << seed.name << ", " << length << " bytes";
    }
  }
}

TEST_P(Corpus, IsWrittenOnRequest) {
  const char* request = std::getenv("SPILLWAY_WRITE_CORPUS");
  if (request == nullptr) {
    GTEST_SKIP() << "SPILLWAY_WRITE_CORPUS is not set";
  }
  const std::filesystem::path folder = std::filesystem::path(request) / GetParam();
  std::filesystem::create_directories(folder);
  for (const Seed& seed : seeds()) {
    if (!std::filesystem::exists(folder / seed.name)) {
      std::ofstream(folder / seed.name, std::ios::binary) << seed.bytes;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Readers, Corpus,
                         testing::Values("native_trace", "kernel_trace", "chakra_import",
                                         "kineto_import", "snapshot_import"),
                         [](const auto& reader) { return std::string(reader.param); });

}  // namespace
}  // namespace spillway
