// libFuzzer target of the kernel-trace/1 importer, for JSON text and for gzip.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "../tests/trace/reader_contract.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string breach =
      spillway::file_breach(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!breach.empty()) {
    std::fprintf(stderr, "%s\n", breach.c_str());
    std::abort();
  }
  return 0;
}
