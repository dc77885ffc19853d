// io_uring, and threads where there is none. See block_io.h.
#include "platform/common/storage/block_io.h"

#include <fmt/format.h>
#include <liburing.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "platform/common/process/service_thread.h"

namespace spillway {
namespace {

// What is left of a request after short transfers.
struct Pending {
  IoRequest request;
  Bytes moved = 0;

  [[nodiscard]] char* memory() const { return static_cast<char*>(request.memory) + moved; }
  [[nodiscard]] Bytes bytes() const { return request.bytes - moved; }
  [[nodiscard]] std::uint64_t offset() const { return request.offset + moved; }

  // What one system call has answered: true if the request is over, `error` says how. A transfer
  // that ends within a page goes on at the page, as direct I/O wants.
  bool advance(ssize_t answer, int& error) {
    if (answer <= 0) {
      error = answer < 0 ? static_cast<int>(-answer) : EIO;  // the file ends where blocks should be
      return error != EINTR && error != EAGAIN;
    }
    moved += static_cast<Bytes>(answer);
    error = 0;
    if (moved >= request.bytes) {
      return true;
    }
    moved -= moved % kPageBytes;
    return false;
  }
};

// One system call's worth of a request, answered as io_uring does.
ssize_t move_some(int fd, const Pending& pending) {
  const auto offset = static_cast<off_t>(pending.offset());
  const ssize_t answer = pending.request.write
                             ? ::pwrite(fd, pending.memory(), pending.bytes(), offset)
                             : ::pread(fd, pending.memory(), pending.bytes(), offset);
  return answer < 0 ? -errno : answer;
}

// All of it, or what is left of it, by the calling thread.
int move_all(const SwapFile& file, Pending& pending) {
  if (!file.intact()) {
    return EBADF;  // nothing may go to a file that is somebody else's
  }
  int error = 0;
  while (!pending.advance(move_some(file.fd(), pending), error)) {
  }
  return error;
}

// A request that cannot be put on the ring is carried out by who submits it: slower, not lost.
class UringIo final : public BlockIo {
 public:
  UringIo(const SwapFile& file, unsigned depth) : file_(file), free_(depth) {}

  // With the depth that it was made with.
  int start(unsigned depth) {
    const int result = io_uring_queue_init(depth + 1, &ring_, 0);
    if (result == 0) {
      // The ring's own hold on the file, whatever becomes of the descriptor.
      const int fd = file_.fd();
      held_ = io_uring_register_files(&ring_, &fd, 1) == 0;
      reaper_ = service_thread("spw-io", [this] { reap(); });
    }
    return result;
  }

  ~UringIo() override {
    if (!reaper_.joinable()) {
      return;
    }
    {
      const MutexLock lock(mutex_);
      const unsigned all = free_ + under_way_;
      mutex_.wait(room_, [&]() SPILLWAY_REQUIRES(mutex_) { return free_ == all; });
      stop_ = true;
      io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
      if (sqe != nullptr) {
        put_nothing(sqe);  // wakes the reaper
        io_uring_submit(&ring_);
      }
    }
    reaper_.join();
    io_uring_queue_exit(&ring_);
  }

  void submit(IoRequest request) override {
    auto pending = std::make_unique<Pending>();
    pending->request = std::move(request);
    MutexLock lock(mutex_);
    mutex_.wait(room_, [&]() SPILLWAY_REQUIRES(mutex_) { return free_ > 0; });
    --free_;
    ++under_way_;
    if (put(pending.get())) {
      [[maybe_unused]] Pending* const on_the_ring = pending.release();
      return;
    }
    lock.unlock();
    end(std::move(pending), true);
  }

 private:
  static void put_nothing(io_uring_sqe* sqe) {
    io_uring_prep_nop(sqe);
    io_uring_sqe_set_data(sqe, nullptr);
  }

  // With a place in the ring that is ours. False if the ring does not take it:
  // then the kernel has not seen it.
  bool put(Pending* pending) SPILLWAY_REQUIRES(mutex_) {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    if (sqe == nullptr) {
      return false;
    }
    const auto bytes = static_cast<unsigned>(pending->bytes());
    const int fd = held_ ? 0 : file_.fd();
    if (pending->request.write) {
      io_uring_prep_write(sqe, fd, pending->memory(), bytes, pending->offset());
    } else {
      io_uring_prep_read(sqe, fd, pending->memory(), bytes, pending->offset());
    }
    io_uring_sqe_set_flags(sqe, held_ ? IOSQE_FIXED_FILE : 0U);
    io_uring_sqe_set_data(sqe, pending);
    int answer = 0;
    do {
      answer = io_uring_submit(&ring_);
    } while (answer == -EINTR);
    if (answer > 0 && io_uring_sq_ready(&ring_) == 0) {  // ours is the last
      return true;
    }
    put_nothing(sqe);  // it stays in the queue, and may go with a later one
    return false;
  }

