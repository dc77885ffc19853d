// Functions of CUDA's libraries that promise what their launches do with the program's memory: a
// launch within one is known by that. Matrix products of cuBLAS, so far (cublas_hooks.cc). Layer:
// interpose, cuda. docs/cuda.md.
#pragma once

#include <optional>
#include <vector>

#include "interpose/cuda/kernels/fill_kernel.h"
#include "interpose/cuda/session.h"

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
  // It puts this on a stream, or whatever else.
  void fills(const Fill& fill) { fills_.push_back(fill); }
  void launches() { ++launches_; }
  [[nodiscard]] const std::vector<Fill>& filled() const { return fills_; }
  // Of what is no such memset, that of the calls around it as well.
  [[nodiscard]] unsigned launched() const { return launches_; }
  // What a launch in it has been said to make; 0: nothing.
  [[nodiscard]] CuAddress kept() const { return kept_; }
  void keeps(CuAddress result) { kept_ = result; }

 protected:
  LibraryCall() : outer_(innermost) {
    innermost = this;
    if (outer_ != nullptr) {
      launches_ = outer_->launches_ + static_cast<unsigned>(outer_->fills_.size());
      kept_ = outer_->kept_;
    }
  }
  ~LibraryCall() {
    innermost = outer_;
    if (outer_ != nullptr) {
      outer_->launches_ = launches_ + static_cast<unsigned>(fills_.size());
      outer_->kept_ = kept_;
    }
  }

 private:
  [[nodiscard]] virtual std::optional<MatrixProduct> describe() const = 0;

  __attribute__((tls_model("initial-exec"))) static constinit thread_local LibraryCall* innermost;
  LibraryCall* outer_;
  bool described_ = false;
  std::optional<MatrixProduct> product_;
  std::vector<Fill> fills_;
  unsigned launches_ = 0;
  CuAddress kept_ = 0;
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

// Whether the product only reads this operand of its launch.
[[nodiscard]] bool only_reads(const MatrixProduct& product, const CudaOperand& operand);

// The workspace that the program has given a handle of cuBLAS.
struct Workspace {
  CuAddress address = 0;
  Bytes bytes = 0;
};
void set_workspace(const void* handle, const Workspace& workspace);
[[nodiscard]] Workspace workspace_of(const void* handle);

}  // namespace spillway::cuda
