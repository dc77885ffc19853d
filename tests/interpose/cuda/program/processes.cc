// See processes.h.
#include "processes.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include "torch_reports.h"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace spillway::cuda::test {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
// Where the other process is told, and answers.
constexpr int kTold = 10;
constexpr int kAnswers = 11;

enum class Order : std::uint32_t { kOpen, kClose, kRewrite, kCrowd, kExport, kForkAndEnd };
struct Message {
  Order order = Order::kOpen;
  CuResult result = CuResult::kSuccess;
  CuIpcHandle handle = {};
  Buffer buffer = {};
  std::uint64_t seed = 0;
};

// Memory that comes and goes.
class Crowd {
 public:
  explicit Crowd(const Device& device) : device_(device), stream_(device.stream()) {
    for (std::uint64_t i = 0; i < 6; ++i) {
      buffers_.push_back(device.allocate(4 * kMiB, stream_));
      device.fill(buffers_.back(), ++seed_, stream_);
    }
  }
  void use() {
    for (int round = 0; round < 2; ++round) {
      for (Buffer& buffer : buffers_) {
        device_.rewrite(buffer, ++seed_, stream_);
      }
    }
    device_.synchronize(stream_);
  }

 private:
  const Device& device_;
  CuStream stream_;
  std::vector<Buffer> buffers_;
  std::uint64_t seed_ = 1000;
};

Buffer allocate_plain(const Device& device, std::uint64_t bytes) {
  Buffer buffer{.words = bytes / 8};
  device.expect(device.calls.cuMemAlloc_v2(&buffer.address, bytes), "cuMemAlloc");
  return buffer;
}

// The other process, with what is said to it.
class Other {
 public:
  Other(const Device& device, const std::string& way) : device_(device) {
    std::array<int, 2> there{};
    std::array<int, 2> back{};
    device.require(::pipe2(there.data(), O_CLOEXEC) == 0 && ::pipe2(back.data(), O_CLOEXEC) == 0,
                   "pipes");
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, there[0], kTold);
    ::posix_spawn_file_actions_adddup2(&actions, back[1], kAnswers);
    std::string program = "/proc/self/exe";
    std::string words = way;
    std::string scenario = kOtherProcess;
    std::array<char*, 4> arguments{program.data(), words.data(), scenario.data(), nullptr};
    device.require(
        ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments.data(), environ) == 0,
        "another process");
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(there[0]);
    ::close(back[1]);
    tells_ = there[1];
    hears_ = back[0];
  }
  Message tell(const Message& message) const {
    Message answer;
    device_.require(::write(tells_, &message, sizeof message) == sizeof message &&
                        ::read(hears_, &answer, sizeof answer) == sizeof answer,
                    "an answer of the other process");
    return answer;
  }
  // Which must have found everything right.
  void end() const {
    ::close(tells_);
    int status = -1;
    device_.require(::waitpid(pid_, &status, 0) == pid_ && status == 0,
                    "the end of the other process");
  }

 private:
  const Device& device_;
  pid_t pid_ = 0;
  int tells_ = -1;
  int hears_ = -1;
};

CuIpcHandle handle_of(const Device& device, CuAddress address) {
  CuIpcHandle handle{};
  device.expect(device.calls.cuIpcGetMemHandle(&handle, address), "cuIpcGetMemHandle");
  return handle;
}

bool same(const CuIpcHandle& one, const CuIpcHandle& other) {
  return std::memcmp(&one, &other, sizeof one) == 0;
}

// Forks a child that lives for a while, and is gone.
[[noreturn]] void fork_and_end(const Message& answer) {
  if (::fork() == 0) {
    ::close(kTold);
    ::close(kAnswers);
    ::close(STDOUT_FILENO);
    ::close(STDERR_FILENO);
    std::this_thread::sleep_for(std::chrono::seconds(20));
    ::_exit(0);
  }
  (void)!::write(kAnswers, &answer, sizeof answer);
  ::_exit(0);
}

}  // namespace

