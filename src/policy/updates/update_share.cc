// See update_share.h.
#include "policy/updates/update_share.h"

#include <algorithm>
#include <numeric>

namespace spillway {
namespace {

// Fewer updates say too little about an order.
constexpr std::size_t kFewest = 8;
// Iterations in which rates decide, while they are measured and the order is seen.
constexpr std::uint64_t kByRates = 3;
// With a new share the first iteration still ends what the one before has begun, and so the second
// begins late: the next count.
constexpr unsigned kSettles = 2;
constexpr unsigned kCounts = 3;
// The shares beside the best one are tried again after so many iterations, because what the machine
// can do changes. Not if no update runs at the host: then a program seldom asks where its updates
// run, and its iterations are not seen.
constexpr unsigned kTriedAgainAfter = 100;
// What is better by less is chance.
constexpr double kBetter = 0.99;

}  // namespace

// Tensors of one allocation may share its blocks; they begin at different bytes.
UpdateShare::Name UpdateShare::name_of(const Access& access) {
  constexpr Bytes kAlignment = 512;  // of PyTorch's tensors
  return (std::uint64_t{access.first_block} << 32U) ^ (access.from_bytes / kAlignment);
}

bool UpdateShare::at_host(const Access& written, Bytes bytes, TimeNs now_ns, bool by_rates) {
  const Name name = name_of(written);
  const auto [found, is_new] = by_name_.try_emplace(name, updates_.size());
  if (is_new) {
    updates_.push_back({.name = name});
    has_new_ = true;
  } else if (updates_[found->second].placed_in == iteration_) {
    next_iteration(now_ns);
  }
  Update& here = updates_[found->second];
  here.placed_in = iteration_;
  here.bytes = bytes;
  here.is_wanted = false;
  if (!share_ || is_new) {
    here.at_host = by_rates;
  }
  return here.at_host;
}

void UpdateShare::used(std::span<const Access> accesses) {
  for (const Access& access : accesses) {
    const auto found = by_name_.find(name_of(access));
    if (found == by_name_.end() || writes(access.mode)) {
      continue;  // what writes a parameter is its update on the device
    }
    Update& update = updates_[found->second];
    if (!update.is_wanted) {
      update.is_wanted = true;
      update.wanted = ++wants_;
    }
  }
}

void UpdateShare::next_iteration(TimeNs now_ns) {
  const auto took_ns = static_cast<double>(now_ns - began_ns_);
  const bool counts = iteration_ > 0 && !has_new_;
  // What is updated no more is forgotten.
  const std::size_t before = updates_.size();
  std::erase_if(updates_, [this](const Update& one) { return one.placed_in != iteration_; });
  if (updates_.size() != before) {
    by_name_.clear();
    for (std::size_t i = 0; i < updates_.size(); ++i) {
      by_name_[updates_[i].name] = i;
    }
  }
  has_new_ = false;
  began_ns_ = now_ns;
  if (++iteration_ < kByRates || updates_.size() < kFewest) {
    return;
  }
  if (!share_) {
    share_ = share_by_rates();
    stride_ = kParts / 4;
  } else if (counts) {
    share_ = share_after(*share_, took_ns);
  }
  choose_updates(*share_);
}

unsigned UpdateShare::share_after(unsigned share, double ns) {
  if (++iterations_ <= kSettles) {
    return share;
  }
  times_ns_.push_back(ns);
  const bool tries = stride_ > 0;
  if (!tries && iterations_ == kTriedAgainAfter && share > 0) {
    trials_.fill(0);
    stride_ = 1;
  } else if (!tries || iterations_ < kSettles + kCounts) {
    return share;
  }
  // The median: one slow iteration says nothing of a share.
  const auto middle = times_ns_.begin() + static_cast<std::ptrdiff_t>(times_ns_.size() / 2);
  std::nth_element(times_ns_.begin(), middle, times_ns_.end());
  trials_[share] = *middle;
  return next_share(share);
}

// Down or up by a stride as long as that is better; then by half of it. In the end the best share
// stays.
unsigned UpdateShare::next_share(unsigned measured) {
  const auto tried = [this](unsigned share) { return trials_[share] > 0; };
  unsigned best = measured;
  for (unsigned share = 0; share <= kParts; ++share) {
    if (tried(share) && trials_[share] < kBetter * trials_[best]) {
      best = share;
    }
  }
  unsigned next = best;
  while (next == best && stride_ > 0) {
    if (best >= stride_ && !tried(best - stride_)) {
      next = best - stride_;
    } else if (best + stride_ <= kParts && !tried(best + stride_)) {
      next = best + stride_;
    } else {
      stride_ /= 2;
    }
  }
  iterations_ = 0;
  times_ns_.clear();
  return next;
}

void UpdateShare::choose_updates(unsigned share) {
  std::vector<std::size_t> order(updates_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // What nobody has read since is wanted last of all.
  std::stable_sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
    const Update& one = updates_[a];
    const Update& other = updates_[b];
    return one.is_wanted != other.is_wanted ? !one.is_wanted : one.wanted > other.wanted;
  });
  const Bytes all = std::accumulate(updates_.begin(), updates_.end(), Bytes{0},
                                    [](Bytes sum, const Update& one) { return sum + one.bytes; });
  Bytes left = all * share / kParts;
  for (const std::size_t i : order) {
    Update& update = updates_[i];
    update.at_host = update.bytes <= left;
    left -= update.at_host ? update.bytes : left;
  }
}

unsigned UpdateShare::share_by_rates() const {
  Bytes all = 0;
  Bytes at_host = 0;
  for (const Update& update : updates_) {
    all += update.bytes;
    at_host += update.at_host ? update.bytes : 0;
  }
  return all == 0 ? 0 : static_cast<unsigned>((at_host * kParts + all / 2) / all);
}

}  // namespace spillway
