// The functions of near.h. Layer: near.
#include "near/near.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "near/at_host_ranges.h"
#include "near/blocks.h"
#include "near/gpu_updates.h"
#include "near/pool.h"
#include "optimizer/update.h"

static_assert(sizeof(spillway_near_options) == 72 && sizeof(spillway_near_step) == 80 &&
              sizeof(spillway_near_tensor) == 168);

struct spillway_near_update {
  spillway::optimizer::Update update;
  spillway_near_set_threads square_roots_threads;
};

// Updates that are under way on a GPU's tensors keep it, too.
struct spillway_near_pool {
  std::shared_ptr<spillway::near::Pool> pool;
};

namespace spillway::near {
namespace {

void tell(const std::string& line, char* why, std::size_t why_bytes) {
  if (why == nullptr || why_bytes == 0) return;
  const std::size_t length = std::min(line.size(), why_bytes - 1);
  std::memcpy(why, line.data(), length);
  why[length] = '\0';
}

optimizer::Options options_of(const spillway_near_options& given) {
  optimizer::Options options;
  options.rule = static_cast<optimizer::Rule>(given.rule);
  options.variant = static_cast<optimizer::Variant>(given.variant);
  options.parameter_type = static_cast<optimizer::NumberType>(given.parameter_type);
  options.gradient_type = static_cast<optimizer::NumberType>(given.gradient_type);
  options.decoupled_decay = given.decoupled_decay != 0;
  options.amsgrad = given.amsgrad != 0;
  options.maximize = given.maximize != 0;
  options.nesterov = given.nesterov != 0;
  options.torch_threads = std::max<std::size_t>(given.torch_threads, 1);
  options.coupled_decay = given.coupled_decay != 0;
  options.compute_capability = given.compute_capability;
  options.square_roots = given.square_roots;
  options.square_roots_mode = given.square_roots_mode;
  return options;
}

optimizer::Step step_of(const spillway_near_step& given) {
  optimizer::Step step;
  step.step = given.step;
  step.learning_rate = given.learning_rate;
  step.beta1 = given.beta1;
  step.beta2 = given.beta2;
  step.epsilon = given.epsilon;
  step.weight_decay = given.weight_decay;
  step.momentum = given.momentum;
  step.dampening = given.dampening;
  step.learning_rate_decay = given.learning_rate_decay;
  step.gradient_scale = given.gradient_scale;
  return step;
}

std::uint64_t bytes_of(optimizer::NumberType type) {
  return type == optimizer::NumberType::kFloat32 ? 4 : 2;
}

// While it lives, MKL computes square roots in the calling thread alone. Each call is for one
// block, and waking other threads takes longer than the roots.
class RootsInThisThread {
 public:
  explicit RootsInThisThread(spillway_near_set_threads set) : set_(set) {
    before_ = set_ != nullptr ? set_(1) : 0;
  }
  RootsInThisThread(const RootsInThisThread&) = delete;
  RootsInThisThread& operator=(const RootsInThisThread&) = delete;
  ~RootsInThisThread() {
    if (set_ != nullptr) set_(before_);
  }

 private:
  spillway_near_set_threads set_;
  int before_;
};

void run_range(const optimizer::Update& update, const spillway_near_tensor& tensor,
               std::uint64_t begin, std::uint64_t end) {
  optimizer::Operands operands;
  operands.parameter = tensor.parameter;
  operands.gradient = tensor.gradient;
  operands.first = tensor.first;
  operands.second = tensor.second;
  operands.max_second = tensor.max_second;
  operands.parameter_out = tensor.parameter_out;
  operands.first_out = tensor.first_out;
  operands.second_out = tensor.second_out;
  operands.max_second_out = tensor.max_second_out;
  operands.gradient_out = tensor.gradient_out;
  update.run(step_of(tensor.step), operands, tensor.elements, begin, end);
}

// A null pool: in the calling thread.
void run_ranges(Pool* pool, const spillway_near_update& update, std::span<const Range> ranges) {
  const Blocks blocks(ranges);
  const auto run_block = [&](std::size_t block) {
    const RootsInThisThread alone(update.square_roots_threads);
    blocks.visit(block, [&](const spillway_near_tensor& tensor, std::uint64_t begin,
                            std::uint64_t end) { run_range(update.update, tensor, begin, end); });
  };
  if (pool != nullptr) {
    pool->run(blocks.count(), run_block);
    return;
  }
  for (std::size_t block = 0; block < blocks.count(); ++block) {
    run_block(block);
  }
}

// Large pages for what has not been touched yet: a walk over several arrays waits for addresses as
// well. Where the system has none it stays as it is.
void ask_for_large_pages(void* start, std::uint64_t bytes) {
  constexpr std::uintptr_t kLarge = std::uintptr_t{2} << 20;
  const std::uintptr_t begin =
      (reinterpret_cast<std::uintptr_t>(start) + kLarge - 1) / kLarge * kLarge;
  const std::uintptr_t end = (reinterpret_cast<std::uintptr_t>(start) + bytes) / kLarge * kLarge;
  if (begin < end) {
    madvise(static_cast<char*>(start) + (begin - reinterpret_cast<std::uintptr_t>(start)),
            end - begin, MADV_HUGEPAGE);
  }
}

}  // namespace
}  // namespace spillway::near

