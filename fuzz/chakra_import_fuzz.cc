// libFuzzer target of the importer of Chakra execution traces, alone and with the times of a Kineto
// trace.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "../tests/trace/import_examples.h"
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
  static const std::string kTimes =
      spillway::test::kineto_file({spillway::test::kineto_op("aten::mm", 12, 6.5, 12)});
  insist(spillway::import_breach(bytes, kTimes));
  static const std::string kExample = spillway::test::chakra_example();
  insist(spillway::import_breach(kExample, bytes));
  return 0;
}
