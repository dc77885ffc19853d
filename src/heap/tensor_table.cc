#include "heap/tensor_table.h"

#include <algorithm>
#include <iterator>

#include "base/spread.h"

namespace spillway {

// Where it is, or would be.
std::size_t TensorTable::index_of(std::uint64_t address) const {
  std::size_t at = spread(address, bits_);
  while (places_[at].address != 0 && places_[at].address != address) {
    at = (at + 1) % places_.size();
  }
  return at;
}

TensorPlace& TensorTable::make_at(std::uint64_t address) {
  if (2 * used_ >= places_.size()) {
    grow();
  }
  TensorPlace& place = places_[index_of(address)];
  used_ += place.address == 0 ? 1U : 0U;
  place.address = address;
  return place;
}

// The same addresses come again and again, so those of the dead stay until there are too many.
void TensorTable::grow() {
  std::vector<TensorPlace> living;
  std::copy_if(places_.begin(), places_.end(), std::back_inserter(living),
               [](const TensorPlace& place) { return place.bytes > 0; });
  while (4 * living.size() >= places_.size()) {
    places_.resize(2 * places_.size());
    ++bits_;
  }
  std::fill(places_.begin(), places_.end(), TensorPlace{});
  used_ = living.size();
  for (const TensorPlace& place : living) {
    places_[index_of(place.address)] = place;
  }
}

}  // namespace spillway
