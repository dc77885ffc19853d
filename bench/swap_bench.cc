// What the swap path reaches: blocks of 2 MiB written and read in order, first by BlockIo over a
// SwapFile alone, then by the whole host platform, whose array goes to storage and comes back
// because the device is small. Every block that comes back is compared with what was written.
// swap_vs_fio.py sets it beside fio.
#include <fmt/format.h>

#include <array>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/measure.h"
#include "platform/common/storage/block_io.h"
#include "platform/host/host_platform.h"
#include "policy/base_uvm.h"

namespace spillway::bench {
namespace {

struct Options {
  std::string folder = std::filesystem::temp_directory_path();
  Bytes bytes = 512 * kMiB;
  Bytes device_bytes = 32 * kMiB;
  Bytes host_bytes = 4 * kMiB;
  unsigned depth = 8;  // HostPlatform's own
  unsigned rounds = 2;
  bool as_json = false;

  [[nodiscard]] std::size_t blocks() const { return bytes / kBlockBytes; }
};

// One pass over all blocks.
struct Pass {
  Bytes bytes = 0;  // that the program wrote or read
  TimeNs wall_ns = 0;
  Bytes io_bytes = 0;  // that went to or came from the swap file
  TimeNs io_busy_ns = 0;
};
struct Passes {
  Pass write;
  Pass read;
};

using Words = std::span<std::uint64_t>;
constexpr std::size_t kBlockWords = kBlockBytes / sizeof(std::uint64_t);

Words words_of(void* block) { return {static_cast<std::uint64_t*>(block), kBlockWords}; }
constexpr std::uint64_t first_word_of(std::size_t block) { return block << 32U; }
void fill(Words words, std::size_t block) {
  std::iota(words.begin(), words.end(), first_word_of(block));
}
// By the sum: cheap beside the transfer, and different for every block.
Status check(Words words, std::size_t block) {
  const std::uint64_t sum = std::accumulate(words.begin(), words.end(), std::uint64_t{0});
  if (sum != kBlockWords * first_word_of(block) + kBlockWords * (kBlockWords - 1) / 2) {
    return make_error(ErrorCode::kDefect, "block {} came back changed", block);
  }
  return {};
}

// Keeps `depth` requests under way, each in memory of its own.
class BlockIoPass {
 public:
  BlockIoPass(BlockIo& io, unsigned depth) : io_(&io) {
    for (unsigned i = 0; i < depth; ++i) {
      memory_.push_back(
          {static_cast<std::uint64_t*>(std::aligned_alloc(kBlockBytes, kBlockBytes)), &std::free});
      std::memset(memory_.back().get(), 1, kBlockBytes);  // pages that are there
      free_.push_back(i);
    }
  }

  // Fills and checks blocks only if asked to, since fio does not.
  Result<Pass> run(bool write, std::size_t blocks, bool contents) {
    const TimeNs begin_ns = now_ns();
    for (std::size_t block = 0; block < blocks; ++block) {
      std::unique_lock lock(mutex_);
      freed_.wait(lock, [&] { return !free_.empty(); });
      const unsigned slot = free_.back();
      free_.pop_back();
      lock.unlock();
      if (write && contents) {
        fill(words_of(memory_[slot].get()), block);
      }
      io_->submit(
          {.write = write,
           .memory = memory_[slot].get(),
           .bytes = kBlockBytes,
           .offset = block * kBlockBytes,
           .done = [=, this](int error) { ended(slot, block, error, !write && contents); }});
    }
    std::unique_lock lock(mutex_);
    freed_.wait(lock, [&] { return free_.size() == memory_.size(); });
    const TimeNs wall_ns = now_ns() - begin_ns;
    if (!outcome_) {
      return tl::unexpected<Error>(outcome_.error());
    }
    const Bytes bytes = blocks * kBlockBytes;
    return Pass{.bytes = bytes, .wall_ns = wall_ns, .io_bytes = bytes, .io_busy_ns = wall_ns};
  }

