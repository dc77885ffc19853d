// See mapped.h.
#include "mapped.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "mapped_calls.h"
#include "torch_reports.h"

namespace spillway::cuda::test {

void expandable_segments(const Device& device) {
  constexpr std::uint64_t kReserved = std::uint64_t{1} << 38U;
  const CuStream stream = device.stream();
  const CuAddress segment = reserve(device, kReserved);
  const CuAddress other = reserve(device, kReserved);
  for (std::uint64_t round = 0; round < 4; ++round) {
    for (std::uint64_t i = 0; i < 16; ++i) {
      map_piece(device, segment + i * kPiece);
    }
    map_piece(device, other, 4 * kMiB);
    // Across pieces, none of them at the beginning of one.
    std::vector<Buffer> buffers;
    for (std::uint64_t i = 0; i < 5; ++i) {
      buffers.push_back(buffer_at(segment + i * 6 * kMiB + 4096, 5 * kMiB));
      device.fill(buffers.back(), round + i, stream);
    }
    buffers.push_back(buffer_at(other, 4 * kMiB));
    device.fill(buffers.back(), 9, stream);
    press(device, stream);
    for (Buffer& buffer : buffers) {
      device.rewrite(buffer, buffer.seed + 50, stream);
    }
    // A copy and a memset across pieces.
    const CuAddress to = segment + 30 * kMiB - 8192;
    device.expect(device.calls.cuMemcpyDtoDAsync_v2(to, buffers[0].address, 16384, stream), "copy");
    device.expect(device.calls.cuMemsetD8Async(segment + 30 * kMiB, 0, 2 * kMiB, stream), "memset");
    for (Buffer& buffer : buffers) {
      device.check(buffer, stream);
    }
    device.synchronize(stream);
    // Some go, and come again at the same addresses.
    unmap(device, segment + 4 * kPiece, 4 * kPiece);
    for (std::uint64_t i = 4; i < 8; ++i) {
      map_piece(device, segment + i * kPiece);
    }
    Buffer again = buffer_at(segment + 4 * kPiece, 4 * kPiece);
    device.fill(again, 77, stream);
    press(device, stream);
    device.check(buffers[0], stream);
    device.check(again, stream);
    device.synchronize(stream);
    unmap(device, segment, 16 * kPiece);
    unmap(device, other, 4 * kMiB);
  }
  free_reserved(device, segment, kReserved);
  free_reserved(device, other, kReserved);
}

void growing_vector(const Device& device) {
  const CuStream stream = device.stream();
  std::vector<CuMemHandle> handles;
  CuAddress start = 0;
  std::uint64_t reserved = 0;
  for (std::uint64_t pieces = 1; pieces <= 12; ++pieces) {
    const std::uint64_t size = pieces * kPiece;
    if (size > reserved) {
      const std::uint64_t more = 2 * size;
      const CuAddress there = reserve(device, more);
      if (!handles.empty()) {
        device.synchronize(stream);
        unmap(device, start, (pieces - 1) * kPiece);
        for (std::uint64_t i = 0; i < handles.size(); ++i) {
          map(device, there + i * kPiece, kPiece, handles[i]);
        }
        free_reserved(device, start, reserved);
      }
      start = there;
      reserved = more;
    }
    handles.push_back(create(device, kPiece));
    map(device, start + size - kPiece, kPiece, handles.back());
    Buffer last = buffer_at(start + size - kPiece, kPiece);
    device.fill(last, pieces, stream);
    if (pieces % 3 == 0) {
      press(device, stream);
    }
    for (std::uint64_t i = 0; i < pieces; ++i) {
      Buffer piece = buffer_at(start + i * kPiece, kPiece);
      piece.seed = i + 1;
      device.check(piece, stream);
    }
  }
  device.synchronize(stream);
  // Over where they are, in another order: each has to make way for another.
  unmap(device, start, 12 * kPiece);
  std::reverse(handles.begin(), handles.end());
  for (std::uint64_t i = 0; i < handles.size(); ++i) {
    map(device, start + i * kPiece, kPiece, handles[i]);
    Buffer piece = buffer_at(start + i * kPiece, kPiece);
    piece.seed = 12 - i;
    device.check(piece, stream);
  }
  device.synchronize(stream);
  for (const CuMemHandle handle : handles) {
    release(device, handle);
  }
  unmap(device, start, 12 * kPiece);
  free_reserved(device, start, reserved);
}

void mapped_tables(const Device& device) {
  const CuStream stream = device.stream();
  const auto own = [&](std::uint64_t bytes) {
    const CuAddress address = reserve(device, bytes);
    map_piece(device, address, bytes);
    return buffer_at(address, bytes);
  };
  const Buffer table = own(kPiece);
  // What the table names lies across two pieces.
  const CuAddress start = reserve(device, 3 * kPiece);
  for (std::uint64_t i = 0; i < 3; ++i) {
    map_piece(device, start + i * kPiece);
  }
  Buffer named = buffer_at(start + kMiB, 4 * kMiB);
  device.fill(named, 3, stream);
  const std::array<std::uint64_t, 1> words{named.address};
  device.expect(device.calls.cuMemcpyHtoD_v2(table.address, words.data(), sizeof words), "copy");
  press(device, stream);
  device.add_listed(table, 1, named.words, stream);
  press(device, stream);
  device.synchronize(stream);
  const std::vector<std::uint64_t> found = device.words_of(named);
  for (std::uint64_t i = 0; i < found.size(); ++i) {
    device.require(found[i] == pattern(3, i) + 1, "what a table names");
  }
}

void mapped_questions(const Device& device) {
  const Calls& calls = device.calls;
  const CuResult invalid = CuResult::kInvalidValue;
  CuAllocationProperties shared = plain();
  shared.exported_as = CuHandleType::kFileDescriptor;
  const CuAddress start = reserve(device, 8 * kPiece);
  std::size_t free_before = 0;
  std::size_t total = 0;
  device.expect(calls.cuMemGetInfo_v2(&free_before, &total), "cuMemGetInfo");
  const CuMemHandle handle = create(device, 2 * kPiece, shared);
  std::size_t free_behind = 0;
  device.expect(calls.cuMemGetInfo_v2(&free_behind, &total), "cuMemGetInfo");
  device.require(free_before - free_behind == 2 * kPiece, "what a handle takes");
  map(device, start + kPiece, 2 * kPiece, handle);

  CuMemoryType type{};
  device.expect(
      calls.cuPointerGetAttribute(&type, CuPointerAttribute::kMemoryType, start + 2 * kPiece),
      "cuPointerGetAttribute");
  device.require(type == CuMemoryType::kDevice, "the kind of memory");
  CuAddress begin = 0;
  std::size_t bytes = 0;
  device.expect(calls.cuMemGetAddressRange_v2(&begin, &bytes, start + 2 * kPiece + 8),
                "cuMemGetAddressRange");
  device.require(begin == start + kPiece && bytes == 2 * kPiece, "the range of an address");
  device.expect(
      calls.cuPointerGetAttribute(&begin, CuPointerAttribute::kRangeStart, start + 2 * kPiece + 8),
      "cuPointerGetAttribute");
  device.require(begin == start, "the reservation of an address");
  unsigned long long access = 0;
  device.expect(calls.cuMemGetAccess(&access, &kOwn.location, start + kPiece), "cuMemGetAccess");
  device.require(access == static_cast<unsigned>(CuAccess::kReadWrite), "access");
  CuMemHandle retained = 0;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): as the driver wants it
  auto* const pointer = reinterpret_cast<void*>(start + 2 * kPiece);
  device.expect(calls.cuMemRetainAllocationHandle(&retained, pointer), "cuMemRetain");
  device.require(retained == handle, "the handle of an address");
  CuAllocationProperties told{};
  device.expect(calls.cuMemGetAllocationPropertiesFromHandle(&told, handle), "properties");
  device.require(told.exported_as == CuHandleType::kFileDescriptor, "what a handle was made with");

