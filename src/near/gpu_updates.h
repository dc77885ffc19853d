// Updates of tensors on a GPU: begun in the program's thread, which goes on, and run at the host by
// a thread of our own as their data arrives there. Layer: near. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "near/at_host_part.h"
#include "near/near.h"

namespace spillway::near {

class GpuUpdates {
 public:
  // The process's; never destroyed: its thread runs to the very end.
  static GpuUpdates& all();

  // How ranges are updated; it keeps all that it needs. `scale`: 0: the tensors' own.
  using Run = std::function<void(std::span<const Range>)>;
  struct Begin {
    std::span<const spillway_near_tensor> tensors;
    void* stream = nullptr;
    std::uint64_t element_bytes = 0;
    std::uint64_t gradient_bytes = 0;
    const float* gradient_scale = nullptr;
    const float* found_inf = nullptr;
  };
  // near.h's spillway_near_update_on_gpu.
  void begin(const Begin& what, const Run& run, std::uint8_t* taken);
  // Returns when all have ended.
  void wait();

 private:
  // What a step's updates are told on the device, read at the host before the first of them runs.
  struct Scalars {
    bool read = false;
    float gradient_scale = 1;
    float found_inf = 0;
    bool has_scale = false;
    bool has_found_inf = false;
    std::vector<std::uint64_t> waiting;  // parts whose data has come before
  };
  struct Job {
    std::optional<Part> part;  // without one it reads the scalars
    std::shared_ptr<const Run> run;
    std::shared_ptr<Scalars> scalars;  // null: none
    std::uint32_t float_mode = 0;
  };

  GpuUpdates() = default;
  [[nodiscard]] bool in_another_process() const;
  [[nodiscard]] bool start();
  void serve();
  [[nodiscard]] std::optional<Job> job_of(std::uint64_t update);
  void do_one(std::uint64_t update);
  void read_scalars(std::uint64_t update, Scalars& scalars);
  static void compute(const Part& part, const Job& job, const AtHost& at_host);
  void ended(std::uint64_t update);
  [[nodiscard]] std::shared_ptr<Scalars> begin_scalars(const Begin& what, const AtHost& at_host);
  [[nodiscard]] bool begin_tensor(const Begin& what, const spillway_near_tensor& tensor,
                                  const Job& job, const AtHost& at_host);

  Mutex mutex_;
  std::condition_variable begun_;
  std::condition_variable ended_;
  // That have not ended, by number.
  std::unordered_map<std::uint64_t, Job> jobs_ SPILLWAY_GUARDED_BY(mutex_);
  std::atomic<int> process_{0};  // whose the thread is; 0: there is none
};

}  // namespace spillway::near
