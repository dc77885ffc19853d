// What makes a trace well formed, checked record by record so that readers can stream.
// Layer: trace.
//
// Besides limits and ids, this checks lifetimes. An intermediate tensor (neither persistent nor
// scratch) is either an input, which kernels read and perhaps update in place, or it is written
// before it is read. A kernel that writes a tensor without reading it makes its contents; if an
// earlier kernel has read the tensor and none has written it, that reader needs contents that are
// made after it: a cycle in lifetimes. Recorded lifetimes must be in order (birth before death) and
// exact; a scratch tensor belongs to one kernel.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "trace/trace.h"
#include "trace/visitor.h"

namespace spillway {

// True where a name is UTF-8 without control characters: what fits in one line of an error message
// and survives JSON.
[[nodiscard]] bool is_plain_text(std::string_view text);

// Messages say the place inside the trace (kernels[12].reads[3]) and what is wrong; the caller
// puts the file before it. All errors are kInvalidInput. After an error, use no further.
class TraceChecker {
 public:
  [[nodiscard]] Status header(const TraceHeader& header) const;
  [[nodiscard]] Status tensor(const Tensor& tensor,
                              const std::optional<RecordedLifetime>& lifetime);
  [[nodiscard]] Status kernel(const Kernel& kernel);
  // After the last kernel.
  [[nodiscard]] Status finish() const;

  [[nodiscard]] std::uint64_t tensor_count() const { return states_.size(); }
  [[nodiscard]] std::uint64_t kernel_count() const { return kernel_count_; }

 private:
  static constexpr KernelIndex kNever = std::numeric_limits<KernelIndex>::max();

  struct State {
    bool persistent = false;
    bool scratch = false;
    bool recorded = false;  // birth and death are known
    KernelIndex birth = 0;
    KernelIndex death = 0;
    KernelIndex first_use = kNever;
    KernelIndex last_read = kNever;
    KernelIndex last_write = kNever;
  };

  Status access(std::string_view list, std::size_t position, TensorId id);
  Status check_use(std::string_view list, std::size_t position, TensorId id);

  std::vector<State> states_;  // by tensor id
  std::uint64_t kernel_count_ = 0;
  std::uint64_t access_count_ = 0;
  std::uint64_t text_bytes_ = 0;
};

}  // namespace spillway