  // Off the ring, with its end reported; what is not done yet is done here if `rest`.
  void end(std::unique_ptr<Pending> pending, bool rest, int error = 0) {
    if (rest) {
      error = move_all(file_, *pending);
    }
    {
      const MutexLock lock(mutex_);
      ++free_;
      --under_way_;
    }
    room_.notify_all();
    pending->request.done(error);
  }

  // Not for ever where the kernel knows how: closing the ring's descriptor wakes nobody.
  int wait_a_while(io_uring_cqe** cqe) {
    if ((ring_.features & IORING_FEAT_EXT_ARG) == 0) {
      return io_uring_wait_cqe(&ring_, cqe);
    }
    __kernel_timespec most{.tv_sec = 0, .tv_nsec = 200'000'000};
    return io_uring_wait_cqe_timeout(&ring_, cqe, &most);
  }

  // A kernel that does not let us wait is asked again and again: what has ended shows in memory
  // that we share with it.
  io_uring_cqe* next_ended() {
    constexpr std::chrono::milliseconds kAskAgain{1};
    io_uring_cqe* cqe = nullptr;
    while (wait_a_while(&cqe) < 0 && io_uring_peek_cqe(&ring_, &cqe) < 0) {
      {
        const MutexLock lock(mutex_);
        if (stop_) {
          return nullptr;
        }
      }
      std::this_thread::sleep_for(kAskAgain);
    }
    return cqe;
  }

  void reap() {
    while (io_uring_cqe* const cqe = next_ended()) {
      std::unique_ptr<Pending> pending(static_cast<Pending*>(io_uring_cqe_get_data(cqe)));
      const int answer = cqe->res;
      io_uring_cqe_seen(&ring_, cqe);
      int error = 0;
      bool rest = false;
      {
        // Who put it on the ring held the lock: only so is it certain that what it wrote is seen.
        const MutexLock lock(mutex_);
        if (!pending) {
          if (stop_) {
            return;
          }
          continue;
        }
        if (!pending->advance(answer, error)) {
          if (put(pending.get())) {
            [[maybe_unused]] Pending* const on_the_ring = pending.release();
            continue;
          }
          rest = true;
        }
      }
      end(std::move(pending), rest, error);
    }
  }

  const SwapFile& file_;
  bool held_ = false;  // the file is the ring's first one
  io_uring ring_{};
  Mutex mutex_;
  std::condition_variable room_;
  unsigned free_ SPILLWAY_GUARDED_BY(mutex_);
  unsigned under_way_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  bool stop_ SPILLWAY_GUARDED_BY(mutex_) = false;
  std::thread reaper_;
};

class ThreadedIo final : public BlockIo {
 public:
  ThreadedIo(const SwapFile& file, unsigned threads) : file_(file) {
    for (unsigned i = 0; i < threads; ++i) {
      threads_.push_back(service_thread("spw-io", [this] { work(); }));
    }
  }

  ~ThreadedIo() override {
    {
      const MutexLock lock(mutex_);
      stop_ = true;
    }
    wanted_.notify_all();
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }

  void submit(IoRequest request) override {
    {
      const MutexLock lock(mutex_);
      queue_.push_back(std::move(request));
    }
    wanted_.notify_one();
  }

 private:
  void work() {
    MutexLock lock(mutex_);
    while (true) {
      mutex_.wait(wanted_, [&]() SPILLWAY_REQUIRES(mutex_) { return stop_ || !queue_.empty(); });
      if (queue_.empty()) {
        return;
      }
      Pending pending{.request = std::move(queue_.front())};
      queue_.pop_front();
      lock.unlock();
      const int error = move_all(file_, pending);
      pending.request.done(error);
      lock.lock();
    }
  }

  const SwapFile& file_;
  Mutex mutex_;
  std::condition_variable wanted_;
  std::deque<IoRequest> queue_ SPILLWAY_GUARDED_BY(mutex_);
  bool stop_ SPILLWAY_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<BlockIo> make_threaded_block_io(const SwapFile& file, unsigned threads) {
  return std::make_unique<ThreadedIo>(file, threads);
}

std::unique_ptr<BlockIo> make_block_io(const SwapFile& file, unsigned depth) {
  auto ring = std::make_unique<UringIo>(file, depth);
  if (ring->start(depth) == 0) {
    return ring;
  }
  return make_threaded_block_io(file, std::min(depth, 8U));
}

Status io_uring_support() {
  io_uring ring{};
  const int result = io_uring_queue_init(1, &ring, 0);
  if (result == 0) {
    io_uring_queue_exit(&ring);
    return {};
  }
  return make_error(ErrorCode::kUnsupported, "io_uring: {}; {}", std::strerror(-result),
                    result == -EPERM || result == -EACCES
                        ? "`sysctl kernel.io_uring_disabled=0` as root permits it"
                        : "Linux 5.6 or newer has it");
}

}  // namespace spillway
