// libFuzzer target of the kernel-trace/1 importer, for JSON text and for gzip.
#include "insist.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spillway::fuzz::insist(spillway::file_breach(spillway::fuzz::text(data, size)));
  return 0;
}
