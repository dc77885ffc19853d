// What `spillway run` prints at the end. Layer: front.
#pragma once

#include <string>

#include "base/error.h"

namespace spillway {

// Of every session in the folder: a few lines for a person on standard error, or with `json` its
// record on standard output, one object a line. Says so where no session left a record.
Status summarize_run(const std::string& folder, bool json);

}  // namespace spillway
