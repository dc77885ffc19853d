// Functions of CUDA's libraries that promise what their launches do with the program's memory: a
// launch within one is known by that. Matrix products of cuBLAS, so far (cublas_hooks.cc). Layer:
// front, cuda. docs/recomputing.md.
#pragma once

#include <optional>
#include <vector>

#include "front/cuda/fill_kernel.h"
#include "front/cuda/session.h"

namespace spillway::cuda {

// D = what A and B, and C and the bias where there are, make. Addresses of any memory; 0: there is
// none. Nothing else is used but the workspace, whose contents are nobody's.
struct MatrixProduct {
  CuAddress a = 0;
  CuAddress b = 0;
  CuAddress c = 0;  // 0 as well where it is not read
  CuAddress bias = 0;
  CuAddress d = 0;
  // From `d` on, if every byte is written and depends on nothing that stood there; else 0.
  Bytes made_bytes = 0;
  CuAddress workspace = 0;
  Bytes workspace_bytes = 0;
};

// One call of such a function, as long as it lasts: those within it on the same thread are its. Of
// one thread.
class LibraryCall {
 public:
  LibraryCall(const LibraryCall&) = delete;
  LibraryCall& operator=(const LibraryCall&) = delete;

  // The calling thread's innermost; nullptr: it is in none.
  [[nodiscard]] static LibraryCall* current() { return innermost; }

  // What is known of it; nullptr: nothing.
  [[nodiscard]] const MatrixProduct* product();
  // It has put this on a stream.
  void filled(const Fill& fill) { fills_.push_back(fill); }
  void launched() { ++launches_; }
  [[nodiscard]] const std::vector<Fill>& fills() const { return fills_; }
  // Kernels and whatever else is no memset.
  [[nodiscard]] unsigned launches() const { return launches_; }

 protected:
  LibraryCall() : outer_(innermost) { innermost = this; }
  ~LibraryCall() { innermost = outer_; }

 private:
  [[nodiscard]] virtual std::optional<MatrixProduct> describe() const = 0;

  __attribute__((tls_model("initial-exec"))) static constinit thread_local LibraryCall* innermost;
  LibraryCall* outer_;
  bool described_ = false;
  std::optional<MatrixProduct> product_;
  std::vector<Fill> fills_;
  unsigned launches_ = 0;
};

// `describe` is asked once, and only if a launch wants to know.
template <typename Describe>
class DescribedCall final : public LibraryCall {
 public:
  explicit DescribedCall(const Describe& describe) : describe_(describe) {}

 private:
  [[nodiscard]] std::optional<MatrixProduct> describe() const override { return describe_(); }
  const Describe& describe_;
};

// What the product only reads, and the launch has as its operands, is only read. `start`: of an
// operand's allocation.
[[nodiscard]] bool only_reads(const MatrixProduct& product, const Session& session,
                              CuAddress start);

// The workspace that the program has given a handle of cuBLAS.
struct Workspace {
  CuAddress address = 0;
  Bytes bytes = 0;
};
void set_workspace(const void* handle, const Workspace& workspace);
[[nodiscard]] Workspace workspace_of(const void* handle);

}  // namespace spillway::cuda
