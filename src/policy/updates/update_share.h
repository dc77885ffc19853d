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
  // Whether the iteration's next update runs at the host. `written` is its parameter, by which it
  // is known again in the next iteration. `by_rates` is the answer while no share is known, and for
  // an update that is new.
  [[nodiscard]] bool at_host(const Access& written, Bytes bytes, TimeNs now_ns, bool by_rates);
  // Accesses of a launch that is no update: the first that reads a parameter says when it is
  // wanted.
  void used(std::span<const Access> accesses);

  static constexpr unsigned kParts = 8;
  // So many of kParts of the updates' bytes run at the host; nullopt: rates still decide.
  [[nodiscard]] std::optional<unsigned> share() const { return share_; }

 private:
  using Name = std::uint64_t;
  struct Update {
    Name name = 0;
    Bytes bytes = 0;
    std::uint64_t placed_in = 0;  // iteration
    std::uint64_t wanted = 0;     // when a launch first read the result: a count of such events
    bool is_wanted = false;       // since it was placed
    bool at_host = false;
  };

  [[nodiscard]] static Name name_of(const Access& access);
  void next_iteration(TimeNs now_ns);
  // The share of the iteration that begins; `share` is that of the one that took `ns`.
  [[nodiscard]] unsigned share_after(unsigned share, double ns);
  [[nodiscard]] unsigned next_share(unsigned measured);
  void choose_updates(unsigned share);
  [[nodiscard]] unsigned share_by_rates() const;

  std::vector<Update> updates_;
  std::unordered_map<Name, std::size_t> by_name_;
  std::uint64_t iteration_ = 0;
  std::uint64_t wants_ = 0;
  TimeNs began_ns_ = 0;
  bool has_new_ = false;  // this iteration has an update that the one before had not
  std::optional<unsigned> share_;
  unsigned stride_ = 0;      // from the best share to those that are tried next; 0: it is found
  unsigned iterations_ = 0;  // with this share
  std::vector<double> times_ns_;  // of those that count
  std::array<double, kParts + 1>
      trials_{};  // median time of iterations with each share; 0: not tried
};

}  // namespace spillway
