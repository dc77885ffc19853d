// See device_in_use.h.
#include "interpose/cuda/memory/device_in_use.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <type_traits>
#include <vector>

#include "interpose/cuda/memory/past_budget.h"
#include "interpose/cuda/memory/shared_memory.h"
#include "interpose/cuda/real_symbols.h"

namespace spillway::cuda {
namespace {

// Of NVML's binary interface.
struct NvmlProcess {
  unsigned pid;
  unsigned long long used_bytes;  // all ones where it is not told
  unsigned gpu_instance;
  unsigned compute_instance;
};
struct NvmlMemory {
  unsigned long long total_bytes;
  unsigned long long free_bytes;
  unsigned long long used_bytes;
};
constexpr int kNvmlTooSmall = 7;

// Beyond the budget, what is counted and what contexts took at first: code that is loaded later,
// and memory of ours beside the budget (docs/interposer.md).
constexpr Bytes kOverheadBytes = kGiB;

std::string uuid_text(const CuUuid& uuid) {
  std::string text;
  for (std::size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    const bool dash = i == 4 || i == 6 || i == 8 || i == 10;
    text += fmt::format("{}{:02x}", dash ? "-" : "", uuid.bytes[i]);
  }
  return text;
}

std::optional<Bytes> of_this_process(const std::vector<NvmlProcess>& processes) {
  const auto own = static_cast<unsigned>(::getpid());
  const auto found = std::find_if(processes.begin(), processes.end(),
                                  [own](const NvmlProcess& it) { return it.pid == own; });
  return found == processes.end() || found->used_bytes == ~0ULL
             ? std::nullopt
             : std::optional<Bytes>(found->used_bytes);
}

}  // namespace

DeviceInUse::DeviceInUse(const Driver& driver, CuDevice device, Bytes budget_bytes)
    : budget_bytes_(budget_bytes) {
  const char* const named = std::getenv(kNvmlVariable);
  const char* const file = named != nullptr && *named != '\0' ? named : "libnvidia-ml.so.1";
  void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  CuUuid uuid{};
  if (library == nullptr || driver.device_uuid(&uuid, device) != CuResult::kSuccess) {
    return;
  }
  const auto find = [library](auto& call, const char* symbol) {
    call = reinterpret_cast<std::remove_reference_t<decltype(call)>>(real_dlsym()(library, symbol));
    return call != nullptr;
  };
  const bool all = find(calls_.init, "nvmlInit_v2") &&
                   find(calls_.device_by_uuid, "nvmlDeviceGetHandleByUUID") &&
                   find(calls_.processes, "nvmlDeviceGetComputeRunningProcesses_v3") &&
                   find(calls_.memory, "nvmlDeviceGetMemoryInfo");
  uuid_ = uuid_text(uuid);
  state_ = all ? State::kNew : State::kNotThere;
}

// A part of a device (MIG) has a number of its own.
bool DeviceInUse::begin() {
  if (state_ == State::kNew) {
    const bool found =
        calls_.init() == 0 && (calls_.device_by_uuid(("GPU-" + uuid_).c_str(), &device_) == 0 ||
                               calls_.device_by_uuid(("MIG-" + uuid_).c_str(), &device_) == 0);
    state_ = found ? State::kAsked : State::kNotThere;
  }
  return state_ == State::kAsked;
}

void DeviceInUse::look(Bytes used_bytes) {
  const MutexLock lock(mutex_);
  if (!begin()) {
    return;
  }
  constexpr unsigned kProcessesMost = 256;
  std::vector<NvmlProcess> processes(kProcessesMost);
  unsigned count = kProcessesMost;
  const int answer = calls_.processes(device_, &count, processes.data());
  processes.resize(answer == 0 ? std::min(count, kProcessesMost) : 0);
  NvmlMemory memory{};
  if (const std::optional<Bytes> own = of_this_process(processes)) {
    note_of_process(*own, used_bytes);
  } else if (answer != kNvmlTooSmall && calls_.memory(device_, &memory) == 0) {
    // As in a container: whose it is cannot be told, only how much more there is.
    if (first_) {
      all_at_first_bytes_ = memory.used_bytes;
    }
    growth_peak_bytes_ = std::max<Bytes>(
        growth_peak_bytes_,
        memory.used_bytes - std::min<Bytes>(memory.used_bytes, all_at_first_bytes_));
  }
  first_ = false;
}

void DeviceInUse::note_of_process(Bytes now_bytes, Bytes used_bytes) {
  const Bytes seen_bytes = seen_past_budget_bytes();
  if (first_) {
    contexts_bytes_ = now_bytes - std::min(now_bytes, used_bytes + seen_bytes);
  }
  peak_bytes_ = std::max(peak_bytes_, now_bytes);
  const Bytes known_bytes =
      contexts_bytes_ + budget_bytes_ + seen_bytes + opened_bytes() + kOverheadBytes;
  if (now_bytes > known_bytes) {
    unseen_past_budget(now_bytes - known_bytes + kOverheadBytes);
  }
}

void DeviceInUse::stop() {
  const MutexLock lock(mutex_);
  state_ = State::kNotThere;
}

void DeviceInUse::add_to(RunRecord& record) {
  const MutexLock lock(mutex_);
  record.device.in_use_peak_bytes = peak_bytes_;
  record.device.growth_peak_bytes = growth_peak_bytes_;
}

}  // namespace spillway::cuda
