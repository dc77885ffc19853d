// See remakes.h.
#include "platform/sim/remakes.h"

#include <algorithm>

namespace spillway::sim {
namespace {

bool names(const Launch& launch, AllocationId id) {
  return std::any_of(launch.accesses.begin(), launch.accesses.end(),
                     [id](const Access& access) { return access.allocation == id; });
}

}  // namespace

bool is_pointwise(std::string_view kernel_name) {
  return kernel_name.starts_with("at::native::vectorized_elementwise_kernel<") ||
         kernel_name.starts_with("at::native::unrolled_elementwise_kernel<") ||
         kernel_name.ends_with(" (pointwise)");
}

bool is_matrix_product(std::string_view kernel_name) {
  return kernel_name.starts_with("nvjet_") || kernel_name.starts_with("cutlass::Kernel2<") ||
         kernel_name.ends_with(" (product)");
}

void Remakes::issued(const Launch& launch, std::vector<AllocationId>& lost) {
  for (const Access& access : launch.accesses) {
    if (writes(access.mode)) {
      lose_made_of(access.allocation, lost);
      if (made_.erase(access.allocation) > 0) {
        lost.push_back(access.allocation);
      }
    }
  }
}

void Remakes::made(const Launch& launch, TimeNs duration_ns, AllocationId makes,
                   std::span<const AllocationId> of) {
  Maker maker{.launch = launch, .duration_ns = duration_ns, .makes = makes};
  std::erase_if(maker.launch.accesses, [&](const Access& access) {
    return access.allocation != makes &&
           std::find(of.begin(), of.end(), access.allocation) == of.end();
  });
  for (Access& access : maker.launch.accesses) {
    if (access.allocation == makes) {
      access.mode = AccessMode::kOverwrite;
    }
  }
  made_[makes] = {.by = std::move(maker)};
}

std::optional<Remakes::Maker> Remakes::before(const Launch& launch, bool again) const {
  for (const Access& access : launch.accesses) {
    const auto found = made_.find(access.allocation);
    if (found != made_.end() && found->second.given_up) {
      return found->second.by;
    }
    if (writes(access.mode) && !again) {
      if (std::optional<Maker> maker = before_death(access.allocation)) {
        return maker;
      }
    }
  }
  return std::nullopt;
}

std::optional<Remakes::Maker> Remakes::before_death(AllocationId id) const {
  for (const auto& [made, how] : made_) {
    if (how.given_up && made != id && names(how.by.launch, id)) {
      return how.by;
    }
  }
  return std::nullopt;
}

void Remakes::dies(AllocationId id, std::vector<AllocationId>& lost) {
  lose_made_of(id, lost);
  made_.erase(id);
}

void Remakes::lose_made_of(AllocationId id, std::vector<AllocationId>& lost) {
  for (auto it = made_.begin(); it != made_.end();) {
    if (it->first != id && names(it->second.by.launch, id)) {
      lost.push_back(it->first);
      it = made_.erase(it);
    } else {
      ++it;
    }
  }
}

}  // namespace spillway::sim