 private:
  void ended(unsigned slot, std::size_t block, int error, bool checks) {
    Status outcome = checks && error == 0 ? check(words_of(memory_[slot].get()), block) : Status{};
    if (error != 0) {
      outcome = make_error(ErrorCode::kIo, "block {}: {}", block, std::strerror(error));
    }
    const std::scoped_lock lock(mutex_);
    outcome_ = outcome ? outcome_ : outcome;
    free_.push_back(slot);
    freed_.notify_one();
  }

  BlockIo* io_;
  std::vector<std::unique_ptr<std::uint64_t, decltype(&std::free)>> memory_;
  std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<unsigned> free_;
  Status outcome_;
};

// The timed passes leave the contents alone; a second pair, untimed, checks that they arrive.
Result<Passes> measure_block_io(const Options& options) {
  Result<SwapFile> file = SwapFile::open(options.folder, options.bytes);
  if (!file) {
    return tl::unexpected<Error>(file.error());
  }
  const std::unique_ptr<BlockIo> io = make_block_io(*file, options.depth);
  BlockIoPass pass(*io, options.depth);
  Passes timed;
  for (const bool contents : {false, true}) {
    for (const bool write : {true, false}) {
      const Result<Pass> done = pass.run(write, options.blocks(), contents);
      if (!done) {
        return tl::unexpected<Error>(done.error());
      }
      if (!contents) {
        (write ? timed.write : timed.read) = *done;
      }
    }
  }
  return timed;
}

// What a program that streams says: it wishes for blocks ahead of their use, names them in launches
// and lets them go behind it. Three quarters of the device for what comes.
class PlatformPass {
 public:
  PlatformPass(host::HostPlatform& platform, std::vector<void*> blocks, std::size_t ahead)
      : platform_(&platform), blocks_(std::move(blocks)), ahead_(ahead) {}

  Result<Pass> run(bool write) {
    const ProgramStats before = platform_->stats();
    const TimeNs begin_ns = now_ns();
    for (std::size_t block = 0; block < (write ? 0 : std::min(ahead_, blocks_.size())); ++block) {
      platform_->prefetch(blocks_[block], kBlockBytes);
    }
    for (std::size_t block = 0; block < blocks_.size(); ++block) {
      const std::array operand{
          ProgramOperand{.start = blocks_[block],
                         .bytes = kBlockBytes,
                         .mode = write ? AccessMode::kOverwrite : AccessMode::kRead}};
      const LaunchId launch = platform_->begin_launch(write ? "write" : "read", operand);
      const Words words = words_of(blocks_[block]);
      if (write) {
        fill(words, block);
      }
      const Status checked = write ? Status{} : check(words, block);
      platform_->end_launch(launch);
      if (!checked) {
        return tl::unexpected<Error>(checked.error());
      }
      platform_->pre_evict(blocks_[block], kBlockBytes, Tier::kStorage);
      if (!write && block + ahead_ < blocks_.size()) {
        platform_->prefetch(blocks_[block + ahead_], kBlockBytes);
      }
    }
    platform_->wait_until_idle();
    const TimeNs wall_ns = now_ns() - begin_ns;
    const ProgramStats after = platform_->stats();
    const std::size_t way = write ? 1 : 0;
    return Pass{.bytes = blocks_.size() * kBlockBytes,
                .wall_ns = wall_ns,
                .io_bytes = after.io_bytes[way] - before.io_bytes[way],
                .io_busy_ns = after.io_busy_ns[way] - before.io_busy_ns[way]};
  }

