// This process as one that uses memory of others. See shared_memory.h.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "interpose/cuda/hooks/hook_table.h"
#include "interpose/cuda/memory/shared_memory.h"
#include "platform/common/process/descriptor_server.h"
#include "platform/common/process/say.h"

namespace spillway::cuda {
namespace {

// Addresses at which memory of another process is mapped, piece by piece, as long as this lives.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept { *this = std::move(other); }
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(start_, other.start_);
    std::swap(bytes_, other.bytes_);
    std::swap(pieces_, other.pieces_);
    return *this;
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    for (const auto& [address, bytes] : pieces_) {
      (void)own_driver().memory_unmap(address, bytes);
    }
    if (start_ != 0) {
      (void)own_driver().address_free(start_, bytes_);
    }
  }

  CuResult reserve(Bytes bytes) {
    bytes_ = bytes;
    return own_driver().address_reserve(&start_, bytes, 0, 0, 0);
  }
  // Behind what is mapped already. It lives as long as it is mapped.
  CuResult add(const Descriptor& descriptor, Bytes bytes) {
    CuMemHandle handle = 0;
    auto* const shareable =
        reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor.get()));  // NOLINT
    const CuResult imported =
        own_driver().memory_import(&handle, shareable, CuHandleType::kFileDescriptor);
    if (imported != CuResult::kSuccess) {
      return imported;
    }
    const CuAddress at = end();
    const CuResult mapped = own_driver().memory_map(at, bytes, 0, handle, 0);
    if (mapped == CuResult::kSuccess) {
      pieces_.emplace_back(at, bytes);
    }
    const CuResult released = own_driver().memory_release(handle);
    return mapped == CuResult::kSuccess ? released : mapped;
  }
  [[nodiscard]] CuResult give_access(CuDevice device) const {
    const CuAccessDescription access{.location = {.type = CuLocationType::kDevice, .id = device},
                                     .access = CuAccess::kReadWrite};
    return own_driver().memory_set_access(start_, bytes_, &access, 1);
  }
  [[nodiscard]] CuAddress start() const { return start_; }
  [[nodiscard]] Bytes bytes() const { return bytes_; }
  [[nodiscard]] bool is_whole() const { return end() == start_ + bytes_; }

 private:
  [[nodiscard]] CuAddress end() const {
    return pieces_.empty() ? start_ : pieces_.back().first + pieces_.back().second;
  }

  CuAddress start_ = 0;
  Bytes bytes_ = 0;
  std::vector<std::pair<CuAddress, Bytes>> pieces_;
};

struct Opened {
  Mapping mapping;
  CuAddress address = 0;  // that the program has
  std::uint32_t times = 0;
};

using Known = std::pair<std::uint64_t, std::uint64_t>;  // SharedHandle's token and number
struct Imports {
  Mutex mutex;
  std::map<Known, Opened> opened SPILLWAY_GUARDED_BY(mutex);
};
Imports& imports() {
  static auto* const it = new Imports;  // threads of the program may run until the very end
  return *it;
}

CuResult gone(const SharedHandle& handle, const Error& error) {
  say(fmt::format("memory of process {} cannot be opened: {}", handle.process, error.message));
  return CuResult::kInvalidHandle;
}

// All of it, or why not.
CuResult map_all(const SharedHandle& handle, CuDevice device, Opened& opened) {
  const Result<DescriptorClient> client =
      DescriptorClient::ask(handle.socket_name(), handle.number);
  if (!client) {
    return gone(handle, client.error());
  }
  Result<SharedDescriptor> piece = client->next();
  if (!piece) {
    return gone(handle, piece.error());
  }
  const Bytes offset_bytes = piece->words[2];
  CuResult result = opened.mapping.reserve(piece->words[1]);
  while (result == CuResult::kSuccess) {
    result = opened.mapping.add(piece->descriptor, piece->words[0]);
    if (result != CuResult::kSuccess || opened.mapping.is_whole()) {
      break;
    }
    piece = client->next();
    if (!piece) {
      return gone(handle, piece.error());
    }
  }
  if (result == CuResult::kSuccess) {
    result = opened.mapping.give_access(device);
  }
  opened.address = opened.mapping.start() + offset_bytes;
  return result;
}

}  // namespace

Bytes opened_bytes() {
  const MutexLock lock(imports().mutex);
  Bytes bytes = 0;
  for (const auto& [known, opened] : imports().opened) {
    bytes += opened.mapping.bytes();
  }
  return bytes;
}

CuResult open_shared(const SharedHandle& handle, CuAddress& address) {
  CuDevice device = 0;
  if (const CuResult current = real().cuCtxGetDevice(&device); current != CuResult::kSuccess) {
    return current;
  }
  if (handle.token == own_token()) {
    return CuResult::kInvalidContext;
  }
  const MutexLock lock(imports().mutex);
  const Known known{handle.token, handle.number};
  auto found = imports().opened.find(known);
  if (found == imports().opened.end()) {
    Opened opened;
    if (const CuResult result = map_all(handle, device, opened); result != CuResult::kSuccess) {
      return result;
    }
    found = imports().opened.emplace(known, std::move(opened)).first;
  }
  ++found->second.times;
  address = found->second.address;
  return CuResult::kSuccess;
}

std::optional<CuResult> close_shared(CuAddress address, WaitForDevice wait) {
  MutexLock lock(imports().mutex);
  auto& opened = imports().opened;
  const auto found = std::find_if(opened.begin(), opened.end(), [address](const auto& it) {
    return it.second.address == address;
  });
  if (found == opened.end()) {
    return std::nullopt;
  }
  if (--found->second.times > 0) {
    return CuResult::kSuccess;
  }
  const auto closed = opened.extract(found);
  lock.unlock();
  return wait();
}

}  // namespace spillway::cuda
