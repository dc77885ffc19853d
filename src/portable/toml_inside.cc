// The code of the library that reads machine descriptions, as a part of what is linked: see
// fmt_inside.cc. Layer: portable.
#define TOML_IMPLEMENTATION
#include <toml++/toml.h>