  const CuMemHandle other = create(device, 2 * kPiece);
  const auto refused = [&](CuAddress at, std::uint64_t size, std::uint64_t offset,
                           CuMemHandle which) {
    return calls.cuMemMap(at, size, offset, which, 0);
  };
  device.expect(refused(start + 2 * kPiece, 2 * kPiece, 0, other), "over a map", invalid);
  device.expect(refused(start, 2 * kPiece, 0, other), "into a map", invalid);
  device.expect(refused(start + 7 * kPiece, 2 * kPiece, 0, other), "beyond the end", invalid);
  device.expect(refused(start + 4 * kPiece + 4096, 2 * kPiece, 0, other), "not aligned", invalid);
  device.expect(refused(start + 4 * kPiece, kPiece, kPiece, other), "a part",
                CuResult::kNotSupported);
  device.expect(refused(start + 4 * kPiece, kPiece, 0, other), "a part", CuResult::kNotSupported);
  device.expect(calls.cuMemUnmap(start + kPiece, kPiece), "a part of a map", invalid);
  device.expect(calls.cuMemUnmap(start, 3 * kPiece), "with a gap", invalid);
  device.expect(calls.cuMemSetAccess(start, 3 * kPiece, &kOwn, 1), "with a gap", invalid);
  device.expect(calls.cuMemAddressFree(start, 8 * kPiece), "what is mapped", invalid);
  device.expect(calls.cuMemAddressFree(start, 4 * kPiece), "another size", invalid);
  CuMemHandle none = 0;
  const CuAllocationProperties properties = plain();
  device.expect(calls.cuMemCreate(&none, kPiece + 4096, &properties, 0), "cuMemCreate", invalid);
  device.expect(calls.cuMemCreate(&none, std::uint64_t{1} << 45U, &properties, 0), "cuMemCreate",
                CuResult::kOutOfMemory);
  CuAllocationProperties fabric = plain();
  fabric.exported_as = static_cast<CuHandleType>(8 | 1);
  device.expect(calls.cuMemCreate(&none, kPiece, &fabric, 0), "cuMemCreate",
                CuResult::kNotPermitted);

