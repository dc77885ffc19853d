// The memory that streaming_bench passes over: malloc's, a mapped file's, or a Spillway space's.
// Part of streaming_bench.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "platform/host/faults/userfault.h"
#include "runtime/run/program_space.h"

namespace spillway::bench {

class StreamingMemory {
 public:
  StreamingMemory() = default;
  StreamingMemory(const StreamingMemory&) = delete;
  StreamingMemory& operator=(const StreamingMemory&) = delete;
  virtual ~StreamingMemory() = default;
  [[nodiscard]] virtual std::uint64_t* words() = 0;
  // The program says where it is: what a kernel launch would tell.
  virtual void mark(std::string_view /*pattern*/, std::uint64_t /*step*/) {}
  // Between two passes.
  virtual void settle() {}
  // What the memory counted, for the JSON.
  [[nodiscard]] virtual nlohmann::json counters() const { return nlohmann::json::object(); }
};

class MallocMemory final : public StreamingMemory {
 public:
  static Result<std::unique_ptr<StreamingMemory>> open(Bytes bytes) {
    auto memory = std::make_unique<MallocMemory>();
    memory->start_.reset(static_cast<std::uint64_t*>(std::malloc(bytes)));  // NOLINT(*-no-malloc)
    if (!memory->start_) {
      return make_error(ErrorCode::kUnsupported, "malloc has no {}", format_bytes(bytes));
    }
    return memory;
  }
  std::uint64_t* words() override { return start_.get(); }

 private:
  std::unique_ptr<std::uint64_t, decltype(&std::free)> start_{nullptr, &std::free};
};

// MAP_SHARED of an unnamed file, without advice: the kernel's page cache brings and takes pages.
class MappedMemory final : public StreamingMemory {
 public:
  static Result<std::unique_ptr<StreamingMemory>> open(const std::string& folder, Bytes bytes) {
    constexpr mode_t kOwnerOnly = 0600;
    const Descriptor file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kOwnerOnly));
    if (file.get() < 0 || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
      return make_error(ErrorCode::kInvalidInput, "{}: cannot make a file of {} here: {}", folder,
                        format_bytes(bytes), std::strerror(errno));
    }
    auto memory = std::make_unique<MappedMemory>();
    void* const start = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (start == MAP_FAILED) {
      return make_error(ErrorCode::kUnsupported, "mmap: {}", std::strerror(errno));
    }
    memory->start_ = start;
    memory->bytes_ = bytes;
    return memory;
  }
  MappedMemory() = default;
  ~MappedMemory() override {
    if (start_ != nullptr) {
      ::munmap(start_, bytes_);
    }
  }
  std::uint64_t* words() override { return static_cast<std::uint64_t*>(start_); }

 private:
  void* start_ = nullptr;
  Bytes bytes_ = 0;
};

class SpaceMemory final : public StreamingMemory {
 public:
  static Result<std::unique_ptr<StreamingMemory>> open(const SpaceOptions& options, Bytes bytes) {
    Result<std::unique_ptr<ProgramSpace>> space = ProgramSpace::open(options);
    if (!space) {
      return tl::unexpected<Error>(space.error());
    }
    const Result<void*> start = (*space)->platform().allocate(bytes);
    if (!start) {
      return tl::unexpected<Error>(start.error());
    }
    return std::make_unique<SpaceMemory>(std::move(*space), *start);
  }
  SpaceMemory(std::unique_ptr<ProgramSpace> space, void* start)
      : space_(std::move(space)), start_(start) {}

  std::uint64_t* words() override { return static_cast<std::uint64_t*>(start_); }
  void mark(std::string_view pattern, std::uint64_t step) override {
    const LaunchOperand identity{.allocation = step, .bytes = 0};
    space_->platform().mark_launch(hash_launch(pattern, {&identity, 1}), pattern, false);
  }
  void settle() override { space_->platform().wait_until_idle(); }
  [[nodiscard]] nlohmann::json counters() const override {
    const ProgramStats stats = space_->platform().stats();
    return {{"page_faults", stats.page_faults},
            {"write_faults", stats.write_faults},
            {"prefetched_blocks", stats.engine.prefetched},
            {"prefetches_used", stats.engine.prefetches_used},
            {"storage_read_bytes", stats.io_bytes[0]},
            {"storage_written_bytes", stats.io_bytes[1]}};
  }

 private:
  std::unique_ptr<ProgramSpace> space_;
  void* start_;
};

}  // namespace spillway::bench
