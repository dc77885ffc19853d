// See run_report.h.
#include "runtime/host/run_report.h"
namespace spillway {
Status write_run_report(const std::string& folder, const std::string& file) {
  (void)folder;
  (void)file;
  return {};
}
}  // namespace spillway
