// The functions of spillway.h: arguments checked, handles resolved, nothing thrown.
// Layer: capi.
#include "spillway/spillway.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "capi/failure.h"
#include "capi/handles.h"
#include "capi/managed_space.h"
#include "capi/options.h"
#include "capi/statistics.h"

// What a handle points to. It has an address, which is never given out twice, and nothing else.
struct spillwaySpace_st {};

namespace {

using spillway::DiscardMode;
using spillway::SpaceOptions;
using spillway::Tier;
using spillway::capi::Failure;
using spillway::capi::guarded;
using spillway::capi::is_null;
using spillway::capi::ManagedSpace;
using spillway::capi::Outcome;

// Never destroyed: other destructors at the end of the process may still use memory of a space.
auto& spaces() {
  static auto* const all = new spillway::capi::Handles<spillwaySpace_t, ManagedSpace>;
  return *all;
}

Outcome<std::shared_ptr<ManagedSpace>> resolve(spillwaySpace_t space) {
  if (space == nullptr) {
    return is_null("space");
  }
  std::shared_ptr<ManagedSpace> found = spaces().find(space);
  if (found == nullptr) {
    return spillway::capi::fail(spillwayErrorInvalidValue,
                                "the space does not exist; has it been destroyed?");
  }
  return found;
}

// Runs the body with the space that the handle stands for.
template <typename Body>
spillwayError_t in_space(spillwaySpace_t space, Body body) {
  return guarded([&]() -> Outcome<void> {
    const Outcome<std::shared_ptr<ManagedSpace>> managed = resolve(space);
    if (!managed) {
      return tl::unexpected<Failure>(managed.error());
    }
    return body(**managed);
  });
}

std::optional<Tier> tier_of(int tier) {
  switch (tier) {
    case spillwayTierDevice:
      return Tier::kDevice;
    case spillwayTierHost:
      return Tier::kHost;
    case spillwayTierStorage:
      return Tier::kStorage;
    default:
      return std::nullopt;
  }
}

tl::unexpected<Failure> no_tier(int tier) {
  return spillway::capi::fail(spillwayErrorInvalidValue, "{} is no spillwayTier_t", tier);
}

}  // namespace