  release(device, other);
  device.expect(calls.cuMemRelease(other), "released twice", invalid);
  release(device, retained);
  release(device, handle);
  device.expect(calls.cuMemRelease(handle), "released twice", invalid);
  unmap(device, start + kPiece, 2 * kPiece);
  device.expect(calls.cuMemGetInfo_v2(&free_behind, &total), "cuMemGetInfo");
  device.require(free_before == free_behind, "what is free behind all");
  free_reserved(device, start, 8 * kPiece);
}

void mapped_by_the_driver(const Device& device) {
  const CuStream stream = device.stream();
  CuAllocationProperties shared = plain();
  shared.exported_as = CuHandleType::kFileDescriptor;
  const CuAddress start = reserve(device, 8 * kPiece);
  const CuMemHandle handle = create(device, kPiece);
  map(device, start, kPiece, handle);
  Buffer first = buffer_at(start, kPiece);
  device.fill(first, 5, stream);
  press(device, stream);
  device.synchronize(stream);
  // Written at one address, read at the other.
  map(device, start + 2 * kPiece, kPiece, handle);
  Buffer second = buffer_at(start + 2 * kPiece, kPiece);
  second.seed = 5;
  device.rewrite(second, 6, stream);
  first.seed = 6;
  device.check(first, stream);
  // Exported while it is mapped, and while it is not.
  const CuMemHandle mapped = create(device, kPiece, shared);
  map(device, start + 4 * kPiece, kPiece, mapped);
  Buffer third = buffer_at(start + 4 * kPiece, kPiece);
  device.fill(third, 8, stream);
  const CuMemHandle hidden = create(device, kPiece, shared);
  map(device, start + 6 * kPiece, kPiece, hidden);
  Buffer fourth = buffer_at(start + 6 * kPiece, kPiece);
  device.fill(fourth, 9, stream);
  device.synchronize(stream);
  unmap(device, start + 6 * kPiece, kPiece);
  int shareable = 0;
  for (const CuMemHandle it : {mapped, hidden}) {
    device.expect(
        device.calls.cuMemExportToShareableHandle(&shareable, it, CuHandleType::kFileDescriptor, 0),
        "cuMemExportToShareableHandle");
  }
  press(device, stream);
  device.check(third, stream);
  map(device, start + 6 * kPiece, kPiece, hidden);
  device.check(fourth, stream);
  device.synchronize(stream);
  for (const CuMemHandle it : {handle, mapped, hidden}) {
    release(device, it);
  }
  unmap(device, start, kPiece);
  device.check(second, stream);
  device.synchronize(stream);
  unmap(device, start + 2 * kPiece, kPiece);
  unmap(device, start + 4 * kPiece, kPiece);
  unmap(device, start + 6 * kPiece, kPiece);
  // Where the driver's was, ours may lie again.
  map_piece(device, start + 2 * kPiece);
  device.fill(second, 3, stream);
  device.check(second, stream);
  device.synchronize(stream);
  unmap(device, start + 2 * kPiece, kPiece);
  free_reserved(device, start, 8 * kPiece);
}

