// What python/spillway/modules.py calls. Layer: interpose, cuda.
#include "platform/common/process/current_module.h"

extern "C" {

void spillway_module(const char* name) {
  spillway::set_current_module(name == nullptr ? std::string_view() : name);
}

}  // extern "C"