extern "C" {

spillwayError_t spillwaySpaceCreate(spillwaySpace_t* space, const spillwaySpaceOptions_t* options) {
  return guarded([&]() -> Outcome<void> {
    if (space == nullptr) {
      return is_null("space");
    }
    const Outcome<SpaceOptions> wanted = options == nullptr
                                             ? spillway::capi::default_options()
                                             : spillway::capi::checked_options(*options);
    if (!wanted) {
      return tl::unexpected<Failure>(wanted.error());
    }
    Outcome<std::shared_ptr<ManagedSpace>> opened = ManagedSpace::open(*wanted);
    if (!opened) {
      return tl::unexpected<Failure>(opened.error());
    }
    *space = spaces().add(std::move(*opened));
    return {};
  });
}

spillwayError_t spillwaySpaceDestroy(spillwaySpace_t space) {
  if (space == nullptr) {
    return spillwaySuccess;
  }
  return in_space(space, [&](ManagedSpace& managed) -> Outcome<void> {
    if (!managed.close()) {
      return spillway::capi::fail(spillwayErrorBusy, "a launch runs in the space; end it first");
    }
    // The memory goes when this call returns, unless another thread is inside one of its own.
    spaces().remove(space);
    return {};
  });
}

spillwayError_t spillwayMalloc(void** ptr, size_t size, spillwaySpace_t space) {
  return in_space(space, [&](ManagedSpace& managed) -> Outcome<void> {
    if (ptr == nullptr) {
      return is_null("ptr");
    }
    if (size == 0) {
      *ptr = nullptr;
      return {};
    }
    const Outcome<void*> start = managed.allocate(size);
    if (!start) {
      return tl::unexpected<Failure>(start.error());
    }
    *ptr = *start;
    return {};
  });
}

spillwayError_t spillwayFree(void* ptr, spillwaySpace_t space) {
  return in_space(space, [&](ManagedSpace& managed) -> Outcome<void> {
    return ptr == nullptr ? Outcome<void>{} : managed.free(ptr);
  });
}

spillwayError_t spillwayMemPrefetchAsync(const void* ptr, size_t count, spillwayTier_t dst,
                                         spillwaySpace_t space) {
  return in_space(space, [&](ManagedSpace& managed) -> Outcome<void> {
    const std::optional<Tier> tier = tier_of(dst);
    if (!tier) {
      return no_tier(dst);
    }
    return *tier == Tier::kDevice ? managed.prefetch(ptr, count)
                                  : managed.pre_evict(ptr, count, *tier);
  });
}

spillwayError_t spillwayMemPreEvictAsync(const void* ptr, size_t count, spillwayTier_t tier,
                                         spillwaySpace_t space) {
  return in_space(space, [&](ManagedSpace& managed) -> Outcome<void> {
    const std::optional<Tier> to = tier_of(tier);
    if (!to) {
      return no_tier(tier);
    }
    if (*to == Tier::kDevice) {
      return spillway::capi::fail(spillwayErrorInvalidValue,
                                  "nothing is evicted to the device; spillwayMemPrefetchAsync "
                                  "brings data there");
    }
    return managed.pre_evict(ptr, count, *to);
  });
}

spillwayError_t spillwayMemDiscard(const void* ptr, size_t count, spillwaySpace_t space) {
  return in_space(space, [&](ManagedSpace& managed) {
    return managed.discard(ptr, count, DiscardMode::kEager);
  });
}

spillwayError_t spillwayMemDiscardLazy(const void* ptr, size_t count, spillwaySpace_t space) {
  return in_space(space, [&](ManagedSpace& managed) {
    return managed.discard(ptr, count, DiscardMode::kLazy);
  });
}

spillwayError_t spillwayMemGetInfo(size_t* free, size_t* total, spillwaySpace_t space) {
  return in_space(space, [&](ManagedSpace& managed) -> Outcome<void> {
    const spillway::Bytes budget = managed.capacity_bytes(Tier::kDevice);
    const spillway::Bytes used = managed.stats().used_bytes[index_of(Tier::kDevice)];
    if (free != nullptr) {
      *free = budget > used ? budget - used : 0;
    }
    if (total != nullptr) {
      *total = budget;
    }
    return {};
  });
}

spillwayError_t spillwayLaunchBegin(spillwayLaunch_t* launch, const char* name,
                                    const spillwayAccess_t* accesses, size_t count,
                                    spillwaySpace_t space) {
  return in_space(space, [&](ManagedSpace& managed) -> Outcome<void> {
    if (launch == nullptr || name == nullptr || (accesses == nullptr && count > 0)) {
      return is_null(launch == nullptr ? "launch" : name == nullptr ? "name" : "accesses");
    }
    const Outcome<spillwayLaunch_t> begun = managed.begin_launch(name, {accesses, count});
    if (!begun) {
      return tl::unexpected<Failure>(begun.error());
    }
    *launch = *begun;
    return {};
  });
}

spillwayError_t spillwayLaunchEnd(spillwayLaunch_t launch, spillwaySpace_t space) {
  return in_space(space, [&](ManagedSpace& managed) { return managed.end_launch(launch); });
}

spillwayError_t spillwayIterationEnd(spillwaySpace_t space) {
  return in_space(space, [](ManagedSpace& managed) -> Outcome<void> {
    managed.iteration_ended();
    return {};
  });
}

spillwayError_t spillwaySynchronize(spillwaySpace_t space) {
  return in_space(space, [](ManagedSpace& managed) -> Outcome<void> {
    managed.synchronize();
    return {};
  });
}

spillwayError_t spillwayGetStatistics(spillwayStatistics_t* statistics, size_t size,
                                      spillwaySpace_t space) {
  return in_space(space, [&](ManagedSpace& managed) -> Outcome<void> {
    if (statistics == nullptr || size == 0) {
      return statistics == nullptr
                 ? is_null("statistics")
                 : spillway::capi::fail(spillwayErrorInvalidValue, "statistics of 0 bytes");
    }
    const spillwayStatistics_t values = spillway::capi::statistics_of(managed);
    std::memcpy(statistics, &values, std::min(size, sizeof(values)));
    return {};
  });
}

}  // extern "C"
