// libFuzzer target of the native reader. The input is read as a file, where a mutation seldom
// survives the checksum, and as bare records of each version, behind it.
#include "insist.h"
#include "trace/format/native_format.h"
#include "trace/format/native_reader.h"
#include "trace/visitor.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using spillway::contract_breach;
  using spillway::fuzz::insist;
  const std::string_view bytes = spillway::fuzz::text(data, size);
  insist(spillway::file_breach(bytes));
  for (const std::uint32_t version :
       {spillway::kNativeVersion, spillway::kNativeVersionWithKernelFlags}) {
    spillway::MemorySource records(bytes);
    spillway::TraceBuilder builder;
    const spillway::Status status = spillway::read_native_records(records, version, builder);
    insist(status ? contract_breach(builder.take())
                  : contract_breach(tl::unexpected(status.error())));
  }
  return 0;
}
