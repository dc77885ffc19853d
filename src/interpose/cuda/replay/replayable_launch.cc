// See replayable_launch.h.
#include "interpose/cuda/replay/replayable_launch.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "engine/launches/recomputable.h"
#include "interpose/cuda/kernels/copy_kernel.h"
#include "interpose/cuda/kernels/fill_kernel.h"

namespace spillway::cuda {
namespace {

// Addresses that are others when it is launched again.
struct Moved {
  CuAddress from = 0;
  Bytes bytes = 0;
  CuAddress to = 0;

  [[nodiscard]] bool has(CuAddress address) const {
    return address >= from && address - from < bytes;
  }
};

class LaunchAgain final : public Relaunch {
 public:
  LaunchAgain(const Keeping& keeping, const LaunchShape& shape, const ProgramLaunch& launch)
      : kernel_(shape, launch.kernel, launch.parameters, launch.block), copy_(keeping.copy) {
    // Another launch stands before it then.
    std::copy_if(shape.attributes.begin(), shape.attributes.end(), std::back_inserter(attributes_),
                 [](const CuLaunchAttribute& it) { return it.id != kCuAttributeStartsEarly; });
    move_addresses(keeping, launch);
  }

  [[nodiscard]] CuResult launch(CuStream stream) const override {
    for (const Fill& fill : fills_) {
      if (const CuResult filled = launch_fill(fill, stream); filled != CuResult::kSuccess) {
        return filled;
      }
    }
    return kernel_.launch(stream, attributes_);
  }

 private:
  void move_addresses(const Keeping& keeping, const ProgramLaunch& launch) {
    std::vector<Moved> moved;
    if (keeping.workspace != 0) {
      const MatrixProduct& product = *launch.library->product();
      moved.push_back({product.workspace, product.workspace_bytes, keeping.workspace});
    }
    if (keeping.copy != nullptr) {
      moved.push_back({keeping.small.address, keeping.small.bytes, keeping.copy->address()});
    }
    const std::span<std::byte> block = kernel_.block();
    for (const Moved& it : moved) {
      for (std::size_t offset = 0; offset + sizeof(CuAddress) <= block.size();
           offset += sizeof(CuAddress)) {
        CuAddress word = 0;
        std::memcpy(&word, &block[offset], sizeof word);
        if (it.has(word)) {
          word = it.to + (word - it.from);
          std::memcpy(&block[offset], &word, sizeof word);
        }
      }
    }
    if (keeping.workspace != 0) {
      fills_ = launch.library->filled();
      for (Fill& fill : fills_) {
        fill.to = moved.front().to + (fill.to - moved.front().from);
      }
    }
  }

  StoredLaunch kernel_;
  std::vector<CuLaunchAttribute> attributes_;
  std::vector<Fill> fills_;  // before it
  std::shared_ptr<const SmallCopy> copy_;
};

// Whether some word of the functor may be an address, of whatever memory: numbers that programs
// have there seldom look like one.
bool holds_address(const KernelLayout& kernel, void* const* parameters) {
  constexpr std::uint64_t kFirst = std::uint64_t{1} << 16U;
  constexpr std::uint64_t kEnd = std::uint64_t{1} << 47U;
  const std::size_t bytes = kernel.parameters[ReadOnlyParameters::kFunctor].bytes;
  const auto* const functor =
      static_cast<const std::byte*>(parameters[ReadOnlyParameters::kFunctor]);
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= bytes; at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, functor + at, sizeof word);
    if (word >= kFirst && word < kEnd) {
      return true;
    }
  }
  return false;
}

// Whatever decides which bytes it writes.
std::uint64_t kind_of(const Session& session, const Keeping& keeping, const LaunchShape& shape,
                      const ProgramLaunch& launch) {
  std::string all;
  const auto add = [&all](const void* bytes, std::size_t count) {
    all.append(static_cast<const char*>(bytes), count);
  };
  const KernelLayout& kernel = launch.kernel;
  add(&kernel.hash, sizeof kernel.hash);
  add(&keeping.makes.bytes, sizeof keeping.makes.bytes);
  for (const CudaOperand& read : keeping.reads) {
    // A segment may be larger than its tensor, each time by something else.
    const Bytes bytes = session.segments->asked_at_once(read.address).value_or(read.bytes);
    add(&bytes, sizeof bytes);
  }
  add(&keeping.small.bytes, sizeof keeping.small.bytes);
  add(&shape.shared_bytes, sizeof shape.shared_bytes);
  for (const CuLaunchAttribute& attribute : shape.attributes) {
    constexpr std::size_t kLargestValue = 3 * sizeof(unsigned);  // of those that are known
    add(&attribute.id, sizeof attribute.id);
    add(attribute.value, attribute.id == kCuAttributeClusterSize ? kLargestValue : 0);
  }
  if (keeping.workspace != 0) {
    for (const Fill& fill : launch.library->filled()) {
      const std::uint64_t offset = fill.to - launch.library->product()->workspace;
      add(&offset, sizeof offset);
      add(&fill.bytes, sizeof fill.bytes);
    }
  }
  for (const unsigned count :
       {shape.grid_x, shape.grid_y, shape.grid_z, shape.block_x, shape.block_y, shape.block_z}) {
    add(&count, sizeof count);
  }
  // A product's parameters hold addresses, and it has promised.
  for (std::size_t i = 0; kernel.reads && i < kernel.parameters.size(); ++i) {
    // Structures without members take a byte, which holds anything.
    if (i != ReadOnlyParameters::kFunctor && i != kernel.reads->parameter &&
        kernel.parameters[i].bytes > 1) {
      add(launch.parameters[i], kernel.parameters[i].bytes);
    }
  }
  return hash_launch(all, {}).first;
}

