// libFuzzer target of the native reader. The input is read as a file, where a mutation seldom
// survives the checksum, and as bare records of each version, behind it.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "../tests/trace/reader_contract.h"
#include "trace/native_format.h"
#include "trace/native_reader.h"
#include "trace/visitor.h"

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
  insist(spillway::file_breach(bytes));
  for (const std::uint32_t version :
       {spillway::kNativeVersion, spillway::kNativeVersionWithKernelFlags}) {
    spillway::MemorySource records(bytes);
    spillway::TraceBuilder builder;
    const spillway::Status status = spillway::read_native_records(records, version, builder);
    insist(status ? spillway::contract_breach(builder.take())
                  : spillway::contract_breach(tl::unexpected(status.error())));
  }
  return 0;
}
