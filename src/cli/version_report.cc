// See version.h.
#include <fmt/format.h>

#include "cli/version.h"
#include "platform/cuda/driver/driver.h"

namespace spillway {

std::string version_report() {
  const Result<cuda::DriverLibrary> driver = cuda::find_driver_library();
  const std::string of_driver =
      !driver ? "none: " + driver.error().message
              : fmt::format("{}, {}", driver->path,
                            driver->version == 0 ? "of an unknown version of CUDA"
                                                 : "CUDA " + cuda::version_text(driver->version));
  return fmt::format("spillway {}, commit {}\ndriver   {}", version(), commit(), of_driver);
}

}  // namespace spillway