// All that the program has asked for there; nullopt: it is not to be had at once.
std::optional<CudaOperand> asked_for(const Session& session, const CudaOperand& result) {
  std::optional<Bytes> bytes = session.segments->asked_alone_at_once(result.address);
  if (bytes == Bytes{0}) {
    bytes = session.heap->bytes_of_at_once(result.address);
  }
  return bytes ? std::optional<CudaOperand>(
                     {.address = result.address, .bytes = *bytes, .mode = result.mode})
               : std::nullopt;
}

// --- PyTorch's pointwise kernels ----------------------------------------------------------------

std::optional<Keeping> pointwise(const Session& session, const ProgramLaunch& launch) {
  const auto written = [](const CudaOperand& operand) { return writes(operand.mode); };
  const std::span<const CudaOperand> operands = launch.operands;
  const auto result = std::find_if(operands.begin(), operands.end(), written);
  const ReadOnlyParameters reads = launch.kernel.reads.value_or(ReadOnlyParameters{});
  if (!reads.of_pytorch || launch.parameters == nullptr || result == operands.end() ||
      std::any_of(result + 1, operands.end(), written) ||
      holds_address(launch.kernel, launch.parameters)) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < reads.pointers; ++i) {
    std::uint64_t address = 0;
    std::memcpy(
        &address,
        static_cast<const std::byte*>(launch.parameters[reads.parameter]) + i * sizeof address,
        sizeof address);
    const bool in_result = address >= result->address && address < result->address + result->bytes;
    // What is not the space's could change without our knowledge.
    if (in_result != (i == 0) || (i == 0 && address != result->address) ||
        !session.platform->memory().allocation_of(address)) {
      return std::nullopt;
    }
  }
  const std::optional<CudaOperand> makes = asked_for(session, *result);
  if (!makes) {
    return std::nullopt;
  }
  Keeping keeping;
  keeping.makes = *makes;
  std::copy_if(operands.begin(), operands.end(), std::back_inserter(keeping.reads),
               [&](const CudaOperand& it) { return it.address != makes->address; });
  return keeping;
}

// --- Matrix products ----------------------------------------------------------------------------

// Whether some word of these bytes, which lie there in the block of parameters, is an address of
// the operand.
bool names(const std::byte* bytes, std::size_t offset, std::size_t count,
           const CudaOperand& operand) {
  const Moved range{.from = operand.address, .bytes = operand.bytes, .to = 0};
  for (std::size_t at = round_up(offset, sizeof(CuAddress)) - offset;
       at + sizeof(CuAddress) <= count; at += sizeof(CuAddress)) {
    CuAddress word = 0;
    std::memcpy(&word, bytes + at, sizeof word);
    if (range.has(word)) {
      return true;
    }
  }
  return false;
}

bool names(const ProgramLaunch& launch, const CudaOperand& operand) {
  bool named = names(launch.block.data(), 0, launch.block.size(), operand);
  for (std::size_t i = 0; launch.parameters != nullptr && i < launch.kernel.parameters.size();
       ++i) {
    const KernelLayout::Parameter& parameter = launch.kernel.parameters[i];
    named = named || names(static_cast<const std::byte*>(launch.parameters[i]), parameter.offset,
                           parameter.bytes, operand);
  }
  return named;
}

// Where the operand starts that holds the address; 0: none does.
CuAddress start_of(const ProgramLaunch& launch, CuAddress address) {
  const auto operand = std::find_if(
      launch.operands.begin(), launch.operands.end(), [address](const CudaOperand& it) {
        return address >= it.address && address - it.address < it.bytes;
      });
  return operand != launch.operands.end() ? operand->address : CuAddress{0};
}

// Whether all that the product reads is among these.
bool has_factors(const MatrixProduct& product, const ProgramLaunch& launch,
                 const std::vector<CudaOperand>& reads) {
  const auto has = [&](CuAddress address) {
    return std::any_of(
        reads.begin(), reads.end(),
        [start = start_of(launch, address)](const CudaOperand& it) { return it.address == start; });
  };
  return has(product.a) && has(product.b) && (product.c == 0 || has(product.c)) &&
         (product.bias == 0 || has(product.bias));
}

