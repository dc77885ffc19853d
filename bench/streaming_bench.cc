// One thread passes over an array larger than its memory: in order, one line of every page with a
// stride, and random pages; reading, or adding one to each word. The same program on malloc's
// memory, on a mapped file and on a Spillway space; streaming.py compares them. Every pass is
// checked by its sum.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/measure.h"
#include "bench/streaming_contents.h"
#include "bench/streaming_memory.h"

namespace spillway::bench {
namespace {

struct Options {
  std::string memory = "spillway";
  std::string folder = std::filesystem::temp_directory_path();
  Bytes bytes = 256 * kMiB;
  Bytes device_bytes = 64 * kMiB;
  Bytes host_bytes = 0;
  Bytes storage_bytes = kGiB;
  std::string policy = "base_uvm";
  std::uint64_t passes = 1;
  std::uint64_t random_pages = 512;
  std::uint64_t stride_pages = 16;
  std::uint64_t seed = 1;
  bool as_json = false;
};

struct Pattern {
  std::string name;
  Part part = Part::kPage;
  std::vector<std::uint32_t> order;  // of the pages that are visited
};

struct Row {
  std::string name;
  bool writes = false;
  std::uint64_t pages = 0;
  Bytes used_bytes = 0;  // of the pages
  std::vector<TimeNs> pass_ns;
};

std::vector<Pattern> patterns_of(const Options& options) {
  const auto pages = static_cast<std::uint32_t>(options.bytes / kPageBytes);
  std::vector<Pattern> patterns{{.name = "sequential", .part = Part::kPage, .order = {}},
                                {.name = "strided", .part = Part::kLine, .order = {}},
                                {.name = "random", .part = Part::kPage, .order = {}}};
  for (std::uint32_t page = 0; page < pages; ++page) {
    patterns[0].order.push_back(page);
  }
  for (std::uint32_t start = 0; start < options.stride_pages; ++start) {
    for (std::uint64_t page = start; page < pages; page += options.stride_pages) {
      patterns[1].order.push_back(static_cast<std::uint32_t>(page));
    }
  }
  std::mt19937_64 random(options.seed);
  for (std::uint64_t i = 0; i < options.random_pages; ++i) {
    patterns[2].order.push_back(static_cast<std::uint32_t>(random() % pages));
  }
  return patterns;
}

// The sum of what was read or, where it writes, of what was written.
std::uint64_t visit(std::uint64_t* page_words, std::size_t page, Part part, bool writes) {
  const std::span words(page_words + first_word_of(part, page), words_of(part));
  std::uint64_t sum = 0;
  if (writes) {
    for (std::uint64_t& word : words) {
      sum += ++word;
    }
  } else {
    for (const std::uint64_t word : words) {
      sum += word;
    }
  }
  return weighted(page, sum);
}

// Fails if the sum is not what it must be.
Result<TimeNs> pass(StreamingMemory& memory, const Pattern& pattern, bool writes,
                    ExpectedSums& expected) {
  // A launch is as much as 8 MiB in order, or 512 visits elsewhere.
  const std::size_t step_pages = pattern.name == "sequential" ? 8 * kMiB / kPageBytes : 512;
  const std::string name = fmt::format("{} {}", pattern.name, writes ? "write" : "read");
  const std::uint64_t wanted = expected.pass(pattern.order, pattern.part, writes);
  std::uint64_t* const words = memory.words();
  std::uint64_t checksum = 0;
  memory.settle();
  const TimeNs begin_ns = now_ns();
  for (std::size_t i = 0; i < pattern.order.size(); ++i) {
    if (i % step_pages == 0) {
      memory.mark(name, i / step_pages);
    }
    const std::size_t page = pattern.order[i];
    checksum += visit(words + page * kPageWords, page, pattern.part, writes);
  }
  const TimeNs time_ns = now_ns() - begin_ns;
  if (checksum != wanted) {
    return make_error(ErrorCode::kDefect, "{}: the checksum is {:x}, not {:x}: bytes were lost",
                      name, checksum, wanted);
  }
  return time_ns;
}

void fill(std::uint64_t* words, std::size_t pages) {
  for (std::size_t page = 0; page < pages; ++page) {
    for (std::size_t word = 0; word < kPageWords; ++word) {
      words[page * kPageWords + word] = initial_word(page, word);
    }
  }
}

Result<std::vector<Row>> measure(const Options& options, StreamingMemory& memory) {
  const std::size_t pages = options.bytes / kPageBytes;
  ExpectedSums expected(pages);
  const std::vector<Pattern> patterns = patterns_of(options);
  const TimeNs begin_ns = now_ns();
  fill(memory.words(), pages);
  std::vector<Row> rows{{.name = "fill",
                         .writes = true,
                         .pages = pages,
                         .used_bytes = options.bytes,
                         .pass_ns = {now_ns() - begin_ns}}};
  for (const Pattern& pattern : patterns) {
    for (const bool writes : {false, true}) {
      Row row{.name = pattern.name,
              .writes = writes,
              .pages = pattern.order.size(),
              .used_bytes = pattern.order.size() * words_of(pattern.part) * sizeof(std::uint64_t),
              .pass_ns = {}};
      for (std::uint64_t i = 0; i < options.passes; ++i) {
        const Result<TimeNs> time_ns = pass(memory, pattern, writes, expected);
        if (!time_ns) {
          return tl::unexpected<Error>(time_ns.error());
        }
        row.pass_ns.push_back(*time_ns);
      }
      rows.push_back(std::move(row));
    }
  }
  // What the last writes left.
  if (const Result<TimeNs> last = pass(memory, patterns[0], false, expected); !last) {
    return tl::unexpected<Error>(last.error());
  }
  return rows;
}

Result<std::unique_ptr<StreamingMemory>> open_memory(const Options& options) {
  if (options.memory == "malloc") {
    return MallocMemory::open(options.bytes);
  }
  if (options.memory == "mmap") {
    return MappedMemory::open(options.folder, options.bytes);
  }
  SpaceOptions space;
  space.device_bytes = options.device_bytes;
  space.host_bytes = options.host_bytes;
  space.storage_path = options.storage_bytes > 0 ? options.folder : "";
  space.storage_bytes = options.storage_bytes;
  space.policy = options.policy;
  return SpaceMemory::open(space, options.bytes);
}

Bytes peak_resident_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<Bytes>(usage.ru_maxrss) * kKiB;
}

void print(const std::vector<Row>& rows, const StreamingMemory& memory, bool as_json) {
  nlohmann::json list = nlohmann::json::array();
  if (!as_json) {
    fmt::print("{:10} {:6} {:>9} {:>12} {:>12} {:>12}\n", "pattern", "access", "pages", "pages/s",
               "MB/s", "first MB/s");
  }
  for (const Row& row : rows) {
    const char* const access = row.writes ? "write" : "read";
    const TimeNs last_ns = row.pass_ns.back();
    const double pages_per_s = per_s(static_cast<double>(row.pages), last_ns);
    const double bytes_per_s = per_s(static_cast<double>(row.used_bytes), last_ns);
    if (as_json) {
      list.push_back({{"pattern", row.name},
                      {"access", access},
                      {"pages", row.pages},
                      {"used_bytes", row.used_bytes},
                      {"pass_ns", row.pass_ns},
                      {"pages_per_s", pages_per_s},
                      {"bytes_per_s", bytes_per_s}});
    } else {
      fmt::print("{:10} {:6} {:9} {:12.0f} {:12.1f} {:12.1f}\n", row.name, access, row.pages,
                 pages_per_s, bytes_per_s / kBytesInMB,
                 per_s(static_cast<double>(row.used_bytes), row.pass_ns.front()) / kBytesInMB);
    }
  }
  if (as_json) {
    const nlohmann::json all{{"rows", list},
                             {"peak_resident_bytes", peak_resident_bytes()},
                             {"counters", memory.counters()}};
    fmt::print("{}\n", all.dump(2));
  } else {
    fmt::print("rates of the last pass; {} resident at most\n",
               format_bytes(peak_resident_bytes()));
  }
}

Status run(const Options& options) {
  if (options.bytes < kBlockBytes || options.bytes % kPageBytes != 0) {
    return make_error(ErrorCode::kInvalidInput, "--bytes: whole pages, at least {}",
                      format_bytes(kBlockBytes));
  }
  const Result<std::unique_ptr<StreamingMemory>> memory = open_memory(options);
  if (!memory) {
    return tl::unexpected<Error>(memory.error());
  }
  const Result<std::vector<Row>> rows = measure(options, **memory);
  if (!rows) {
    return tl::unexpected<Error>(rows.error());
  }
  print(*rows, **memory, options.as_json);
  return {};
}

int main_of_bench(int argc, char** argv) {
  CLI::App app("Passes over an array that is larger than its memory", "streaming_bench");
  Options options;
  app.add_option("--memory", options.memory)
      ->check(CLI::IsMember({"malloc", "mmap", "spillway"}))
      ->capture_default_str();
  app.add_option("--folder", options.folder, "Of the mapped file, and to swap to")
      ->capture_default_str();
  add_bytes_option(app, "--bytes", options.bytes, "Of the array");
  add_bytes_option(app, "--device", options.device_bytes, "Spillway's device budget");
  add_bytes_option(app, "--host", options.host_bytes, "... host budget");
  add_bytes_option(app, "--storage", options.storage_bytes, "... storage budget");
  app.add_option("--policy", options.policy)->capture_default_str();
  app.add_option("--passes", options.passes, "Of each kind; the last one counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--random-pages", options.random_pages, "That a random pass visits")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  app.add_option("--stride", options.stride_pages, "Pages from one visit to the next")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Of the random pages")->capture_default_str();
  app.add_flag("--json", options.as_json, "Print JSON instead of a table");
  return main_of(app, argc, argv, [&] { return run(options); });
}

}  // namespace
}  // namespace spillway::bench

int main(int argc, char** argv) {
  return spillway::bench::guarded(spillway::bench::main_of_bench, argc, argv);
}
