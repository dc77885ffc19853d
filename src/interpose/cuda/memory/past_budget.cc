// See past_budget.h.
#include "interpose/cuda/memory/past_budget.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "interpose/cuda/session.h"
#include "platform/common/process/say.h"

namespace spillway::cuda {
namespace {

// Less than that is a library's workspace; said again whenever it has doubled.
constexpr Bytes kSaidFromBytes = 256 * kMiB;
constexpr std::string_view kUncaught = "calls that Spillway does not see";

// A Python package by its folder, everything else by its file.
std::string library_at(const void* address) {
  Dl_info info{};
  if (address == nullptr || ::dladdr(address, &info) == 0 || info.dli_fname == nullptr) {
    return {};
  }
  const std::string path = info.dli_fname;
  for (const std::string_view packages : {"/site-packages/", "/dist-packages/"}) {
    const std::size_t at = path.rfind(packages);
    if (at == std::string::npos) {
      continue;
    }
    const std::size_t begin = at + packages.size();
    std::string package = path.substr(begin, path.find('/', begin) - begin);
    if (package != "nvidia") {  // in which all its libraries lie
      return package;
    }
  }
  return path.substr(path.rfind('/') + 1);
}

class PastBudget {
 public:
  void took(std::string_view call, Bytes bytes, const void* caller) {
    std::string library = library_at(caller);
    const MutexLock lock(mutex_);
    Call& of = calls_[std::string(call)];
    of.now_bytes += bytes;
    of.peak_bytes = std::max(of.peak_bytes, of.now_bytes);
    of.taken_bytes[std::move(library)] += bytes;
    grown();
  }
  void gave_back(std::string_view call, Bytes bytes) {
    const MutexLock lock(mutex_);
    Call& of = calls_[std::string(call)];
    of.now_bytes -= std::min(bytes, of.now_bytes);
  }
  void unseen(Bytes bytes) {
    const MutexLock lock(mutex_);
    Call& of = calls_[std::string(kUncaught)];
    of.now_bytes = bytes;
    of.peak_bytes = std::max(of.peak_bytes, bytes);
    grown();
  }
  [[nodiscard]] Bytes seen_bytes() {
    const MutexLock lock(mutex_);
    Bytes sum = 0;
    for (const auto& [name, of] : calls_) {
      sum += name == kUncaught ? 0 : of.now_bytes;
    }
    return sum;
  }
  void add_to(RunRecord& record) {
    const MutexLock lock(mutex_);
    record.device.past_budget_peak_bytes = peak_bytes_;
    for (const auto& [name, of] : calls_) {
      if (of.peak_bytes > 0) {
        record.device.past_budget.push_back(
            {.call = name, .library = most_of(of), .peak_bytes = of.peak_bytes});
      }
    }
    std::sort(record.device.past_budget.begin(), record.device.past_budget.end(),
              [](const auto& a, const auto& b) { return a.peak_bytes > b.peak_bytes; });
  }

 private:
  struct Call {
    Bytes now_bytes = 0;
    Bytes peak_bytes = 0;
    std::map<std::string, Bytes> taken_bytes;  // by library, in all
  };

  [[nodiscard]] static std::string most_of(const Call& call) {
    const auto most =
        std::max_element(call.taken_bytes.begin(), call.taken_bytes.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == call.taken_bytes.end() ? std::string() : most->first;
  }

  void grown() SPILLWAY_REQUIRES(mutex_) {
    Bytes now_bytes = 0;
    auto most = calls_.begin();
    for (auto it = calls_.begin(); it != calls_.end(); ++it) {
      now_bytes += it->second.now_bytes;
      most = it->second.now_bytes > most->second.now_bytes ? it : most;
    }
    peak_bytes_ = std::max(peak_bytes_, now_bytes);
    if (now_bytes < said_from_bytes_) {
      return;
    }
    said_from_bytes_ = 2 * now_bytes;
    const std::string library = most_of(most->second);
    const std::string line = fmt::format(
        "{} of device memory were taken past the budget by {}{}{}: it stays on the device, beside "
        "what --device-memory allows",
        format_bytes(now_bytes), most->first, library.empty() ? "" : " (" + library + ")",
        most->second.now_bytes < now_bytes ? " and others" : "");
    if (std::getenv("SPILLWAY_STRICT") != nullptr) {
      end_run(line + "; ending it, as --strict wants");
    }
    say(line);
  }

  Mutex mutex_;
  std::map<std::string, Call> calls_ SPILLWAY_GUARDED_BY(mutex_);
  Bytes peak_bytes_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  Bytes said_from_bytes_ SPILLWAY_GUARDED_BY(mutex_) = kSaidFromBytes;
};

// Never destroyed: threads of the program may run until the very end.
PastBudget& past_budget() {
  static auto* const it = new PastBudget;
  return *it;
}

}  // namespace

void took_past_budget(std::string_view call, Bytes bytes, const void* caller) {
  record_at_end();
  past_budget().took(call, bytes, caller);
}

void gave_back_past_budget(std::string_view call, Bytes bytes) {
  past_budget().gave_back(call, bytes);
}

void unseen_past_budget(Bytes bytes) { past_budget().unseen(bytes); }

Bytes seen_past_budget_bytes() { return past_budget().seen_bytes(); }

void add_past_budget(RunRecord& record) { past_budget().add_to(record); }

}  // namespace spillway::cuda
