// The objects and arrays of kernel-trace/1, and the records that their ends complete.
// Layer: trace.
#include <utility>

#include "trace/format/kernel_trace_sax.h"

namespace spillway {

bool KernelTraceSax::start_object(std::size_t /*size*/) {
  progress_();
  if (skip_depth_ > 0) {
    ++skip_depth_;
    return true;
  }
  switch (place_) {
    case Place::kNothing:
      place_ = Place::kDocument;
      return true;
    case Place::kTensors:
      place_ = Place::kTensor;
      tensor_ = {};
      return true;
    case Place::kKernels:
      place_ = Place::kKernel;
      kernel_ = {};
      return true;
    case Place::kDocument:
    case Place::kTensor:
    case Place::kKernel:
      if (field_ == FieldId::kOther) {
        skip_depth_ = 1;
        return true;
      }
      break;
    case Place::kReads:
    case Place::kWrites:
      break;
  }
  return wrong_kind("an object");
}

bool KernelTraceSax::start_array(std::size_t /*size*/) {
  progress_();
  if (skip_depth_ > 0) {
    ++skip_depth_;
    return true;
  }
  const bool in_object =
      place_ == Place::kDocument || place_ == Place::kTensor || place_ == Place::kKernel;
  if (in_object && field_ == FieldId::kOther) {
    skip_depth_ = 1;
    return true;
  }
  if (!in_object || field_of(field_).kind != FieldKind::kList) {
    return wrong_kind("an array");
  }
  switch (field_) {
    case FieldId::kTensors:
      if ((seen_ & bit_of(FieldId::kFormat)) == 0) {
        return fail(
            "comes before \"format\"; a file that is read in a stream says first what it "
            "is");
      }
      place_ = Place::kTensors;
      return true;
    case FieldId::kKernels:
      if ((seen_ & bit_of(FieldId::kTensors)) == 0) {
        return fail(
            "comes before \"tensors\"; a file that is read in a stream has the tensors "
            "first");
      }
      place_ = Place::kKernels;
      return true;
    case FieldId::kReads:
      place_ = Place::kReads;
      return true;
    default:
      place_ = Place::kWrites;
      return true;
  }
}

bool KernelTraceSax::end_array() {
  progress_();
  if (skip_depth_ > 0) {
    --skip_depth_;
    return true;
  }
  const bool in_kernel = place_ == Place::kReads || place_ == Place::kWrites;
  place_ = in_kernel ? Place::kKernel : Place::kDocument;
  return true;
}

bool KernelTraceSax::end_object() {
  progress_();
  if (skip_depth_ > 0) {
    --skip_depth_;
    return true;
  }
  switch (place_) {
    case Place::kTensor:
      return end_tensor();
    case Place::kKernel:
      return end_kernel();
    default:
      return end_document();
  }
}

bool KernelTraceSax::end_tensor() {
  if (!complete(FieldOwner::kTensor, record_path())) {
    return false;
  }
  seen_ &= ~(bit_of(FieldId::kBytes) | bit_of(FieldId::kPersistent));
  const auto id = static_cast<TensorId>(checker_.tensor_count());
  place_ = Place::kTensors;
  return accept(checker_.tensor(tensor_, std::nullopt)) &&
         accept(visitor_.on_tensor(id, tensor_, std::nullopt));
}

bool KernelTraceSax::end_kernel() {
  if (!complete(FieldOwner::kKernel, record_path())) {
    return false;
  }
  seen_ &= bit_of(FieldId::kBytes) - 1;  // the fields of the document come first
  const auto index = static_cast<KernelIndex>(checker_.kernel_count());
  place_ = Place::kKernels;
  return accept(checker_.kernel(kernel_)) &&
         accept(visitor_.on_kernel(index, std::exchange(kernel_, Kernel{})));
}

bool KernelTraceSax::end_document() {
  place_ = Place::kNothing;
  return complete(FieldOwner::kDocument, "the document") && accept(checker_.header(header_)) &&
         accept(checker_.finish()) && accept(visitor_.on_header(std::move(header_)));
}

}  // namespace spillway