namespace {

// As a call of a library by that name.
class Library {
 public:
  Library(const Device& device, const char* file, const char* plugin = SPILLWAY_PLUGIN)
      : device_(device) {
    std::filesystem::copy_file(plugin, file, std::filesystem::copy_options::overwrite_existing);
    void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
    device.require(library != nullptr, "a library by that name");
    call_with_ = reinterpret_cast<unsigned (*)(void*, void*, unsigned long, const void*)>(
        ::dlsym(library, "call_with"));
    most_divided_ = reinterpret_cast<const char* (*)()>(::dlsym(library, "most_divided"));
    shared_ = reinterpret_cast<const char* (*)()>(::dlsym(library, "shared_segment"));
    rounding_ = reinterpret_cast<const char* (*)()>(::dlsym(library, "rounding"));
  }
  // MiB.
  [[nodiscard]] std::string most_divided() const { return most_divided_(); }
  [[nodiscard]] std::string shared_segment() const { return shared_(); }
  [[nodiscard]] std::string rounding() const { return rounding_(); }
  CuMemHandle create(std::uint64_t bytes, CuResult expected = CuResult::kSuccess) const {
    CuMemHandle handle = 0;
    const CuAllocationProperties properties = plain();
    device_.expect(
        static_cast<CuResult>(call_with_(reinterpret_cast<void*>(device_.calls.cuMemCreate),
                                         &handle, bytes, &properties)),
        "cuMemCreate", expected);
    return handle;
  }
  CuAddress reserve(std::uint64_t bytes) const {
    CuAddress address = 0;
    device_.expect(
        static_cast<CuResult>(call_with_(reinterpret_cast<void*>(device_.calls.cuMemAddressReserve),
                                         &address, bytes, nullptr)),
        "cuMemAddressReserve");
    return address;
  }

 private:
  const Device& device_;
  unsigned (*call_with_)(void*, void*, unsigned long, const void*) = nullptr;
  const char* (*most_divided_)() = nullptr;
  const char* (*shared_)() = nullptr;
  const char* (*rounding_)() = nullptr;
};

}  // namespace

void mapped_by_nccl(const Device& device) {
  const CuStream stream = device.stream();
  const CuAddress start = reserve(device, 2 * kPiece);
  const CuMemHandle handle = Library(device, "./libnccl.so.2").create(kPiece);
  map(device, start, kPiece, handle);
  Buffer buffer = buffer_at(start, kPiece);
  device.fill(buffer, 4, stream);
  press(device, stream);
  device.check(buffer, stream);
  device.synchronize(stream);
  release(device, handle);
  unmap(device, start, kPiece);
  free_reserved(device, start, 2 * kPiece);
}