void other_process(const Device& device) {
  const CuStream stream = device.stream();
  Crowd crowd(device);
  crowd.use();
  for (Message message; ::read(kTold, &message, sizeof message) == sizeof message;) {
    Buffer& buffer = message.buffer;
    switch (message.order) {
      case Order::kOpen:
        message.result = device.calls.cuIpcOpenMemHandle_v2(&buffer.address, message.handle, 1);
        break;
      case Order::kClose:
        message.result = device.calls.cuIpcCloseMemHandle(buffer.address);
        break;
      case Order::kRewrite:
        device.rewrite(buffer, message.seed, stream);
        device.synchronize(stream);
        break;
      case Order::kCrowd:
        crowd.use();
        break;
      case Order::kExport:
        buffer = allocate_plain(device, 8 * buffer.words);
        device.fill(buffer, message.seed, stream);
        device.synchronize(stream);
        message.handle = handle_of(device, buffer.address);
        break;
      case Order::kForkAndEnd:
        fork_and_end(message);
    }
    device.require(::write(kAnswers, &message, sizeof message) == sizeof message, "an answer");
  }
}

void hand_over(const Device& device, const std::string& way) {
  const Other other(device, way);
  const CuStream stream = device.stream();
  Crowd crowd(device);
  crowd.use();
  // Two pieces and a part of one, and a part of what small allocations share.
  for (const std::uint64_t bytes : {6 * kMiB - 4096, 64 * kMiB / 1024}) {
    (void)allocate_plain(device, 4096);
    Buffer shared = allocate_plain(device, bytes);
    report_tensor(device, shared.address, static_cast<std::int64_t>(bytes));
    device.fill(shared, 1, stream);
    const CuIpcHandle handle = handle_of(device, shared.address);
    device.require(same(handle, handle_of(device, shared.address + 4000)),
                   "the handle of an address within");
    // The other one has it still.
    report_tensor(device, shared.address, -static_cast<std::int64_t>(bytes));
    device.require(same(handle, handle_of(device, shared.address)), "the handle of a segment");
    device.synchronize(stream);
    crowd.use();
    const Message opened = other.tell({.order = Order::kOpen, .handle = handle});
    device.expect(opened.result, "cuIpcOpenMemHandle");
    Buffer there = shared;
    there.address = opened.buffer.address;
    // There and back, while both have more than they may.
    for (std::uint64_t round = 0; round < 3; ++round) {
      there =
          other.tell({.order = Order::kRewrite, .buffer = there, .seed = 10 + 2 * round}).buffer;
      shared.seed = there.seed;
      (void)other.tell({.order = Order::kCrowd});
      crowd.use();
      device.rewrite(shared, 11 + 2 * round, stream);
      crowd.use();
      there.seed = shared.seed;
    }
    // As often closed as opened.
    const Message again = other.tell({.order = Order::kOpen, .handle = handle});
    device.require(again.buffer.address == there.address, "the address at which it is opened");
    device.expect(other.tell({.order = Order::kClose, .buffer = there}).result, "close");
    there = other.tell({.order = Order::kRewrite, .buffer = there, .seed = 20}).buffer;
    // What is freed they keep.
    device.expect(device.calls.cuMemFree_v2(shared.address), "cuMemFree");
    crowd.use();
    there = other.tell({.order = Order::kRewrite, .buffer = there, .seed = 21}).buffer;
    device.expect(other.tell({.order = Order::kClose, .buffer = there}).result, "close");
    device.expect(other.tell({.order = Order::kClose, .buffer = there}).result,
                  "close of what is closed", CuResult::kInvalidValue);
    device.expect(other.tell({.order = Order::kOpen, .handle = handle}).result,
                  "open of what is freed", CuResult::kInvalidHandle);
    const Buffer next = allocate_plain(device, bytes);
    device.require(!same(handle, handle_of(device, next.address)), "another handle");
    device.expect(device.calls.cuMemFree_v2(next.address), "cuMemFree");
  }
  // The other one's.
  const Message exported =
      other.tell({.order = Order::kExport, .buffer = {.words = 4 * kMiB / 8}, .seed = 5});
  Buffer theirs = exported.buffer;
  device.expect(device.calls.cuIpcOpenMemHandle_v2(&theirs.address, exported.handle, 1), "open");
  (void)other.tell({.order = Order::kCrowd});
  device.rewrite(theirs, 6, stream);
  crowd.use();
  (void)other.tell(
      {.order = Order::kRewrite,
       .buffer = {.address = exported.buffer.address, .words = theirs.words, .seed = 6},
       .seed = 7});
  theirs.seed = 7;
  device.check(theirs, stream);
  device.expect(device.calls.cuIpcCloseMemHandle(theirs.address), "close");  // which waits
  // What the driver refuses.
  Buffer own = allocate_plain(device, 4 * kMiB);
  CuAddress address = 0;
  device.expect(device.calls.cuIpcOpenMemHandle_v2(&address, handle_of(device, own.address), 1),
                "open of one's own", CuResult::kInvalidContext);
  device.expect(device.calls.cuIpcOpenMemHandle_v2(&address, {}, 1), "open of what is no handle",
                CuResult::kInvalidHandle);
  const Buffer pooled = device.allocate(4 * kMiB, stream);
  CuIpcHandle handle{};
  device.expect(device.calls.cuIpcGetMemHandle(&handle, pooled.address), "a handle of a pool's",
                CuResult::kInvalidValue);
  // More than may stay on the device.
  const Buffer more = allocate_plain(device, 10 * kMiB);
  device.expect(device.calls.cuIpcGetMemHandle(&handle, more.address), "a handle of too much",
                CuResult::kOutOfMemory);
  device.free(pooled, stream);
  crowd.use();
  other.end();
}

