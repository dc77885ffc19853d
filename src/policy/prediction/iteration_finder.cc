// See iteration_finder.h.
#include "policy/prediction/iteration_finder.h"

#include <algorithm>
#include <cmath>

namespace spillway {
namespace {

// What may come again later than an iteration: a log, a checkpoint.
constexpr double kSeldom = 0.002;
// The past counts half as much after so many launches, or so many iterations where these are
// longer.
constexpr double kFewLaunches = 4096;
constexpr double kIterations = 4;
// Of so many launches, more than that part in places that are new: nothing is known of iterations.
constexpr double kNewLaunches = 64;
constexpr double kMuchNew = 0.05;
// Places that are remembered. A program with more does not repeat itself.
constexpr std::size_t kPlacesMax = std::size_t{1} << 16U;

std::uint64_t mixed(std::uint64_t value) {
  value ^= value >> 31U;
  value *= 0x9e3779b97f4a7c15ULL;
  return value ^ (value >> 29U);
}

}  // namespace

std::uint64_t IterationFinder::place_after(std::uint64_t kind) {
  kinds_[launches_ % kContext] = kind;
  std::uint64_t place = 0;
  for (std::size_t back = 0; back < kContext; ++back) {
    place = mixed(place + kinds_[(launches_ + kContext - back) % kContext] + 1);
  }
  return place == 0 ? 1 : place;
}

std::size_t IterationFinder::bucket_of(std::uint64_t gap) {
  const auto bucket = static_cast<std::size_t>(2 * std::log2(static_cast<double>(gap)));
  return std::min(bucket, kBuckets - 1);
}

// The shortest time within which nearly all launches that come again have done so.
void IterationFinder::count(std::size_t bucket) {
  gaps_[bucket] += 1;
  all_gaps_ += 1;
  double later = 0;
  std::size_t longest = kBuckets - 1;
  while (longest > 0 && later + gaps_[longest] < kSeldom * all_gaps_) {
    later += gaps_[longest--];
  }
  iteration_bucket_ = longest;
  if (all_gaps_ >
      std::max(kFewLaunches, kIterations * std::exp2(static_cast<double>(longest) / 2))) {
    for (double& gap : gaps_) {
      gap /= 2;
    }
    all_gaps_ /= 2;
  }
}

bool IterationFinder::said_lately() const {
  return said_counts_for_ > 0 && launches_ - said_at_ <= said_counts_for_;
}

// Whether iterations still begin where they did: it has come as often as it should.
bool IterationFinder::stands() const {
  return anchor_ != 0 && bucket_of(launches_ - anchor_at_ + 1) <= iteration_bucket_ + 1 &&
         anchor_bucket_ + 1 >= iteration_bucket_;
}

bool IterationFinder::next(std::uint64_t kind) {
  ++launches_;
  const std::uint64_t place = place_after(kind);
  if (last_at_.size() >= kPlacesMax) {
    last_at_.clear();
  }
  const auto [at, first] = last_at_.try_emplace(place, launches_);
  new_part_ += ((first ? 1.0 : 0.0) - new_part_) / kNewLaunches;
  const std::size_t bucket = first ? kBuckets : bucket_of(launches_ - at->second);
  at->second = launches_;
  if (!first) {
    count(bucket);
  }
  if (new_part_ > kMuchNew) {
    anchor_ = 0;
  } else if (bucket == iteration_bucket_ && place != anchor_ && !stands()) {
    anchor_ = place;
  }
  if (place == anchor_) {
    anchor_at_ = launches_;
    anchor_bucket_ = bucket;
  }
  const bool begins = !said_lately() && (place == anchor_ || launches_ - began_at_ >= kLaunchesMax);
  if (begins) {
    began_at_ = launches_;
  }
  return begins;
}

void IterationFinder::begins() {
  constexpr std::uint64_t kPatience = 2;
  constexpr std::uint64_t kFirstPatience = 8;  // of the first it is not known when it began
  if (said_at_ == 0) {
    said_counts_for_ = kFirstPatience * std::max<std::uint64_t>(launches_, 1);
  } else if (began_at_ == said_at_) {  // else there was something in between
    said_counts_for_ = kPatience * std::max<std::uint64_t>(launches_ - said_at_, 1);
  }
  said_at_ = launches_;
  began_at_ = launches_;
}

}  // namespace spillway
