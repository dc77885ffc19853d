// libFuzzer target of the importer of memory snapshots, which are pickles.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "../tests/trace/reader_contract.h"

namespace {

void insist(const std::string& breach) {
  if (!breach.empty()) {
    std::fprintf(stderr, "%s\n", breach.c_str());
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  insist(spillway::import_breach(bytes));
  return 0;
}
