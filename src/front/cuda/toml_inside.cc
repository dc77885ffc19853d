// The code of the library that reads machine descriptions, as a part of this library: see
// fmt_inside.cc. Layer: front, cuda.
#define TOML_IMPLEMENTATION
#include <toml++/toml.h>
