// Stands in for libnvidia-ml: tells what the fake driver's device has in use. FAKE_NVML_PID=hidden:
// as in a container, where no process is listed. docs/testing.md.
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "fake_cuda.h"

namespace {

struct Process {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};
struct Memory {
  unsigned long long total_bytes, free_bytes, used_bytes;
};

bool began = false;

// Each context takes what fake_cuda_default_config says.
unsigned long long used_bytes() {
  FakeCudaConfig config;
  fake_cuda_default_config(&config);
  FakeCudaCounters counters;
  fake_cuda_counters(&counters);
  return counters.handle_bytes + counters.contexts * config.context_bytes +
         fake_cuda_unseen_bytes();
}

constexpr int kUninitialized = 1;
constexpr int kNotFound = 6;

}  // namespace

extern "C" {

int nvmlInit_v2() {
  began = true;
  return 0;
}

int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  static int the_device = 0;
  if (!began) {
    return kUninitialized;
  }
  if (std::strcmp(uuid, "GPU-face0000-0000-0000-0000-000000000000") != 0) {
    return kNotFound;
  }
  *device = &the_device;
  return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, void* processes) {
  const char* const pid = std::getenv("FAKE_NVML_PID");
  const bool hidden = pid != nullptr && std::strcmp(pid, "hidden") == 0;
  *count = hidden ? 0 : 1;
  if (!hidden) {
    *static_cast<Process*>(processes) = {.pid = static_cast<unsigned>(::getpid()),
                                         .used_bytes = used_bytes(),
                                         .gpu_instance = ~0U,
                                         .compute_instance = ~0U};
  }
  return 0;
}

int nvmlDeviceGetMemoryInfo(void*, void* memory) {
  *static_cast<Memory*>(memory) = {.total_bytes = 0, .free_bytes = 0, .used_bytes = used_bytes()};
  return 0;
}

}  // extern "C"
