// One transfer on its way: what the engine has asked for, with the places that its bytes come from
// and go to. Layer: platform, common.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/units.h"
#include "engine/types.h"
#include "platform/common/storage/slot_pool.h"

namespace spillway {

struct TransferJob {
  // Of one block; fixed when the transfer starts, but for the last two.
  struct Part {
    Bytes bytes = 0;
    std::uint64_t host_offset = kNoPlace;     // in host memory, where that is one end
    std::uint64_t storage_offset = kNoPlace;  // ... in the swap file
    bool writable = false;                    // on arrival on the device
    bool touched = false;     // written by somebody while it arrived there to be read only
    char* staging = nullptr;  // for what comes from storage: where it has been read to
    // Of what leaves the device: its pages have been moved there, out of everybody's reach; or
    // somebody holds them where they are, and may yet write them.
    char* aside = nullptr;
    bool held = false;
  };

  Transfer transfer;
  std::vector<Part> parts;  // by block of the transfer
  TimeNs ready_ns = 0;      // since when the link could take it

  // The workers'.
  std::vector<char*> buffers;  // that staging lies in
  std::atomic<std::uint32_t> requests_left{0};
  std::atomic<int> error{0};  // an error number; may be set before it starts, and then it fails
  std::atomic<bool> io_done{false};
};

// What a platform does for its workers. Called by their threads, without the platform's lock.
class TransferCarrier {
 public:
  TransferCarrier() = default;
  TransferCarrier(const TransferCarrier&) = delete;
  TransferCarrier& operator=(const TransferCarrier&) = delete;
  virtual ~TransferCarrier() = default;

  // Where the bytes lie that go to storage.
  [[nodiscard]] virtual void* source_of(TransferJob& job, std::size_t part) = 0;
  // From or to the device: host memory, or staging, is the other end. Or from staging to host
  // memory.
  virtual void copy(TransferJob& job) = 0;
  // The transfer is over, with 0 or an error number.
  virtual void ended(TransferJob& job, int error) = 0;
};

}  // namespace spillway
