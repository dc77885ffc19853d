// Names of errors and of calls. Fake driver.
#include <array>
#include <string_view>

#include "world.h"

namespace fake_cuda {
namespace {

struct ErrorName {
  CuResult error;
  const char* name;
  const char* text;
};
constexpr std::array kErrors = {
    ErrorName{CuResult::kSuccess, "CUDA_SUCCESS", "fake: success"},
    ErrorName{CuResult::kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "fake: a wrong argument"},
    ErrorName{CuResult::kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "fake: out of memory"},
    ErrorName{CuResult::kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "fake: not initialized"},
    ErrorName{CuResult::kDeinitialized, "CUDA_ERROR_DEINITIALIZED", "fake: the driver ends"},
    ErrorName{CuResult::kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "fake: no such device"},
    ErrorName{CuResult::kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "fake: no such context"},
    ErrorName{CuResult::kEccUncorrectable, "CUDA_ERROR_ECC_UNCORRECTABLE", "fake: a broken copy"},
    ErrorName{CuResult::kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "fake: no such handle"},
    ErrorName{CuResult::kNotFound, "CUDA_ERROR_NOT_FOUND", "fake: no such name"},
    ErrorName{CuResult::kNotReady, "CUDA_ERROR_NOT_READY", "fake: has not ended"},
    ErrorName{CuResult::kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "fake: no memory there"},
    ErrorName{CuResult::kLaunchTimeout, "CUDA_ERROR_LAUNCH_TIMEOUT", "fake: waited too long"},
    ErrorName{CuResult::kContextIsDestroyed, "CUDA_ERROR_CONTEXT_IS_DESTROYED",
              "fake: the context is gone"},
    ErrorName{CuResult::kHostMemoryAlreadyRegistered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
              "fake: pinned already"},
    ErrorName{CuResult::kHostMemoryNotRegistered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
              "fake: not pinned"},
    ErrorName{CuResult::kNotPermitted, "CUDA_ERROR_NOT_PERMITTED", "fake: not from here"},
    ErrorName{CuResult::kNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "fake: not supported"},
    ErrorName{CuResult::kUnknown, "CUDA_ERROR_UNKNOWN", "fake: unknown"},
};

struct Symbol {
  std::string_view name;  // with its suffix
  int since;
  void* function;
};

// "cuMemAlloc_v2" answers to "cuMemAlloc".
bool answers(std::string_view symbol, std::string_view name) {
  return symbol == name || (symbol.size() == name.size() + 3 && symbol.starts_with(name) &&
                            symbol.substr(name.size(), 2) == "_v");
}

}  // namespace

// Neither is a call of the driver's state, so they work at any time.
CuResult cuGetErrorName(CuResult error, const char** name) {
  for (const ErrorName& it : kErrors) {
    if (it.error == error) {
      *name = it.name;
      return CuResult::kSuccess;
    }
  }
  *name = nullptr;
  return CuResult::kInvalidValue;
}

CuResult cuGetErrorString(CuResult error, const char** string) {
  for (const ErrorName& it : kErrors) {
    if (it.error == error) {
      *string = it.text;
      return CuResult::kSuccess;
    }
  }
  *string = nullptr;
  return CuResult::kInvalidValue;
}

CuResult cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t flags,
                             CuSymbolStatus* status) {
  return call("cuGetProcAddress_v2", Needs::kNothing, text("{}, {}, {}", name, version, flags),
              [&](World&, Caller&) {
                static const std::array kSymbols = {
#define FAKE_CUDA_SYMBOL(field, symbol, since, parameters) \
  Symbol{#symbol, since, reinterpret_cast<void*>(&symbol)},
                    SPILLWAY_CUDA_CALLS(FAKE_CUDA_SYMBOL)
#undef FAKE_CUDA_SYMBOL
#define FAKE_CUDA_SYMBOL(symbol, since, parameters) \
  Symbol{#symbol, since, reinterpret_cast<void*>(&symbol)},
                        FAKE_PROGRAM_CALLS(FAKE_CUDA_SYMBOL)
#undef FAKE_CUDA_SYMBOL
                };
                *function = nullptr;
                CuSymbolStatus found = CuSymbolStatus::kNotFound;
                // The newest function of this name that is not too new.
                int newest = -1;
                for (const Symbol& it : kSymbols) {
                  if (answers(it.name, name) && it.since <= version && it.since > newest) {
                    newest = it.since;
                    found = CuSymbolStatus::kFound;
                    *function = it.function;
                  } else if (answers(it.name, name) && newest < 0) {
                    found = CuSymbolStatus::kVersionTooOld;
                  }
                }
                if (status != nullptr) {
                  *status = found;
                }
                return CuResult::kSuccess;
              });
}

CuResult cuGetProcAddress(const char* name, void** function, int version, std::uint64_t flags) {
  CuSymbolStatus status = CuSymbolStatus::kNotFound;
  const CuResult result = cuGetProcAddress_v2(name, function, version, flags, &status);
  return result == CuResult::kSuccess && status != CuSymbolStatus::kFound ? CuResult::kNotFound
                                                                          : result;
}

}  // namespace fake_cuda
