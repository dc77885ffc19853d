// See library_functions.h.
#include "interpose/cuda/libraries/library_functions.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <string>
#include <vector>

#include "interpose/cuda/real_symbols.h"

namespace spillway::cuda {
namespace {

// What a loaded library, or one that was loaded for it, has by this name, if that is not ours.
void* found_by(const char* library, const char* name, const void* ours) {
  void* const scope = ::dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  if (scope == nullptr) {
    return nullptr;
  }
  void* const found = real_dlsym()(scope, name);
  ::dlclose(scope);
  return found == ours ? nullptr : found;
}

std::vector<std::string> libraries() {
  std::vector<std::string> names;
  const auto note = [](dl_phdr_info* library, std::size_t /*bytes*/, void* all) {
    if (library->dlpi_name != nullptr && *library->dlpi_name != '\0') {
      static_cast<std::vector<std::string>*>(all)->emplace_back(library->dlpi_name);
    }
    return 0;
  };
  ::dl_iterate_phdr(note, &names);
  return names;
}

}  // namespace

void* without_us(const char* name, const void* ours, const void* caller) {
  Dl_info info{};
  void* found = nullptr;
  if (::dladdr(caller, &info) != 0 && info.dli_fname != nullptr) {
    found = found_by(info.dli_fname, name, ours);
  }
  found = found != nullptr ? found : real_dlsym()(RTLD_NEXT, name);
  if (found == nullptr) {
    for (const std::string& library : libraries()) {
      found = found != nullptr ? found : found_by(library.c_str(), name, ours);
    }
  }
  return found;
}

bool is_loaded(std::string_view part_of_name) {
  const std::vector<std::string> all = libraries();
  return std::any_of(all.begin(), all.end(), [&](std::string_view path) {
    return path.substr(path.rfind('/') + 1).find(part_of_name) != std::string_view::npos;
  });
}

void keep_loaded(const void* function) {
  Dl_info info{};
  if (function != nullptr && ::dladdr(function, &info) != 0 && info.dli_fname != nullptr) {
    [[maybe_unused]] void* const kept =
        ::dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  }
}

}  // namespace spillway::cuda