void never_full_reservations(const Device& device) {
  const CuStream stream = device.stream();
  const Library torch(device, "./libc10_cuda.so");
  const std::array<CuAddress, 2> starts{torch.reserve(4 * kPiece), torch.reserve(4 * kPiece)};
  // Others may fill what is theirs.
  const CuAddress others = reserve(device, kPiece);
  map_piece(device, others);
  // What is made and mapped nowhere may come to lie in either.
  std::vector<CuMemHandle> handles;
  for (int i = 0; i < 3; ++i) {
    handles.push_back(torch.create(kPiece));
  }
  (void)torch.create(kPiece, CuResult::kOutOfMemory);
  // Anybody else's does not.
  const CuMemHandle anybodys = create(device, kPiece);
  for (std::uint64_t i = 0; i < 2; ++i) {
    map(device, starts[0] + i * kPiece, kPiece, handles[i]);
  }
  release(device, anybodys);
  release(device, handles[2]);
  // Both together have as much as one may not have.
  for (std::uint64_t i = 0; i < 2; ++i) {
    const CuMemHandle handle = torch.create(kPiece);
    map(device, starts[1] + i * kPiece, kPiece, handle);
    release(device, handle);
    release(device, handles[i]);
  }
  Buffer buffer = buffer_at(starts[0], 2 * kPiece);
  device.fill(buffer, 5, stream);
  device.check(buffer, stream);
  device.synchronize(stream);
  // One that was put elsewhere counts where it is.
  const CuMemHandle last = torch.create(kPiece);
  map(device, starts[0] + 2 * kPiece, kPiece, last);
  (void)torch.create(kPiece, CuResult::kOutOfMemory);
  unmap(device, starts[0] + 2 * kPiece, kPiece);
  (void)torch.create(kPiece, CuResult::kOutOfMemory);
  release(device, last);
  release(device, torch.create(kPiece));
  unmap(device, others, kPiece);
  for (const CuAddress start : starts) {
    unmap(device, start, 2 * kPiece);
    free_reserved(device, start, 4 * kPiece);
  }
  release(device, torch.create(8 * kPiece));
  free_reserved(device, others, kPiece);
}

namespace {

CuAddress segment(const Device& device, std::uint64_t bytes) {
  CuAddress address = 0;
  device.expect(device.calls.cuMemAlloc_v2(&address, bytes), "cuMemAlloc");
  return address;
}

// The program has more than half of its budget.
void fill_half(const Device& device) {
  reinterpret_cast<void (*)()>(::dlsym(RTLD_DEFAULT, "spillway_watches_memory_fraction"))();
  report_tensor(device, segment(device, 2 * kMiB), kMiB);
  (void)segment(device, 8 * kMiB);
}

}  // namespace

void divided_again(const Device& device) {
  const Library torch(device, "./libc10_cuda.so");
  fill_half(device);
  device.require(torch.most_divided() == "21", "segments are whole");
  const CuAddress start = torch.reserve(2 * kPiece);
  (void)torch.create(kPiece);
  (void)torch.create(kPiece, CuResult::kOutOfMemory);
  device.require(torch.most_divided() != "21", "divided where a reservation would be full");
  (void)segment(device, 2 * kMiB);
  device.require(torch.most_divided() == "21", "segments are whole again");
  free_reserved(device, start, 2 * kPiece);
  (void)torch.create(std::uint64_t{1} << 40, CuResult::kOutOfMemory);
  device.require(torch.most_divided() != "21", "divided where there is no memory");
}

void divided_less(const Device& device) {
  const Library torch(device, "./libc10_cuda.so", SPILLWAY_NEWER_PLUGIN);
  fill_half(device);
  device.require(
      torch.most_divided() == "11" && torch.shared_segment() == "10" && torch.rounding() == "4",
      "segments are hardly larger than what they are for");
  (void)torch.create(std::uint64_t{1} << 40, CuResult::kOutOfMemory);
  device.require(torch.most_divided() == "2000000000" && torch.shared_segment() == "20" &&
                     torch.rounding() == "20",
                 "as it was where there is no memory");
}

