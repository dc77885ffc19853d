// What is known of kernels whose results could be recomputed, by their kind
// (ReplayableLaunch::kind): whether a launch writes all that it is given, and whether it is worth
// while to watch what it made. Layer: platform, cuda.
#pragma once

#include <cstdint>
#include <unordered_map>

namespace spillway::cuda {

struct KernelKind {
  enum class Writes : std::uint8_t { kUnknown, kBeingTried, kAll, kLess };
  Writes writes = Writes::kUnknown;
  std::uint64_t gone = 0;        // results that were marked
  std::uint64_t useful = 0;      // of those, that were given up and asked for
  std::uint64_t left_alone = 0;  // since it was not worth it

  // A kernel whose results are compared again and again and seldom given up, or only in vain, is
  // left alone, but for one in a while: what is worth it changes with the program.
  [[nodiscard]] bool is_worth_it() const;
};

class KernelKinds {
 public:
  // An unknown one is as new.
  [[nodiscard]] const KernelKind& of(std::uint64_t kind) const;
  // To note something of it. Programs whose shapes change all the time must not fill memory: where
  // there are too many, all are forgotten first.
  KernelKind& learn(std::uint64_t kind);

  // As long as trials are few beside what comes of them.
  [[nodiscard]] bool may_try() const;
  // A trial begins; a result has been given up.
  void tried() { ++tried_; }
  void gave_up() { ++given_up_; }

 private:
  std::unordered_map<std::uint64_t, KernelKind> kinds_;
  std::uint64_t tried_ = 0;
  std::uint64_t given_up_ = 0;
};

}  // namespace spillway::cuda
