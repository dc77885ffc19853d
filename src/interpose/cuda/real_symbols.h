// dlsym and dlvsym as they are in the C library, whatever stands in front of them. Layer:
// interpose, cuda.
#pragma once

namespace spillway::cuda {

// Finds them once, in the symbol table of the C library itself. Works at any moment, also before
// this library's constructors have run. Ends the process if there is none: nothing could work.
using FindSymbolCall = void* (*)(void* library, const char* name);
using FindVersionCall = void* (*)(void* library, const char* name, const char* version);
[[nodiscard]] FindSymbolCall real_dlsym();
[[nodiscard]] FindVersionCall real_dlvsym();

}  // namespace spillway::cuda
