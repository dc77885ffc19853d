// See tensor_places.h.
#include "platform/sim/tensor_places.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "analysis/vitality.h"
#include "platform/common/gpu_sizes.h"
#include "platform/common/near_sizes.h"

namespace spillway::sim {
namespace {

std::vector<bool> used_tensors(const Program& program) {
  std::vector<bool> used(program.tensors.size(), false);
  for (const std::vector<Kernel>& graph : program.graphs) {
    for (const Kernel& kernel : graph) {
      for (const auto* ids : {&kernel.reads, &kernel.writes}) {
        for (const TensorId id : *ids) {
          used[id] = true;
        }
      }
    }
  }
  return used;
}

PlaceId add(TensorPlaces& made, TensorId tensor, Bytes bytes) {
  made.places.push_back({.tensor = tensor, .bytes = bytes});
  return static_cast<PlaceId>(made.places.size() - 1);
}

class Heap {
 public:
  Heap(TensorPlaces& made, Bytes budget_bytes) : made_(&made), budget_bytes_(budget_bytes) {}

  // As DeviceHeap::allocate.
  PlaceId allocate(TensorId tensor, Bytes bytes) {
    const Bytes size = shares_ ? near_.better(bytes) : bytes;
    near_.born(bytes);
    const std::set<PlaceId>& better = kept_[size];
    std::set<PlaceId>& from = kept_[better.empty() ? bytes : size];
    const PlaceId place =
        from.empty() ? add(*made_, tensor, size) : from.extract(from.begin()).value();
    used_bytes_ += made_->places[place].bytes;
    made_->peak_bytes = std::max(made_->peak_bytes, used_bytes_);
    return place;
  }

  // `bytes` as it was asked for.
  void free(PlaceId place, Bytes bytes) {
    near_.died(bytes);
    used_bytes_ -= made_->places[place].bytes;
    kept_[made_->places[place].bytes].insert(place);
  }

  // It is known what comes and goes.
  void round_ends() { shares_ = near_.peak_bytes() > budget_bytes_; }

 private:
  TensorPlaces* made_;
  Bytes budget_bytes_;
  NearSizes near_;
  std::map<Bytes, std::set<PlaceId>> kept_;  // by size
  Bytes used_bytes_ = 0;
  bool shares_ = false;  // sizes that are near are one
};

// Only those that are used, in their order.
void keep_used(TensorPlaces& made) {
  std::vector<bool> used(made.places.size(), false);
  for (const std::vector<PlaceId>& of : made.of) {
    for (const PlaceId place : of) {
      if (place != kNoPlace) {
        used[place] = true;
      }
    }
  }
  std::vector<PlaceId> now(made.places.size(), kNoPlace);
  std::vector<Place> places;
  for (PlaceId place = 0; place < used.size(); ++place) {
    if (used[place]) {
      now[place] = static_cast<PlaceId>(places.size());
      places.push_back(made.places[place]);
    }
  }
  made.places = std::move(places);
  for (std::vector<PlaceId>& of : made.of) {
    for (PlaceId& place : of) {
      place = place == kNoPlace ? kNoPlace : now[place];
    }
  }
}

// The tensors of one iteration as they come and go.
struct Births {
  std::vector<TensorId> born;
  std::vector<TensorId> dead;
};

std::vector<Births> births_of(const Trace& trace) {
  std::vector<Births> births(trace.kernels.size());
  const Vitality vitality = analyze_vitality(trace);
  for (TensorId id = 0; id < trace.tensors.size(); ++id) {
    if (const auto& life = vitality.lives[id]; life && !trace.tensors[id].persistent) {
      births[life->first_use].born.push_back(id);
      births[life->last_use].dead.push_back(id);
    }
  }
  return births;
}

}  // namespace

TensorPlaces places_of_their_own(const Program& program) {
  TensorPlaces made;
  const std::vector<bool> used = used_tensors(program);
  std::vector<PlaceId> of(used.size(), kNoPlace);
  for (TensorId id = 0; id < used.size(); ++id) {
    of[id] = used[id] ? add(made, id, program.tensors[id].bytes) : kNoPlace;
    made.peak_bytes += used[id] ? program.tensors[id].bytes : 0;
  }
  made.of.assign(program.graphs.size(), of);
  return made;
}

TensorPlaces handed_on_places(const Program& program, Bytes frame_bytes, Bytes budget_bytes) {
  TensorPlaces made;
  Heap heap(made, budget_bytes);
  const auto size_of = [&](TensorId id) {
    return heap_size_of(program.tensors[id].bytes, frame_bytes);
  };
  const auto allocate = [&](TensorId id) { return heap.allocate(id, size_of(id)); };
  const std::vector<bool> used = used_tensors(program);
  std::vector<PlaceId> of(used.size(), kNoPlace);
  for (TensorId id = 0; id < used.size(); ++id) {
    of[id] = used[id] && program.tensors[id].persistent ? allocate(id) : kNoPlace;
  }
  made.of.assign(program.graphs.size(), of);
  std::vector<std::vector<Births>> births;
  for (std::uint32_t graph = 0; graph < program.graphs.size(); ++graph) {
    births.push_back(births_of(graph_of(program, graph)));
  }
  // In the second round sizes that are near become one; what lies where is the same from then on.
  constexpr int kRounds = 3;
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t graph = 0; graph < births.size(); ++graph) {
      for (const Births& at : births[graph]) {
        for (const TensorId id : at.born) {
          made.of[graph][id] = allocate(id);
        }
        for (const TensorId id : at.dead) {
          heap.free(made.of[graph][id], size_of(id));
        }
      }
    }
    heap.round_ends();
  }
  keep_used(made);
  return made;
}

}  // namespace spillway::sim
