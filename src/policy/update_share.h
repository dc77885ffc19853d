// Which updates run at the host, found by measuring iterations: those whose results are wanted
// last, and as many of them as make an iteration shortest. Layer: policy. Pure.
// docs/near-memory.md, "Where an update runs".
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/types.h"

namespace spillway {

// The backward pass writes the gradients of the last layers first, and the next forward pass wants
// their parameters last: they have the longest time for an update at the host. Rates of link and
// processor do not say how many should run there, because both use the same host memory, and what
// runs beside the backward pass costs nothing. So the share is tried out, an eighth at a time.
class UpdateShare {
 public:
  // The iteration's next update, which is named by what it writes first in each iteration, its
  // parameter. nullopt: not enough is known yet, and the caller decides; it says how with
  // decided().
  [[nodiscard]] std::optional<bool> at_host(const Access& written, Bytes bytes, TimeNs now_ns);
  void decided(const Access& written, bool at_host);
  // Accesses of a launch that is no update.
  void used(std::span<const Access> accesses);

  static constexpr unsigned kParts = 8;
  // Of kParts of the bytes, so many run at the host; nullopt: the caller still decides.
  [[nodiscard]] std::optional<unsigned> share() const { return share_; }

 private:
  using Name = std::uint64_t;
  struct Update {
    Name name = 0;
    Bytes bytes = 0;
    std::uint64_t placed_in = 0;  // iteration
    std::uint64_t wanted = 0;     // when a launch first read the result: a count of such events
    bool is_wanted = false;       // since it was placed
    bool at_host = false;         // chosen, or decided by the caller
  };

  [[nodiscard]] static Name name_of(const Access& access);
  void next_iteration(TimeNs now_ns);
  void measured(double ns);
  void choose_share();
  void choose_updates();
  [[nodiscard]] unsigned callers_share() const;

  std::vector<Update> updates_;
  std::unordered_map<Name, std::size_t> by_name_;
  std::uint64_t iteration_ = 0;
  std::uint64_t wants_ = 0;
  TimeNs began_ns_ = 0;
  bool changed_ = false;  // since the iteration before: an update is new
  std::optional<unsigned> share_;
  unsigned step_ = 0;        // to the neighbours that are tried next; 0: the best one is found
  unsigned iterations_ = 0;  // with this share
  double sum_ns_ = 0;        // of those that count
  std::array<double, kParts + 1>
      trials_{};  // mean time of iterations with each share; 0: not tried
};

}  // namespace spillway
