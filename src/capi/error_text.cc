// The functions of spillway.h that tell about errors. Layer: capi.
#include "capi/failure.h"
#include "spillway/spillway.h"

extern "C" {

const char* spillwayGetErrorName(spillwayError_t error) {
  switch (static_cast<int>(error)) {
    case spillwaySuccess:
      return "spillwaySuccess";
    case spillwayErrorInvalidValue:
      return "spillwayErrorInvalidValue";
    case spillwayErrorMemoryAllocation:
      return "spillwayErrorMemoryAllocation";
    case spillwayErrorNotSupported:
      return "spillwayErrorNotSupported";
    case spillwayErrorIo:
      return "spillwayErrorIo";
    case spillwayErrorBusy:
      return "spillwayErrorBusy";
    case spillwayErrorMode:
      return "spillwayErrorMode";
    case spillwayErrorUnknown:
      return "spillwayErrorUnknown";
    default:
      return "not a spillwayError_t";
  }
}

const char* spillwayGetErrorString(spillwayError_t error) {
  switch (static_cast<int>(error)) {
    case spillwaySuccess:
      return "no error";
    case spillwayErrorInvalidValue:
      return "an argument is wrong";
    case spillwayErrorMemoryAllocation:
      return "out of memory";
    case spillwayErrorNotSupported:
      return "not supported here";
    case spillwayErrorIo:
      return "the operating system refused to read or write";
    case spillwayErrorBusy:
      return "what runs now is in the way";
    case spillwayErrorMode:
      return "the channel is in the wrong mode";
    case spillwayErrorUnknown:
      return "a defect of Spillway";
    default:
      return "not an error code of Spillway";
  }
}

const char* spillwayGetLastErrorMessage(void) { return spillway::capi::last_message(); }

}  // extern "C"
