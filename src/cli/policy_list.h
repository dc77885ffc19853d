// The policies with a line each, for --help. Layer: cli.
#pragma once

#include <string>

namespace spillway {

[[nodiscard]] std::string policy_list();

}  // namespace spillway
