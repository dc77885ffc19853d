// How every command says what went wrong. Layer: cli.
#pragma once

#include "base/error.h"

namespace spillway {

// Prints "spillway: MESSAGE" to standard error and returns the exit status: 2 for what a person can
// correct, else 1.
int complain(const Error& error);

}  // namespace spillway
