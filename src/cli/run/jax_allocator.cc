// See jax_allocator.h.
#include "cli/run/jax_allocator.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "platform/common/process/say.h"

namespace spillway {
namespace {

bool is_set(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

}  // namespace

void choose_jax_allocator(Environment& environment) {
  struct Choice {
    const char* name;
    const char* value;
  };
  // Without the second it begins by taking three quarters of the card in one allocation.
  constexpr Choice kChoices[] = {{"XLA_PYTHON_CLIENT_ALLOCATOR", "cuda_async"},
                                 {"XLA_PYTHON_CLIENT_PREALLOCATE", "false"}};
  for (const Choice& choice : kChoices) {
    if (is_set(choice.name)) {
      continue;
    }
    environment.emplace_back(choice.name, choice.value);
    if (is_set("SPILLWAY_VERBOSE")) {
      say(fmt::format("{}={} for JAX", choice.name, choice.value));
    }
  }
}

}  // namespace spillway
