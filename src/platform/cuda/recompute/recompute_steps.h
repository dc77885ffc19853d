// Contents that are made again instead of moved: the launches that do it. Layer: platform, cuda.
// docs/cuda.md. What is known of contents, and which step is next, is recomputing.h's. All
// functions are thread-safe, except where one says otherwise.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "engine/engine.h"
#include "platform/cuda/cuda_launch.h"
#include "platform/cuda/driver/driver.h"
#include "platform/cuda/memory/extra_memory.h"
#include "platform/cuda/platform_part.h"
#include "platform/cuda/recompute/fingerprint_places.h"
#include "platform/cuda/recompute/recomputing.h"

namespace spillway::cuda {

class RecomputeSteps : public PlatformPart {
 public:
  RecomputeSteps(PlatformState& state, PlatformParts& parts);

  // True if results of launches may be recomputed from now on (docs/cuda.md), so that launches are
  // stored.
  [[nodiscard]] bool stores_launches() const {
    return stores_launches_.load(std::memory_order_relaxed);
  }
  // Device memory beside the budget that a stored launch needs, until the run's end; 0: there is
  // none (ExtraMemory).
  [[nodiscard]] CuAddress make_extra_memory(Bytes bytes) { return extra_.make(bytes); }
  // The program puts other tensors into an allocation: from now on its contents are not the result
  // of one launch.
  void divide(std::uint64_t address);
  // The program is about to unload code or to end a context: stored launches are not repeated any
  // more.
  void code_ends();

  // --- For other parts

  // The driver thread's, without the lock: when the engine's context is there, and for the last
  // time.
  void start();
  void end();
  void born(AllocationId id) SPILLWAY_REQUIRES(platform_lock);
  // Makes again what is needed before memory dies, or before all that is on a stream (or anywhere)
  // is forgotten. Both let go.
  void before_death(std::uint64_t address, bool handed_on, std::optional<CuStream> next_on)
      SPILLWAY_REQUIRES(platform_lock);
  void remake_all(std::optional<StreamId> stream) SPILLWAY_REQUIRES(platform_lock);
  // The launch is issued next; what it makes can be made again if nothing else is known of that.
  void keep(const CudaLaunch& launch, std::span<const Access> accesses, StreamId stream)
      SPILLWAY_REQUIRES(platform_lock);
  // Carries a step out. Lets go: look everything up again afterwards. `sign_ns`:
  // AdmissionWaits::wait_a_little's; 0 before the first.
  void carry_out(const Recomputing::Step& step, TimeNs& sign_ns) SPILLWAY_REQUIRES(platform_lock);

 private:
  // A step on its way to a stream.
  struct Putting {
    Recomputing::Step step;
    Recomputing::Maker maker;
    CuStream stream = nullptr;
    std::array<std::uint64_t*, FingerprintPlaces::kFingerprints> fingerprints{};  // where they go
    bool overwritten = false;  // what was there is nowhere if it fails
    std::uint64_t number = 0;  // of its last launch
  };
  [[nodiscard]] bool recomputes() const SPILLWAY_REQUIRES(platform_lock);
  template <typename Next>
  void carry_out_all(const Next& next) SPILLWAY_REQUIRES(platform_lock);
  template <typename Call>
  CuResult put(Putting& putting, std::span<const CudaOperand> operands, std::string_view name,
               LaunchHash hash, const Call& call);
  CuResult put_fill(Putting& putting, std::uint32_t pattern);
  CuResult put_fingerprint(Putting& putting, FingerprintPlaces::Fingerprint which);
  CuResult put_maker(Putting& putting);
  CuResult put_trial(Putting& putting);
  CuResult put(Putting& putting);
  void step_failed(const Putting& putting, CuContext context, CuResult result)
      SPILLWAY_REQUIRES(platform_lock);

  ExtraMemory extra_;
  std::uint64_t* fingerprints_ SPILLWAY_GUARDED_BY(platform_lock) = nullptr;  // pinned
  std::atomic<bool> stores_launches_{false};
};

}  // namespace spillway::cuda