void mapped_graphs(const Device& device) {
  const CuStream stream = device.stream();
  const CuAddress start = reserve(device, 8 * kPiece);
  for (std::uint64_t i = 0; i < 4; ++i) {
    map_piece(device, start + i * kPiece);
  }
  Buffer sum = buffer_at(start + kMiB, 4 * kMiB);
  Buffer step = device.allocate(4 * kMiB, stream);
  device.fill(step, 2, stream);
  device.expect(device.calls.cuStreamBeginCapture_v2(stream, 0), "cuStreamBeginCapture");
  device.add(sum, step, stream);
  CuGraph graph = nullptr;
  device.expect(device.calls.cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
  CuGraphExec exec = nullptr;
  device.expect(device.calls.cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
  for (std::uint64_t round = 0; round < 3; ++round) {
    device.fill(sum, round, stream);
    press(device, stream);
    device.expect(device.calls.cuGraphLaunch(exec, stream), "cuGraphLaunch");
    press(device, stream);
    device.synchronize(stream);
    const std::vector<std::uint64_t> words = device.words_of(sum);
    for (std::uint64_t i = 0; i < words.size(); ++i) {
      device.require(words[i] == pattern(round, i) + pattern(2, i), "a word that a graph wrote");
    }
    // Asleep and awake again, in pieces of another size.
    unmap(device, start, 4 * kPiece);
    const std::uint64_t piece = round % 2 == 0 ? 4 * kPiece : kPiece;
    for (std::uint64_t at = 0; at < 4 * kPiece; at += piece) {
      map_piece(device, start + at, piece);
    }
  }
  device.expect(device.calls.cuGraphExecDestroy(exec), "cuGraphExecDestroy");
}

void random_mapped(const Device& device) {
  constexpr std::uint64_t kSlots = 20;
  struct Piece {
    CuMemHandle handle = 0;
    std::uint64_t slots = 0;
    std::optional<std::uint64_t> at{};  // slot
    bool released = false;
    std::uint64_t seed = 0;
  };
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    std::mt19937_64 dice(seed);
    const auto below = [&](std::uint64_t end) { return dice() % end; };
    const std::array<CuStream, 3> streams{device.stream(), device.stream(), nullptr};
    const CuAddress start = reserve(device, kSlots * kPiece);
    std::vector<Piece> pieces;
    const auto buffer_of = [&](const Piece& piece) {
      Buffer buffer = buffer_at(start + *piece.at * kPiece, piece.slots * kPiece);
      buffer.seed = piece.seed;
      return buffer;
    };
    const auto is_free = [&](std::uint64_t slot, std::uint64_t slots) {
      return slot + slots <= kSlots &&
             std::none_of(pieces.begin(), pieces.end(), [&](const Piece& it) {
               return it.at && *it.at < slot + slots && slot < *it.at + it.slots;
             });
    };
    const auto synchronize_all = [&] {
      for (const CuStream stream : streams) {
        device.synchronize(stream);
      }
    };
    const auto all_slots = [&] {
      std::uint64_t sum = 0;
      for (const Piece& it : pieces) {
        sum += it.slots;
      }
      return sum;
    };
    for (int step = 0; step < 150; ++step) {
      const std::uint64_t die = below(12);
      const CuStream stream = streams[below(3)];
      if (die < 3 && all_slots() < 2 * kSlots) {
        Piece made;
        made.slots = 1 + below(3);
        made.handle = create(device, made.slots * kPiece);
        pieces.push_back(made);
      }
      if (pieces.empty()) {
        continue;
      }
      Piece& piece = pieces[below(pieces.size())];
      if (!piece.at) {
        const std::uint64_t slot = below(kSlots);
        if (is_free(slot, piece.slots)) {
          const bool is_new = piece.seed == 0;
          map(device, start + slot * kPiece, piece.slots * kPiece, piece.handle);
          piece.at = slot;
          Buffer buffer = buffer_of(piece);
          if (is_new) {
            piece.seed = 1 + below(1000);
            device.fill(buffer, piece.seed, stream);
          } else {
            device.check(buffer, stream);
          }
          device.synchronize(stream);
          if (below(3) == 0) {
            release(device, piece.handle);
            piece.released = true;
          }
        }
      } else if (die < 7) {
        Buffer buffer = buffer_of(piece);
        piece.seed = 1 + below(1000);
        device.rewrite(buffer, piece.seed, stream);
        if (below(4) == 0) {
          press(device, stream);
        }
        device.synchronize(stream);
      } else if (die < 10) {
        synchronize_all();
        Buffer buffer = buffer_of(piece);
        device.check(buffer, stream);
        device.synchronize(stream);
        unmap(device, buffer.address, piece.slots * kPiece);
        piece.at.reset();
        if (piece.released) {
          std::swap(piece, pieces.back());
          pieces.pop_back();
        }
      }
    }
    for (Piece& piece : pieces) {
      if (piece.at) {
        Buffer buffer = buffer_of(piece);
        device.check(buffer, nullptr);
        device.synchronize(nullptr);
        unmap(device, buffer.address, piece.slots * kPiece);
      }
      if (!piece.released) {
        release(device, piece.handle);
      }
    }
    free_reserved(device, start, kSlots * kPiece);
  }
}

}  // namespace spillway::cuda::test