// A workspace of ours for the stored launch, which fills it as the program's was; 0: there is none,
// or what was filled is no part of the program's workspace.
CuAddress workspace_instead(const Session& session, const MatrixProduct& product,
                            const ProgramLaunch& launch) {
  const Moved workspace{.from = product.workspace, .bytes = product.workspace_bytes, .to = 0};
  const std::vector<Fill>& fills = launch.library->filled();
  const bool within = std::all_of(fills.begin(), fills.end(), [&](const Fill& fill) {
    return workspace.has(fill.to) && fill.bytes <= workspace.bytes - (fill.to - workspace.from);
  });
  return within && has_fill_kernel() ? own_workspace(session, launch.stream, workspace.bytes)
                                     : CuAddress{0};
}

// Of a small bias the stored launch reads a copy. One whose address is encoded, or for which there
// is no place, stays the program's.
void copy_small_bias(const Session& session, const MatrixProduct& product,
                     const ProgramLaunch& launch, Keeping& keeping) {
  if (product.bias == 0 || !has_copy_kernel()) {
    return;
  }
  const auto is_in = [&](const CudaOperand& it, CuAddress address) {
    return it.address == start_of(launch, address);
  };
  const auto holder =
      std::find_if(keeping.reads.begin(), keeping.reads.end(), [&](const CudaOperand& it) {
        return is_in(it, product.bias) && !is_in(it, product.a) && !is_in(it, product.b) &&
               !is_in(it, product.c);
      });
  if (holder == keeping.reads.end() || holder->bytes > kMostCopiedBytes ||
      !names(launch, *holder)) {
    return;
  }
  keeping.copy = place_for_copy(session, launch.stream, holder->bytes);
  if (keeping.copy != nullptr) {
    keeping.small = *holder;
    keeping.reads.erase(holder);
  }
}

// What it was given is the product's, and all of it: the first kernel of a product that has one
// reads both factors. Then what it needs of ours.
std::optional<Keeping> product(const Session& session, const ProgramLaunch& launch) {
  const MatrixProduct* const product = launch.library->product();
  const bool given = launch.parameters != nullptr ? launch.kernel.known && launch.block.empty()
                                                  : !launch.block.empty();
  if (product == nullptr || product->made_bytes == 0 || !given || is_per_thread(launch.stream)) {
    return std::nullopt;
  }
  Keeping keeping;
  bool uses_workspace = !launch.library->filled().empty();
  for (const CudaOperand& operand : launch.operands) {
    if (operand.address == start_of(launch, product->d)) {
      keeping.makes = operand;
    } else if (only_reads(*product, operand)) {
      keeping.reads.push_back(operand);
    } else if (operand.address == start_of(launch, product->workspace) && names(launch, operand)) {
      uses_workspace = true;
    } else {
      return std::nullopt;
    }
  }
  const std::optional<CudaOperand> makes = asked_for(session, keeping.makes);
  if (!makes || makes->address != product->d || makes->bytes != product->made_bytes ||
      !has_factors(*product, launch, keeping.reads)) {
    return std::nullopt;
  }
  keeping.makes = *makes;
  if (uses_workspace) {
    keeping.workspace = workspace_instead(session, *product, launch);
    if (keeping.workspace == 0) {
      return std::nullopt;
    }
  }
  copy_small_bias(session, *product, launch, keeping);
  return keeping;
}

// What lies at addresses that the program has reserved may get another, and be in more than one
// allocation.
bool uses_reserved(const Session& session, const Keeping& keeping) {
  const auto is_reserved = [&](const CudaOperand& it) {
    return !session.platform->placed().all_beside(it.address).empty();
  };
  return session.platform->placed().has_reserved() &&
         (is_reserved(keeping.makes) ||
          std::any_of(keeping.reads.begin(), keeping.reads.end(), is_reserved));
}

}  // namespace

std::optional<Keeping> may_keep(const Session& session, const ProgramLaunch& launch) {
  if (launch.kernel.reads || launch.library != nullptr) {
    std::optional<Keeping> keeping =
        launch.kernel.reads ? pointwise(session, launch) : product(session, launch);
    return keeping && !uses_reserved(session, *keeping) ? std::move(keeping) : std::nullopt;
  }
  return std::nullopt;
}

ReplayableLaunch keep_launch(const Session& session, const Keeping& keeping,
                             const LaunchShape& shape, const ProgramLaunch& launch) {
  return {.makes = keeping.makes,
          .reads = keeping.reads,
          .kind = kind_of(session, keeping, shape, launch),
          .whole = !launch.kernel.reads,
          .on_its_stream = keeping.workspace != 0 || keeping.copy != nullptr,
          .how = std::make_shared<const LaunchAgain>(keeping, shape, launch)};
}

// Nobody else has the copy if the launch has not been kept.
bool put_behind(const Keeping& keeping, CuStream stream) {
  return keeping.copy == nullptr || keeping.copy.use_count() == 1 ||
         launch_copy(keeping.small.address, keeping.copy->address(), keeping.small.bytes, stream) ==
             CuResult::kSuccess;
}

}  // namespace spillway::cuda
