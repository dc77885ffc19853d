// libFuzzer target of the importer of Chakra execution traces, alone and with the times of a Kineto
// trace.
#include "../tests/trace/import_examples.h"
#include "insist.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using spillway::import_breach;
  using spillway::fuzz::insist;
  static const std::string kTimes =
      spillway::test::kineto_file({spillway::test::kineto_op("aten::mm", 12, 6.5, 12)});
  static const std::string kExample = spillway::test::chakra_example();
  const std::string_view bytes = spillway::fuzz::text(data, size);
  insist(import_breach(bytes));
  insist(import_breach(bytes, kTimes));
  insist(import_breach(kExample, bytes));
  return 0;
}