int spillway_near_abi() { return SPILLWAY_NEAR_ABI; }

spillway_near_update* spillway_near_make(const spillway_near_options* options, char* why,
                                         size_t why_bytes) {
  using namespace spillway;
  if (options->rule > SPILLWAY_NEAR_ADAGRAD || options->variant > SPILLWAY_NEAR_FUSED_CUDA ||
      options->parameter_type > SPILLWAY_NEAR_BFLOAT16 ||
      options->gradient_type > SPILLWAY_NEAR_BFLOAT16) {
    near::tell("near: no such rule, variant or type: the caller is of another version", why,
               why_bytes);
    return nullptr;
  }
  auto update = optimizer::Update::make(near::options_of(*options));
  if (!update) {
    near::tell(update.error(), why, why_bytes);
    return nullptr;
  }
  return new spillway_near_update{*update, options->square_roots_threads};
}

void spillway_near_free(spillway_near_update* update) { delete update; }

uint64_t spillway_near_bytes_per_element(const spillway_near_update* update) {
  return update->update.bytes_per_element();
}

spillway_near_pool* spillway_near_pool_make(uint32_t threads, char* why, size_t why_bytes) {
  auto pool = spillway::near::Pool::make(threads);
  if (!pool) {
    spillway::near::tell(pool.error(), why, why_bytes);
    return nullptr;
  }
  return new spillway_near_pool{std::move(*pool)};
}

void spillway_near_pool_free(spillway_near_pool* pool) { delete pool; }

uint32_t spillway_near_pool_threads(const spillway_near_pool* pool) {
  return pool->pool->threads();
}

void spillway_near_run(spillway_near_pool* pool, const spillway_near_update* update,
                       const spillway_near_tensor* tensors, size_t count) {
  using namespace spillway;
  const auto run = [&](std::span<const near::Range> ranges) {
    near::run_ranges(pool != nullptr ? pool->pool.get() : nullptr, *update, ranges);
  };
  const optimizer::Options& options = update->update.options();
  run(near::run_at_host(std::span(tensors, count), near::bytes_of(options.parameter_type),
                        near::bytes_of(options.gradient_type), run));
}

void spillway_near_run_range(const spillway_near_update* update, const spillway_near_tensor* tensor,
                             uint64_t begin, uint64_t end) {
  const spillway::near::RootsInThisThread alone(update->square_roots_threads);
  spillway::near::run_range(update->update, *tensor, begin, end);
}

void spillway_near_zero(spillway_near_pool* pool, void* start, uint64_t bytes) {
  spillway::near::ask_for_large_pages(start, bytes);
  if (pool == nullptr) {
    std::memset(start, 0, bytes);
    return;
  }
  constexpr std::uint64_t kBytes = 4 * spillway::near::kBlockElements;
  pool->pool->run((bytes + kBytes - 1) / kBytes, [&](std::size_t block) {
    const std::uint64_t begin = block * kBytes;
    std::memset(static_cast<char*>(start) + begin, 0, std::min(kBytes, bytes - begin));
  });
}

void spillway_near_update_on_gpu(spillway_near_pool* pool, const spillway_near_update* update,
                                 const spillway_near_tensor* tensors, size_t count, void* stream,
                                 uint8_t* taken, const float* gradient_scale,
                                 const float* found_inf) {
  using namespace spillway;
  const optimizer::Options& options = update->update.options();
  const near::GpuUpdates::Run run = [kept = pool != nullptr ? pool->pool : nullptr,
                                     update = *update](std::span<const near::Range> ranges) {
    near::run_ranges(kept.get(), update, ranges);
  };
  near::GpuUpdates::all().begin({.tensors = std::span(tensors, count),
                                 .stream = stream,
                                 .element_bytes = near::bytes_of(options.parameter_type),
                                 .gradient_bytes = near::bytes_of(options.gradient_type),
                                 .gradient_scale = gradient_scale,
                                 .found_inf = found_inf},
                                run, taken);
}

void spillway_near_wait() { spillway::near::GpuUpdates::all().wait(); }

int spillway_near_takes_on_gpu() {
  const spillway::near::AtHost* const at_host = spillway::near::at_host_of_gpu();
  return at_host != nullptr ? at_host->takes() : 0;
}

void spillway_near_send_gradient(const void* gradient, size_t bytes) {
  if (const spillway::near::AtHost* const at_host = spillway::near::at_host_of_gpu()) {
    at_host->send(gradient, bytes);
  }
}
