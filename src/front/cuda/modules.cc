// What python/spillway/modules.py calls. Layer: front, cuda.
#include "platform/common/current_module.h"

extern "C" {

void spillway_module(const char* name) {
  spillway::set_current_module(name == nullptr ? std::string_view() : name);
}

}  // extern "C"
