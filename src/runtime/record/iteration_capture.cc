// See iteration_capture.h.
#include "runtime/record/iteration_capture.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "platform/common/process/say.h"
#include "policy/prediction/launch_hash.h"
#include "runtime/report/whole_file.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".iteration";
// Longer ones are no iterations, and would fill memory.
constexpr std::uint64_t kLaunchesMax = std::uint64_t{1} << 20U;

}  // namespace

std::optional<CaptureOptions> capture_options_from_environment() {
  const char* const folder = std::getenv("SPILLWAY_CAPTURE");
  if (folder == nullptr || *folder == '\0') {
    return std::nullopt;
  }
  CaptureOptions options;
  options.folder = folder;
  if (const char* const warm_up = std::getenv("SPILLWAY_CAPTURE_WARM_UP")) {
    options.warm_up = std::strtoull(warm_up, nullptr, 10);
  }
  return options;
}

std::string captured_file(const std::string& folder, std::int64_t pid) {
  return fmt::format("{}/{}{}", folder, pid, kExtension);
}

std::vector<CapturedIteration> read_captured_iterations(const std::string& folder) {
  std::vector<CapturedIteration> all;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != kExtension) {
      continue;
    }
    std::ifstream file(entry.path(), std::ios::binary);
    if (auto captured = parse_captured_iteration({std::istreambuf_iterator<char>(file), {}})) {
      all.push_back(std::move(*captured));
    }
  }
  return all;
}

bool IterationCapture::iteration_ended() {
  const MutexLock lock(mutex_);
  if (!std::exchange(said_, true)) {
    start_over();
  }
  return boundary();
}

void IterationCapture::launched(std::string_view name, bool part) {
  if (done()) {
    return;
  }
  const MutexLock lock(mutex_);
  ++captured_.launches;
  // In place or not is one operator, as for LaunchPositions.
  if (name.starts_with("aten::") && name.ends_with('_')) {
    name.remove_suffix(1);
  }
  if (!said_ && finder_.next(hash_launch(name, {}).first)) {
    found();
  }
  if (phase_ == Phase::kUsing) {
    parts_.push_back(part);
  }
  if (++launches_ > kLaunchesMax) {
    give_up();
  }
}

// What repeats first may be a layer. If what repeats becomes longer than what was taken, and stays
// so, that was none.
void IterationCapture::found() {
  constexpr unsigned kOftenEnough = 3;
  if (phase_ == Phase::kDone) {
    longer_ = 2 * launches_ > 3 * taken_launches_ ? longer_ + 1 : 0;
    if (longer_ >= kOftenEnough) {
      start_over();
    }
  }
  boundary();
}

void IterationCapture::start_over() {
  if (phase_ == Phase::kTiming || phase_ == Phase::kUsing) {
    (void)source_.end();
  }
  phase_ = Phase::kWarmingUp;
  wants_ = false;
  longer_ = 0;
  const std::uint64_t launches = captured_.launches;
  times_ = {};
  timings_ = 0;
  captured_ = {};
  captured_.launches = launches;
}

void IterationCapture::give_up() {
  if (phase_ == Phase::kTiming || phase_ == Phase::kUsing) {
    start_over();
  }
  launches_ = 0;
}

void IterationCapture::begin(Phase phase) {
  phase_ = phase;
  parts_.clear();
  source_.begin();
}

bool IterationCapture::boundary() {
  ++captured_.iterations;
  const std::uint64_t launches = std::exchange(launches_, 0);
  switch (phase_) {
    case Phase::kWarmingUp:
      if (captured_.iterations >= options_.warm_up) {
        begin(Phase::kTiming);
      }
      break;
    case Phase::kTiming:
      if (std::optional<RecordedIteration> timed = source_.end()) {
        times_ = std::move(timed->trace.kernels);
        tries_ = 0;
        captured_.timed = true;
        wants_ = true;
        // Where it is only found that one has begun, nobody tells operands yet.
        if (said_) {
          begin(Phase::kUsing);
        } else {
          phase_ = Phase::kAwaitingOperands;
          told_ = false;
        }
      } else {
        begin(Phase::kTiming);
      }
      break;
    case Phase::kAwaitingOperands:
      if (told_) {
        begin(Phase::kUsing);
      }
      break;
    case Phase::kUsing:
      if (std::optional<RecordedIteration> taken = source_.end()) {
        used(std::move(*taken), launches);
      } else {
        begin(Phase::kUsing);
      }
      break;
    case Phase::kDone:
      break;
  }
  return wants_;
}

// An iteration of another length than the timed one is another: two optimizers take turns, or one
// of the two held an evaluation. So later ones are tried, and after some of them another timing.
// The closest is left at once, since the program may end.
void IterationCapture::used(RecordedIteration iteration, std::uint64_t launches) {
  constexpr unsigned kTries = 3;
  constexpr unsigned kTimings = 2;
  const auto apart = [](const CapturedIteration& one) {
    const std::size_t used = whole_launches(one);
    return std::max(used, one.times.size()) - std::min(used, one.times.size());
  };
  CapturedIteration taken;
  taken.used = std::move(iteration.trace);
  taken.parts = parts_;
  taken.times = times_;
  const bool same = apart(taken) == 0;
  if (!captured_.used || apart(taken) < apart(captured_)) {
    captured_.used = std::move(taken.used);
    captured_.parts = std::move(taken.parts);
    captured_.times = std::move(taken.times);
    captured_.tells_changes = tells_changes_;
    taken_launches_ = launches;
    if (!same) {
      leave();
    }
  }
  if (!same && ++tries_ < kTries) {
    begin(Phase::kUsing);
  } else if (!same && ++timings_ < kTimings) {
    wants_ = false;
    begin(Phase::kTiming);
  } else {
    phase_ = Phase::kDone;
    wants_ = false;
    leave();
  }
}

void IterationCapture::finish() {
  const MutexLock lock(mutex_);
  if (phase_ != Phase::kDone) {
    leave();
  }
}

void IterationCapture::leave() {
  captured_.device = options_.device;
  const std::string path = captured_file(options_.folder, ::getpid());
  if (!write_whole_file(path, to_json(captured_))) {
    say(fmt::format("{}: cannot write the recorded iteration: {}", path, std::strerror(errno)));
  }
  if (phase_ == Phase::kDone) {  // it is in the file, and may be large
    captured_.used.reset();
    captured_.times = {};
    captured_.parts = {};
    times_ = {};
  }
  done_ = phase_ == Phase::kDone && said_;
}

std::unique_ptr<IterationCapture> capture_if_wanted(const std::string& device,
                                                    IterationCapture::Source source) {
  std::optional<CaptureOptions> options = capture_options_from_environment();
  if (!options) {
    return nullptr;
  }
  options->device = device;
  return std::make_unique<IterationCapture>(std::move(*options), std::move(source));
}

}  // namespace spillway
