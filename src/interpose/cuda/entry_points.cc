// The ways in which a program comes to the driver's functions: dlsym, dlvsym and cuGetProcAddress
// answer with ours where the driver would answer with a function that we catch. (Programs that are
// linked against the driver find ours because this library is loaded first.) Layer: interpose,
// cuda.
#include <dlfcn.h>

#include <cstring>
#include <string_view>

#include "interpose/cuda/hooks/cublas_hooks.h"
#include "interpose/cuda/hooks/hook_table.h"
#include "interpose/cuda/real_symbols.h"
#include "platform/common/process/service_thread.h"

// What a program means by RTLD_NEXT, and by a name alone, depends on who calls: the C library looks
// at the return address. So whatever is not ours to answer is passed on by a jump, as if we were
// not there.
asm(R"(
  .text
  .globl dlsym
  .type dlsym, @function
dlsym:
  push %rdi
  push %rsi
  sub $8, %rsp
  call spillway_cuda_answer
  add $8, %rsp
  pop %rsi
  pop %rdi
  test %rax, %rax
  jne 1f
  jmp *spillway_cuda_dlsym(%rip)
1:
  ret
  .size dlsym, .-dlsym

  .globl dlvsym
  .type dlvsym, @function
dlvsym:
  push %rdi
  push %rsi
  push %rdx
  call spillway_cuda_answer_version
  pop %rdx
  pop %rsi
  pop %rdi
  test %rax, %rax
  jne 1f
  jmp *spillway_cuda_dlvsym(%rip)
1:
  ret
  .size dlvsym, .-dlvsym
)");

namespace cuda = spillway::cuda;

extern "C" {

void* spillway_cuda_answer(void* library, const char* name);
void* spillway_cuda_answer_version(void* library, const char* name, const char* version);
[[gnu::visibility("hidden"), gnu::used]] constinit cuda::FindSymbolCall spillway_cuda_dlsym =
    nullptr;
[[gnu::visibility("hidden"), gnu::used]] constinit cuda::FindVersionCall spillway_cuda_dlvsym =
    nullptr;

}  // extern "C"

namespace spillway::cuda {
namespace {

// Who asks for dlsym itself must get ours as well.
void* own_lookup(std::string_view name, const void* found) {
  if (name == "dlsym" && found == reinterpret_cast<void*>(real_dlsym())) {
    return reinterpret_cast<void*>(&::dlsym);
  }
  if (name == "dlvsym" && found == reinterpret_cast<void*>(real_dlvsym())) {
    return reinterpret_cast<void*>(&::dlvsym);
  }
  return nullptr;
}

// A library that a thread of ours has opened is to have the driver's own functions: what it calls
// by threads of its own is no call of the program.
bool of_interest(std::string_view name) {
  return (hooked_name(name) || name == "dlsym" || name == "dlvsym") && !in_service();
}

// In a program's list of libraries ours stands first, so a name alone finds ours by itself.
void* answer(void* library, const char* name) {
  if (library == RTLD_DEFAULT) {
    return nullptr;
  }
  if (library == RTLD_NEXT) {
    return hooked_name(name) ? hook_of_symbol(name) : nullptr;
  }
  void* const found = real_dlsym()(library, name);
  if (found == nullptr) {
    return nullptr;
  }
  return hooked_name(name) ? hook_of(found) : own_lookup(name, found);
}

void* answer_cublas(void* library, const char* name) {
  return library == RTLD_DEFAULT || library == RTLD_NEXT
             ? nullptr
             : hook_of_cublas(real_dlsym()(library, name));
}

CuResult hooked(CuResult result, void** function) {
  if (result == CuResult::kSuccess && function != nullptr && *function != nullptr &&
      !in_service()) {
    if (void* const hook = hook_of(*function)) {
      *function = hook;
    }
  }
  return result;
}

}  // namespace
}  // namespace spillway::cuda

extern "C" {

// 0: the caller's own question to the C library.
void* spillway_cuda_answer(void* library, const char* name) {
  spillway_cuda_dlsym = cuda::real_dlsym();
  if (name != nullptr && cuda::is_looked_up_cublas(name) && !spillway::in_service()) {
    return cuda::answer_cublas(library, name);
  }
  return name != nullptr && cuda::of_interest(name) ? cuda::answer(library, name) : nullptr;
}

// The driver's symbols have no versions; the C library's dlsym has.
void* spillway_cuda_answer_version(void* library, const char* name, const char* version) {
  spillway_cuda_dlvsym = cuda::real_dlvsym();
  if (name == nullptr || version == nullptr || !cuda::of_interest(name) ||
      library == RTLD_DEFAULT || library == RTLD_NEXT) {
    // From anywhere behind us the next dlsym is the C library's: ours is as good.
    if (name != nullptr && version != nullptr && cuda::of_interest(name) &&
        !cuda::hooked_name(name)) {
      return std::strcmp(name, "dlsym") == 0 ? reinterpret_cast<void*>(&::dlsym)
                                             : reinterpret_cast<void*>(&::dlvsym);
    }
    return nullptr;
  }
  void* const found = cuda::real_dlvsym()(library, name, version);
  return found == nullptr          ? nullptr
         : cuda::hooked_name(name) ? cuda::hook_of(found)
                                   : cuda::own_lookup(name, found);
}

spillway::cuda::CuResult cuGetProcAddress(const char* name, void** function, int version,
                                          std::uint64_t flags) {
  return cuda::hooked(cuda::real().cuGetProcAddress(name, function, version, flags), function);
}

spillway::cuda::CuResult cuGetProcAddress_v2(const char* name, void** function, int version,
                                             std::uint64_t flags,
                                             spillway::cuda::CuSymbolStatus* status) {
  return cuda::hooked(cuda::real().cuGetProcAddress_v2(name, function, version, flags, status),
                      function);
}

}  // extern "C"
