// Vectors by id, which grow when they meet an id that they do not hold yet. Layer: base.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace spillway {

// Element `index`. If it is not there, the vector grows to hold it, at least to twice its size, so
// that ids that come one after the other cost little. New elements are T{}, or `fill`.
template <typename T>
T& grown_at(std::vector<T>& all, std::size_t index) {
  if (index >= all.size()) {
    all.resize(std::max(index + 1, 2 * all.size()));
  }
  return all[index];
}
template <typename T>
T& grown_at(std::vector<T>& all, std::size_t index, const T& fill) {
  if (index >= all.size()) {
    all.resize(std::max(index + 1, 2 * all.size()), fill);
  }
  return all[index];
}

}  // namespace spillway
