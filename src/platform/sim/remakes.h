// Which results of a trace's kernels can be made again, and which must be before a launch. Layer:
// platform, simulator. docs/cuda.md: as on a GPU, but that a trace says who writes what, so
// that no fingerprints are needed.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/types.h"

namespace spillway::sim {

// Names that end in "(pointwise)" and "(product)" are of traces that were recorded without a GPU.
// Whether kernels of this name make one tensor out of others, the same whenever they run:
// PyTorch's pointwise kernels.
[[nodiscard]] bool is_pointwise(std::string_view kernel_name);
// The same of cuBLAS's matrix products, which have a workspace besides, and copies of what is
// small.
[[nodiscard]] bool is_matrix_product(std::string_view kernel_name);

class Remakes {
 public:
  struct Maker {
    Launch launch;
    TimeNs duration_ns = 0;
    AllocationId makes = kNoAllocation;
  };

  // The program's launch is issued next. Those can be given up no more.
  void issued(const Launch& launch, std::vector<AllocationId>& lost);
  // It has been, and this can be made again by it out of those.
  void made(const Launch& launch, TimeNs duration_ns, AllocationId makes,
            std::span<const AllocationId> of);
  void gave_up(AllocationId id) { made_.at(id).given_up = true; }
  // What must be made again before such a launch is issued, or before this dies: the first of it.
  // `again`: the launch itself makes something again, of which what was made of that is not
  // changed.
  [[nodiscard]] std::optional<Maker> before(const Launch& launch, bool again) const;
  [[nodiscard]] std::optional<Maker> before_death(AllocationId id) const;
  // It has been, for the rest of its life.
  void remade(AllocationId id) { made_.erase(id); }
  void dies(AllocationId id, std::vector<AllocationId>& lost);

 private:
  struct Made {
    Maker by;
    bool given_up = false;
  };
  void lose_made_of(AllocationId id, std::vector<AllocationId>& lost);

  std::map<AllocationId, Made> made_;
};

}  // namespace spillway::sim
