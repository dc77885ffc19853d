// How JAX is to take memory on a GPU. Layer: cli. docs/interposer.md, "JAX".
#pragma once

#include "cli/run/run_environment.h"

namespace spillway {

// Its own pool takes memory in large pieces and hides arrays in them; from the driver's pool it
// asks for each array by itself. What a person has set stays.
void choose_jax_allocator(Environment& environment);

}  // namespace spillway