void hand_over_and_end(const Device& device, const std::string& way) {
  const Other other(device, way);
  const Message exported =
      other.tell({.order = Order::kExport, .buffer = {.words = 4 * kMiB / 8}, .seed = 5});
  Buffer theirs = exported.buffer;
  device.expect(device.calls.cuIpcOpenMemHandle_v2(&theirs.address, exported.handle, 1), "open");
  const Message second =
      other.tell({.order = Order::kExport, .buffer = {.words = 4 * kMiB / 8}, .seed = 6});
  (void)other.tell({.order = Order::kForkAndEnd});
  other.end();
  const auto since = std::chrono::steady_clock::now();
  CuAddress address = 0;
  device.expect(device.calls.cuIpcOpenMemHandle_v2(&address, second.handle, 1),
                "open of who has ended", CuResult::kInvalidHandle);
  device.require(std::chrono::steady_clock::now() - since < std::chrono::seconds(5),
                 "that nobody waits for who has ended");
  // What was opened before stays.
  const CuStream stream = device.stream();
  device.check(theirs, stream);
  device.expect(device.calls.cuIpcCloseMemHandle(theirs.address), "close");
}

void hand_over_counted(const Device& device, const std::string& way) {
  const Other other(device, way);
  Crowd crowd(device);
  crowd.use();  // all of the budget
  // Until the first look, which tells what contexts take.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const Message exported =
      other.tell({.order = Order::kExport, .buffer = {.words = 8 * kMiB / 8}, .seed = 5});
  CuAddress address = 0;
  device.expect(device.calls.cuIpcOpenMemHandle_v2(&address, exported.handle, 1), "open");
  device.calls.use_unseen(1024 * kMiB + 6 * kMiB);  // a GiB is nobody's
  std::this_thread::sleep_for(std::chrono::milliseconds(1300));
  device.expect(device.calls.cuIpcCloseMemHandle(address), "close");
  device.calls.use_unseen(0);
  other.end();
}

void hand_over_refused(const Device& device) {
  device.calls.set_attribute(static_cast<int>(CuAttribute::kHandleTypeFileDescriptor), 0);
  CuIpcHandle handle{};
  device.expect(device.calls.cuIpcGetMemHandle(&handle, allocate_plain(device, 4 * kMiB).address),
                "cuIpcGetMemHandle", CuResult::kNotSupported);
}

}  // namespace spillway::cuda::test
