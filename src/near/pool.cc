#include "near/pool.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "near/float_mode.h"
#include "near/nodes.h"

namespace spillway::near {

Pool::Pool(std::uint32_t threads) : threads_(threads), process_(getpid()), shares_(threads) {}

tl::expected<std::unique_ptr<Pool>, std::string> Pool::make(std::uint32_t threads) {
  const std::vector<int> processors = own_processors();
  if (threads == 0) {
    threads = static_cast<std::uint32_t>(processors.size());
  }
  std::unique_ptr<Pool> pool(new Pool(threads));
  try {
    for (std::uint32_t i = 1; i < threads; ++i) {
      pool->servers_.emplace_back([self = pool.get(), i] { self->serve(i); });
    }
  } catch (const std::system_error& error) {
    return tl::unexpected(
        fmt::format("near: the system gives no {} threads: {}", threads, error.what()));
  }
  return pool;
}

Pool::~Pool() {
  if (forked()) {
    // Their threads are the parent's.
    for (std::thread& server : servers_) server.detach();
    return;
  }
  {
    const MutexLock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  for (std::thread& server : servers_) server.join();
}

bool Pool::forked() const { return getpid() != process_; }

void Pool::run(std::size_t blocks, const std::function<void(std::size_t)>& work) {
  if (threads_ == 1 || blocks <= 1 || forked()) {
    for (std::size_t block = 0; block < blocks; ++block) work(block);
    return;
  }
  const MutexLock one(one_run_);
  {
    const MutexLock lock(mutex_);
    for (std::uint32_t i = 0; i < threads_; ++i) {
      shares_[i].next.store(blocks * i / threads_, std::memory_order_relaxed);
      shares_[i].end = blocks * (i + 1) / threads_;
    }
    work_ = &work;
    float_mode_ = float_mode();
    busy_ = threads_ - 1;
    ++generation_;
  }
  changed_.notify_all();
  work_off(0);
  const MutexLock lock(mutex_);
  mutex_.wait(done_, [&]() SPILLWAY_REQUIRES(mutex_) { return busy_ == 0; });
}

void Pool::work_off(std::uint32_t me) {
  for (std::uint32_t i = 0; i < threads_; ++i) {
    Share& share = shares_[(me + i) % threads_];
    while (true) {
      const std::size_t block = share.next.fetch_add(1, std::memory_order_relaxed);
      if (block >= share.end) break;
      (*work_)(block);
    }
  }
}

void Pool::serve(std::uint32_t me) {
  pthread_setname_np(pthread_self(), "spw-near");
  stay_on_node(me, threads_);
  std::uint64_t seen = 0;
  while (true) {
    std::uint32_t mode = 0;
    {
      const MutexLock lock(mutex_);
      mutex_.wait(changed_,
                  [&]() SPILLWAY_REQUIRES(mutex_) { return ends_ || generation_ != seen; });
      if (ends_) return;
      seen = generation_;
      mode = float_mode_;
    }
    set_float_mode(mode);
    work_off(me);
    const MutexLock lock(mutex_);
    if (--busy_ == 0) done_.notify_one();
  }
}

}  // namespace spillway::near