 private:
  host::HostPlatform* platform_;
  std::vector<void*> blocks_;
  std::size_t ahead_;
};

Result<Passes> measure_platform(const Options& options) {
  constexpr Bytes kRoomBytes = 64 * kMiB;  // for what is on its way
  Result<SwapFile> file = SwapFile::open(options.folder, options.bytes + kRoomBytes);
  if (!file) {
    return tl::unexpected<Error>(file.error());
  }
  BaseUvm policy;
  host::HostOptions settings;
  settings.device_bytes = options.device_bytes;
  settings.host_bytes = options.host_bytes;
  Result<std::unique_ptr<host::HostPlatform>> platform =
      host::HostPlatform::create(settings, std::move(*file), policy);
  if (!platform) {
    return tl::unexpected<Error>(platform.error());
  }
  std::vector<void*> blocks;
  for (std::size_t block = 0; block < options.blocks(); ++block) {
    const Result<void*> start =
        (*platform)->allocate(kBlockBytes, host::HostPlatform::Fresh::kAnything);
    if (!start) {
      return tl::unexpected<Error>(start.error());
    }
    blocks.push_back(*start);
  }
  PlatformPass pass(**platform, std::move(blocks), options.device_bytes / kBlockBytes * 3 / 4);
  const Result<Pass> write = pass.run(true);
  const Result<Pass> read = write ? pass.run(false) : write;
  if (!read) {
    return tl::unexpected<Error>(read.error());
  }
  return Passes{.write = *write, .read = *read};
}

nlohmann::json json_of(const Pass& pass) {
  return {{"bytes", pass.bytes},
          {"wall_ns", pass.wall_ns},
          {"wall_bytes_per_s", per_s(static_cast<double>(pass.bytes), pass.wall_ns)},
          {"io_bytes", pass.io_bytes},
          {"io_busy_ns", pass.io_busy_ns},
          {"io_bytes_per_s", per_s(static_cast<double>(pass.io_bytes), pass.io_busy_ns)}};
}

Status run(const Options& options) {
  nlohmann::json rounds = nlohmann::json::array();
  if (!options.as_json) {
    fmt::print("{:>5} {:9} {:5} {:>12} {:>12} {:>12}\n", "round", "path", "way", "wall MB/s",
               "file MB/s", "file MiB");
  }
  for (unsigned round = 0; round < options.rounds; ++round) {
    nlohmann::json one;
    for (const auto& [name, measure] :
         {std::pair{"block_io", &measure_block_io}, std::pair{"platform", &measure_platform}}) {
      const Result<Passes> passes = measure(options);
      if (!passes) {
        return tl::unexpected<Error>(passes.error());
      }
      one[name] = {{"write", json_of(passes->write)}, {"read", json_of(passes->read)}};
      for (const char* way : {"write", "read"}) {
        const nlohmann::json& pass = one[name][way];
        if (!options.as_json) {
          fmt::print("{:5} {:9} {:5} {:12.0f} {:12.0f} {:12}\n", round, name, way,
                     pass["wall_bytes_per_s"].get<double>() / kBytesInMB,
                     pass["io_bytes_per_s"].get<double>() / kBytesInMB,
                     pass["io_bytes"].get<Bytes>() / kMiB);
        }
      }
    }
    rounds.push_back(std::move(one));
  }
  if (options.as_json) {
    fmt::print("{}\n", rounds.dump(2));
  }
  return {};
}

int main_of_bench(int argc, char** argv) {
  CLI::App app("What the swap path reaches: BlockIo alone, and the whole host platform",
               "swap_bench");
  Options options;
  app.add_option("--folder", options.folder, "Where the swap file is made")->capture_default_str();
  add_bytes_option(app, "--bytes", options.bytes, "What is written and read");
  add_bytes_option(app, "--device", options.device_bytes, "Device budget");
  add_bytes_option(app, "--host", options.host_bytes, "Host budget");
  app.add_option("--depth", options.depth, "Requests under way, of BlockIo alone")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--rounds", options.rounds)->check(CLI::Range(1, 1000000))->capture_default_str();
  app.add_flag("--json", options.as_json, "Print JSON instead of a table");
  return main_of(app, argc, argv, [&] { return run(options); });
}

}  // namespace
}  // namespace spillway::bench

int main(int argc, char** argv) {
  return spillway::bench::guarded(spillway::bench::main_of_bench, argc, argv);
}
