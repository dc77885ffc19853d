// libFuzzer target of the importer of memory snapshots, which are pickles.
#include "insist.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spillway::fuzz::insist(spillway::import_breach(spillway::fuzz::text(data, size)));
  return 0;
}
